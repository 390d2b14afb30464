/** Durations as people write them: numbers with units, the largest unit first. */
const unitMs = {
  w: 7 * 24 * 60 * 60 * 1000,
  d: 24 * 60 * 60 * 1000,
  h: 60 * 60 * 1000,
  m: 60 * 1000,
  s: 1000,
  ms: 1,
} as const;

type Unit = keyof typeof unitMs;
const units = Object.keys(unitMs) as Unit[];

export type ParsedDuration =
  | { readonly ok: true; readonly ms: number }
  | { readonly ok: false; readonly message: string; readonly hint: string };

const FORMS = 'Write it like 200ms, 5s, 5m, 1h30m, 1.5d or 2w.';

export function parseDuration(text: string): ParsedDuration {
  // Zero needs no unit.
  if (text === '0') return { ok: true, ms: 0 };
  if (/^\d+(\.\d+)?$/.test(text)) {
    return refuse('needs a unit', `Write ${text}s for seconds, ${text}m for minutes, and so on.`);
  }
  if (!/^(\d+(\.\d+)?(ms|[wdhms]))+$/.test(text)) return refuse('is not a duration', FORMS);
  let ms = 0;
  let previous = -1;
  for (const [, digits, unit] of text.matchAll(/(\d+(?:\.\d+)?)(ms|[wdhms])/g)) {
    const rank = units.indexOf(unit as Unit);
    if (rank <= previous) return refuse('repeats a unit or has them out of order', FORMS);
    previous = rank;
    ms += Number(digits) * unitMs[unit as Unit];
  }
  if (ms > Number.MAX_SAFE_INTEGER) return refuse('is longer than can be counted', FORMS);
  return { ok: true, ms: Math.round(ms) };
}

/** Formats as days, hours, minutes, seconds and milliseconds; `parseDuration` reads it back. */
export function formatDuration(ms: number): string {
  let left = Math.max(0, Math.round(ms));
  if (left === 0) return '0s';
  let text = '';
  for (const unit of units) {
    // Thirty days read better than four weeks and two days.
    if (unit === 'w') continue;
    const count = Math.floor(left / unitMs[unit]);
    if (count > 0) text += `${count}${unit}`;
    left -= count * unitMs[unit];
  }
  return text;
}

function refuse(message: string, hint: string): ParsedDuration {
  return { ok: false, message, hint };
}

/** Sizes as people write them. KB, MB and GB count as KiB, MiB and GiB. */

const UNITS: Readonly<Record<string, number>> = { '': 1, k: 1024, m: 1024 ** 2, g: 1024 ** 3 };
const SIZE = /^(\d{1,15}(?:\.\d{1,6})?)\s*([kmg]?)(?:i?b)?$/i;

export const BYTE_SIZE_FORMS = 'Write it like 512MiB, 1.5GiB or 1048576.';

/** Returns the bytes; undefined if the text isn't a size. */
export function parseByteSize(text: string): number | undefined {
  const [, number, unit = ''] = SIZE.exec(text.trim()) ?? [];
  if (number === undefined) return undefined;
  return Math.round(Number(number) * (UNITS[unit.toLowerCase()] ?? 1));
}

/** Formats in the largest unit with a value of at least 1, with at most one decimal: `512MiB`, `1.5GiB`. */
export function formatByteSize(bytes: number): string {
  for (const [unit, size] of [
    ['GiB', 1024 ** 3],
    ['MiB', 1024 ** 2],
    ['KiB', 1024],
  ] as const) {
    if (bytes >= size) return `${Math.round((bytes / size) * 10) / 10}${unit}`;
  }
  return `${bytes}B`;
}
