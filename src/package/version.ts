/** A version as semver.org defines it, such as `1.2.0` or `2.0.0-beta.1`. Text after `+` is ignored. */
export interface Version {
  readonly numbers: readonly [major: number, minor: number, patch: number];
  /** Empty for a release. */
  readonly pre: readonly (string | number)[];
}

const NUMBER = '(0|[1-9]\\d{0,8})';
const WORD = '(?:0|[1-9]\\d*|\\d*[A-Za-z-][0-9A-Za-z-]*)';
const whole = new RegExp(
  `^${NUMBER}\\.${NUMBER}\\.${NUMBER}(?:-(${WORD}(?:\\.${WORD})*))?(?:\\+[0-9A-Za-z.-]+)?$`,
);

export function parseVersion(text: string): Version | undefined {
  const match = whole.exec(text);
  if (match === null) return undefined;
  const [major, minor, patch] = [Number(match[1]), Number(match[2]), Number(match[3])];
  const pre = (match[4] ?? '').split('.').filter((word) => word !== '');
  return { numbers: [major, minor, patch], pre: pre.map(toIdentifier) };
}

/** Returns a negative number if the first is older. Text that isn't a version is older than versions. */
export function compareVersions(a: string, b: string): number {
  const [first, second] = [parseVersion(a), parseVersion(b)];
  if (first === undefined || second === undefined) {
    return Number(first !== undefined) - Number(second !== undefined);
  }
  return compare(first, second);
}

/** Returns the newest release, or the newest pre-release if there is no release. */
export function findLatest(versions: readonly string[]): string | undefined {
  const released = versions.filter((version) => parseVersion(version)?.pre.length === 0);
  const among = released.length > 0 ? released : versions;
  return among.toSorted(compareVersions).at(-1);
}

/** A range: comparisons that must all hold, such as `>=1.2.0 <2.0.0`, `^1.2.0`, `~1.2.0` or `1.2.0`. */
export type Range = readonly Comparison[];

export interface Comparison {
  readonly operator: '<' | '<=' | '=' | '>=' | '>';
  readonly version: Version;
}

export function parseRange(text: string): Range | undefined {
  const parts = text
    .trim()
    .split(/\s+/)
    .map((part) => parseComparison(part));
  const isWhole = parts.every((part) => part !== undefined);
  return isWhole ? parts.flatMap((part) => part ?? []) : undefined;
}

/** Checks the version of a plugin. Its manifest may say `1` or `1.0`: missing numbers are 0. */
export function satisfies(version: string, range: Range): boolean {
  const padded = /^\d+(\.\d+)?$/.test(version)
    ? `${version}.0.0`.split('.').slice(0, 3)
    : undefined;
  const parsed = parseVersion(padded?.join('.') ?? version);
  if (parsed === undefined) return false;
  return range.every((comparison) => holds(compare(parsed, comparison.version), comparison));
}

function parseComparison(text: string): Comparison[] | undefined {
  const match = /^(<=|>=|<|>|=|\^|~)?(.+)$/.exec(text);
  const version = match?.[2] === undefined ? undefined : parseVersion(match[2]);
  if (version === undefined) return undefined;
  const operator = match?.[1] ?? '=';
  if (operator !== '^' && operator !== '~') {
    return [{ operator: operator as Comparison['operator'], version }];
  }
  const next: Version = { numbers: upperBound(version.numbers, operator), pre: [] };
  return [
    { operator: '>=', version },
    { operator: '<', version: next },
  ];
}

/** Returns the upper bound: `^` keeps the first number that isn't 0, `~` the first two. */
function upperBound(
  [major, minor, patch]: Version['numbers'],
  operator: '^' | '~',
): Version['numbers'] {
  if (operator === '~') return [major, minor + 1, 0];
  if (major > 0) return [major + 1, 0, 0];
  return minor > 0 ? [0, minor + 1, 0] : [0, 0, patch + 1];
}

function holds(order: number, { operator }: Comparison): boolean {
  if (order === 0) return operator.includes('=');
  return order < 0 ? operator.startsWith('<') : operator.startsWith('>');
}

function compare(a: Version, b: Version): number {
  for (const [index, number] of a.numbers.entries()) {
    const order = number - (b.numbers[index] ?? 0);
    if (order !== 0) return order;
  }
  // A release is newer than its pre-releases.
  if (a.pre.length === 0 || b.pre.length === 0) return b.pre.length - a.pre.length;
  for (const [index, identifier] of a.pre.entries()) {
    const order = compareIdentifiers(identifier, b.pre[index]);
    if (order !== 0) return order;
  }
  return a.pre.length - b.pre.length;
}

function compareIdentifiers(a: string | number, b: string | number | undefined): number {
  if (b === undefined) return 1;
  if (typeof a === 'number' && typeof b === 'number') return a - b;
  if (typeof a !== typeof b) return typeof a === 'number' ? -1 : 1;
  return a === b ? 0 : String(a) < String(b) ? -1 : 1;
}

function toIdentifier(word: string): string | number {
  return /^\d{1,15}$/.test(word) ? Number(word) : word;
}
