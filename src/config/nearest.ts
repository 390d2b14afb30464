/** Finds the known word that the user most likely meant. */
export function nearest(word: string, known: readonly string[]): string | undefined {
  const given = normalize(word);
  const [completed, another] = known.filter((candidate) => normalize(candidate).startsWith(given));
  const isUnique = completed !== undefined && another === undefined;
  if (isUnique && given.length >= PREFIX_CHARS_MIN) return completed;
  let best: string | undefined;
  let bestDistance = Math.max(1, Math.floor(given.length / 3)) + 1;
  for (const candidate of known) {
    const distance = editDistance(given, normalize(candidate));
    if (distance < bestDistance) {
      best = candidate;
      bestDistance = distance;
    }
  }
  return best;
}

/** A shorter prefix is ambiguous. */
const PREFIX_CHARS_MIN = 3;

/** Suggests a known word, or lists them all. */
export function suggest(word: string, known: readonly string[], what: string): string {
  const close = nearest(word, known);
  if (close !== undefined) return `Did you mean ${close}?`;
  return known.length === 0 ? `There are no ${what}.` : `The ${what} are ${known.join(', ')}.`;
}

/** Ignores case and separators: `maxWorkers` and `max-workers` mean `max_workers`. */
function normalize(word: string): string {
  return word.slice(0, 64).toLowerCase().replaceAll(/[-_ ]/g, '');
}

/** Counts insertions, deletions, replacements and swaps of neighbors. */
function editDistance(a: string, b: string): number {
  let before: number[] = [];
  let above = Array.from({ length: b.length + 1 }, (_, column) => column);
  for (let row = 1; row <= a.length; row += 1) {
    const current = [row];
    for (let column = 1; column <= b.length; column += 1) {
      const same = a[row - 1] === b[column - 1] ? 0 : 1;
      let cost = Math.min(
        at(above, column) + 1,
        at(current, column - 1) + 1,
        at(above, column - 1) + same,
      );
      const swapped = a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1];
      if (row > 1 && column > 1 && swapped) cost = Math.min(cost, at(before, column - 2) + 1);
      current.push(cost);
    }
    before = above;
    above = current;
  }
  return at(above, b.length);
}

function at(row: readonly number[], column: number): number {
  return row[column] ?? Number.POSITIVE_INFINITY;
}
