/** Compares output that a page shows with what the program printed now. */

interface Volatile {
  readonly pattern: RegExp;
  /** Text of a pattern that the printed value must match. */
  readonly accepts: string;
}

// In this order: the first that matches at a position is used.
const volatiles: readonly Volatile[] = [
  {
    pattern: /\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:\d\d)/y,
    accepts: String.raw`(\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:\d\d))`,
  },
  {
    pattern: /[0-9a-f]{8}(?:-[0-9a-f]{4,12}){1,4}/y,
    accepts: '[0-9a-f]{8}(?:-[0-9a-f]{4,12}){1,4}',
  },
  { pattern: /(?:duct|whsec)_[\w-]+/y, accepts: String.raw`(?:duct|whsec)_[\w-]+` },
  { pattern: /[\w/+=-]*[0-9a-f]{24,}[\w/+=-]*/y, accepts: String.raw`[\w/+=-]{16,}` },
  { pattern: /cli:[\w.-]+/y, accepts: String.raw`cli:[\w.-]+` },
  {
    pattern: /(?:\w*_(?:ms|seconds)|pid)": ?\d+/y,
    accepts: String.raw`(?:\w*_(?:ms|seconds)|pid)": ?\d+`,
  },
  { pattern: /\bpid \d+/y, accepts: String.raw`pid \d+` },
  {
    pattern: /\d+(?:\.\d+)? ?(?:[KMG]i?B|B|%)(?!\w)/y,
    accepts: String.raw`\d+(?:\.\d+)? ?(?:[KMG]i?B|B|%)`,
  },
  {
    pattern: /(?:\d+(?:\.\d+)? ?(?:ms|min|[smhd]) ?)+(?!\w)/y,
    accepts: String.raw`(?:\d+(?:\.\d+)? ?(?:ms|min|[smhd]) ?)+`,
  },
];

/** A short id, as tables and messages show it: hexadecimal with a digit and a letter. */
const shortId = /\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{8,13}\b/y;

const aDay = 24 * 3_600_000;

/**
 * True if the printed text is what the page shows. Ids, tokens, durations, sizes, and times of about
 * now may differ; a line `…` stands for any number of lines, and `…` within a line for any text.
 */
export function isShown(shown: string, printed: string, now: number): boolean {
  const pattern = new RegExp(`^${toPattern(tidy(shown))}$`);
  const found = pattern.exec(tidy(printed));
  if (found === null) return false;
  const times = tidy(shown).match(/\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:\d\d)/g) ?? [];
  return found
    .slice(1)
    .every((time, index) => time === times[index] || Math.abs(Date.parse(time) - now) < 2 * aDay);
}

/** Progress of a wait. The command shows only the failures that it sees in time. */
const progress = /^attempt \d+ of \d+ failed: .*next attempt/;

/** Columns are as wide as their values, and those differ. */
function tidy(text: string): string {
  const lines = text.split('\n').filter((line) => !progress.test(line));
  return lines
    .map((line) => line.replaceAll(/ {2,}/g, ' ').trimEnd())
    .join('\n')
    .trim();
}

function toPattern(shown: string): string {
  let measures = false;
  const parts = shown.split('\n').map((line) => {
    // Rows below a heading with milliseconds or process ids hold plain numbers that differ.
    if (/^[#A-Z].* (?:MS|PID)\b/.test(line)) measures = true;
    if (line === '') measures = false;
    return line === '…' ? '[^]*?' : lineToPattern(line, measures);
  });
  return parts.join('\n').replaceAll('[^]*?\n', '(?:[^]*?\n)??').replaceAll('\n[^]*?', '[^]*?');
}

function lineToPattern(line: string, measures: boolean): string {
  let pattern = '';
  for (let at = 0; at < line.length;) {
    const rest = measures
      ? [...volatiles, { pattern: /\d+/y, accepts: String.raw`\d+` }]
      : volatiles;
    const all = [...rest, { pattern: shortId, accepts: '[0-9a-f]{8,13}' }];
    const isInWord = /\w/.test(line[at - 1] ?? '');
    const one = isInWord
      ? undefined
      : all.find((candidate) => matchAt(candidate.pattern, line, at) > 0);
    if (one === undefined) {
      const character = line[at] ?? '';
      pattern +=
        character === '…' ? '.*' : character.replace(/[\\^$.*+?()[\]{}|/-]/, String.raw`\$&`);
      at += 1;
    } else {
      pattern += one.accepts;
      at += matchAt(one.pattern, line, at);
    }
  }
  return pattern;
}

function matchAt(pattern: RegExp, line: string, at: number): number {
  pattern.lastIndex = at;
  return pattern.exec(line)?.[0].trimEnd().length ?? 0;
}
