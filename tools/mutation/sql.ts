/** Change in an SQL template, with offsets from its start. */
export interface SqlMutant {
  readonly start: number;
  readonly end: number;
  readonly replacement: string;
  /** Short form of the replacement. */
  readonly label: string;
}

/**
 * Lists the mutants of one template: conditions that are always true or false, and similar operators.
 * In `masked` every inserted expression is replaced by as many `x`.
 */
export function mutateSql(template: string, masked: string): SqlMutant[] {
  if (!/\b(select|update|delete|insert)\b| = | is (not )?null|exists \(/.test(masked)) return [];
  return [...mutateConditions(template, masked), ...mutateWords(masked)];
}

/**
 * Values that replace a condition after each keyword: the value that changes the most rows.
 */
const truthsAfter: Readonly<Record<string, readonly boolean[]>> = {
  where: [true],
  and: [true],
  on: [true],
  or: [false],
  when: [true, false],
};

/** Replaces conditions. Their text stays, because parameters are bound by their order. */
function mutateConditions(template: string, masked: string): SqlMutant[] {
  const mutants: SqlMutant[] = [];
  for (const found of masked.matchAll(/^`|\b(?:where|and|on|or|when)\s+/g)) {
    const start = found.index + found[0].length;
    const end = endOfCondition(masked, start);
    const word = found[0].trim();
    const condition = template.slice(start, end);
    // A condition that is only inserted here is mutated where it is written.
    const isPart = word === '`' && condition.startsWith('${') && condition.endsWith('}');
    if (isPart || !isCondition(masked.slice(start, end))) continue;
    for (const truth of truthsAfter[word] ?? [true]) {
      const replacement = truth ? `(true or (${condition}))` : `(false and (${condition}))`;
      mutants.push({ start, end, replacement, label: String(truth) });
    }
  }
  return mutants;
}

/** Finds the end of a condition. */
function endOfCondition(masked: string, start: number): number {
  let depth = 0;
  let end = start;
  let before = '';
  for (const { 0: token, index } of masked.slice(start).matchAll(/\$\{x*\}|'[^']*'|\w+|\S/g)) {
    if (depth === 0 && endsCondition(token, before)) break;
    if (token === '(' || token === 'case') depth += 1;
    if (token === ')' || token === 'end') depth -= 1;
    end = start + index + token.length;
    before = token;
  }
  return end;
}

const conditionEnds = new Set(
  ') , ` and or then else end order group limit returning union from set where left cross join'.split(
    ' ',
  ),
);

function endsCondition(token: string, before: string): boolean {
  if (token === 'from' && before === 'distinct') return false;
  // A clause after an operand without an operator isn't part of it, such as a lock.
  const isOperand = /^[?)']$|\}$|^'/.test(before);
  return conditionEnds.has(token) || (isOperand && token.startsWith('$'));
}

/** True for a condition, and not for a query, a list of columns, or `true`. */
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

function mutateWords(masked: string): SqlMutant[] {
  return words.flatMap(([word, other]) =>
    [...masked.matchAll(word)].map(({ 0: found, 1: name = '', index: start }) => {
      const replacement = other.replaceAll('$1', name);
      return { start, end: start + found.length, replacement, label: replacement };
    }),
  );
}
