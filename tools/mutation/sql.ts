/** A change of SQL that stands in a template, counted from the template's beginning. */
export interface Lie {
  readonly start: number;
  readonly end: number;
  readonly replacement: string;
  /** The replacement, in few words. */
  readonly told: string;
}

/**
 * The lies about one template: conditions that are not asked, and words that are nearly right. In
 * `masked` what is put into it is blotted out, letter by letter: only its own words are seen.
 */
export function lieAboutSql(template: string, masked: string): Lie[] {
  if (!/\b(select|update|delete|insert)\b| = | is (not )?null|exists \(/.test(masked)) return [];
  return [...lieAboutConditions(template, masked), ...lieAboutWords(masked)];
}

/**
 * A narrowing condition could always hold, and a widening one never; a choice could go either way.
 */
const truthsAfter: Readonly<Record<string, readonly boolean[]>> = {
  where: [true],
  and: [true],
  on: [true],
  or: [false],
  when: [true, false],
};

/** The condition stays where it is, because values are given to parameters by their order. */
function lieAboutConditions(template: string, masked: string): Lie[] {
  const lies: Lie[] = [];
  for (const found of masked.matchAll(/^`|\b(?:where|and|on|or|when)\s+/g)) {
    const start = found.index + found[0].length;
    const end = endOfCondition(masked, start);
    const word = found[0].trim();
    const condition = template.slice(start, end);
    // Parts that are only joined here are mutated where they are written.
    const isPart = word === '`' && condition.startsWith('${') && condition.endsWith('}');
    if (isPart || !isCondition(masked.slice(start, end))) continue;
    for (const truth of truthsAfter[word] ?? [true]) {
      const replacement = truth ? `(true or (${condition}))` : `(false and (${condition}))`;
      lies.push({ start, end, replacement, told: String(truth) });
    }
  }
  return lies;
}

/** Behind the last word of it. */
function endOfCondition(masked: string, start: number): number {
  let depth = 0;
  let end = start;
  let before = '';
  for (const { 0: token, index } of masked.slice(start).matchAll(/\$\{x*\}|'[^']*'|\w+|\S/g)) {
    if (depth === 0 && isBehind(token, before)) break;
    if (token === '(' || token === 'case') depth += 1;
    if (token === ')' || token === 'end') depth -= 1;
    end = start + index + token.length;
    before = token;
  }
  return end;
}

const behind = new Set(
  ') , ` and or then else end order group limit returning union from set where left cross join'.split(
    ' ',
  ),
);

function isBehind(token: string, before: string): boolean {
  if (token === 'from' && before === 'distinct') return false;
  // A clause after an operand without an operator isn't part of it, such as a lock.
  const isOperand = /^[?)']$|\}$|^'/.test(before);
  return behind.has(token) || (isOperand && token.startsWith('$'));
}

/** Not a query, nor a list of columns, and nothing that holds anyway. */
function isCondition(masked: string): boolean {
  if (/^(select|update|insert|delete|with|conflict|true)\b/.test(masked)) return false;
  let outer = masked;
  for (let last = ''; last !== outer; outer = outer.replaceAll(/\([^()]*\)/g, '#')) last = outer;
  if (outer === '#') return !/^\((select|with)\b/.test(masked);
  return / (=|<>|<=|>=|<|>|is|in) |exists #|^\$\{x+\}$/.test(outer);
}

const words: readonly (readonly [word: RegExp, other: string])[] = [
  [/(?<= )<=(?= )/g, '<'],
  [/(?<= )>=(?= )/g, '>'],
  [/(?<= )<(?= )/g, '<='],
  [/(?<= )>(?= )/g, '>='],
  [/(?<= )desc\b/g, 'asc'],
  [/\bmin(?=\()/g, 'max'],
  [/\bmax(?=\()/g, 'min'],
  // A column that is set to null keeps its value.
  [/\b(\w+) = null\b/g, '$1 = $1'],
];

function lieAboutWords(masked: string): Lie[] {
  return words.flatMap(([word, other]) =>
    [...masked.matchAll(word)].map(({ 0: found, 1: name = '', index: start }) => {
      const replacement = other.replaceAll('$1', name);
      return { start, end: start + found.length, replacement, told: replacement };
    }),
  );
}
