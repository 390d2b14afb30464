// Joiners and variation selectors belong to some scripts and to emoji, but not to Latin words.
const joiners = String.raw`[\u{200C}\u{200D}\u{FE00}-\u{FE0F}]`;
const strayed = String.raw`(?<=(?:^|\p{Script=Latin})${joiners}*)${joiners}`;
const hidden = String.raw`(?!${joiners})\p{Default_Ignorable_Code_Point}|${strayed}`;
// A letter has a few combining marks at most; many of them are drawn over the lines above it.
const piled = String.raw`(?<=\p{M}{4})\p{M}`;
const unseen = new RegExp(
  String.raw`[\p{Cc}\p{Cs}\p{Zl}\p{Zp}\p{Bidi_Control}]|${hidden}|${piled}`,
  'gu',
);
const short: Readonly<Record<string, string>> = { '\r': '\\r', '\t': '\\t' };
const lineBreaks = /[ \t]*\r?\n\s*/g;
/** Replaces a line break in text that is shown on one line. */
const LINE_BREAK = ' ↵ ';

/**
 * Returns the text on one line. It escapes characters that move a terminal's cursor, break the line,
 * change the direction of writing or are invisible. The output of plugins is shown only through this
 * function. JSON keeps its meaning.
 */
export function toVisibleText(text: string): string {
  const line = text.replaceAll(lineBreaks, LINE_BREAK);
  return line.replaceAll(unseen, (char) => short[char] ?? escapeUnicode(char));
}

/** Puts a message on one line, because messages are read in lists, in logs and inside JSON. */
export function joinLines(message: string): string {
  return message.includes('\n') ? message.trim().replaceAll(lineBreaks, ' ') : message;
}

/** Replaces escaped line breaks in JSON or inspected text that is shown to users. */
export function showEscapedBreaks(text: string): string {
  return text.replaceAll(/(?<!\\)((?:\\\\)*)(?:\\r)?\\n/g, `$1${LINE_BREAK}`);
}

function escapeUnicode(char: string): string {
  return char
    .split('')
    .map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
    .join('');
}

/** Returns the content of a quoted string in a header. Text without quotes is returned unchanged. */
export function unquote(text: string): string {
  const quoted = /^"((?:[^"\\]|\\["\\])*)"$/.exec(text)?.[1];
  return quoted === undefined ? text : quoted.replaceAll(/\\(.)/g, '$1');
}

/** Quotes an argument for a shell, so that text from outside can't become part of the command. */
export function quoteShell(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", String.raw`'\''`)}'`;
}

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
        costAt(above, column) + 1,
        costAt(current, column - 1) + 1,
        costAt(above, column - 1) + same,
      );
      const swapped = a[row - 1] === b[column - 2] && a[row - 2] === b[column - 1];
      if (row > 1 && column > 1 && swapped) cost = Math.min(cost, costAt(before, column - 2) + 1);
      current.push(cost);
    }
    before = above;
    above = current;
  }
  return costAt(above, b.length);
}

function costAt(row: readonly number[], column: number): number {
  return row[column] ?? Number.POSITIVE_INFINITY;
}
