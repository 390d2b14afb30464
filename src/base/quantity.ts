export const KIB = 1024;
export const MIB = 1024 * KIB;
export const GIB = 1024 * MIB;
export const SECOND = 1000;
export const MINUTE = 60 * SECOND;
export const HOUR = 60 * MINUTE;
export const DAY = 24 * HOUR;

/** The units of durations in configuration files and requests, the largest one first. */
const unitMs = { w: 7 * DAY, d: DAY, h: HOUR, m: MINUTE, s: SECOND, ms: 1 } as const;

type Unit = keyof typeof unitMs;
const units = Object.keys(unitMs) as Unit[];

/** Why a text can't be parsed. The message is the predicate of a sentence about its key. */
interface ParseFault {
  readonly ok: false;
  readonly message: string;
  readonly hint: string;
}

export type ParseResult<T> = { readonly ok: true; readonly value: T } | ParseFault;

export function parseOk<T>(value: T): ParseResult<T> {
  return { ok: true, value };
}

export function parseFault(message: string, hint: string): ParseFault {
  return { ok: false, message, hint };
}

type ParsedDuration = { readonly ok: true; readonly ms: number } | ParseFault;

const FORMS = 'Write it like 200ms, 5s, 5m, 1h30m, 1.5d or 2w.';

export function parseDuration(text: string): ParsedDuration {
  // Zero needs no unit.
  if (text === '0') return { ok: true, ms: 0 };
  if (/^\d+(\.\d+)?$/.test(text)) {
    return parseFault(
      'needs a unit',
      `Write ${text}s for seconds, ${text}m for minutes, and so on.`,
    );
  }
  if (!/^(\d+(\.\d+)?(ms|[wdhms]))+$/.test(text)) return parseFault('is not a duration', FORMS);
  let ms = 0;
  let previous = -1;
  for (const [, digits, unit] of text.matchAll(/(\d+(?:\.\d+)?)(ms|[wdhms])/g)) {
    const rank = units.indexOf(unit as Unit);
    if (rank <= previous) return parseFault('repeats a unit or has its units out of order', FORMS);
    previous = rank;
    ms += Number(digits) * unitMs[unit as Unit];
  }
  if (ms > Number.MAX_SAFE_INTEGER) return parseFault('is too long', FORMS);
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

/** The units of sizes. KB, MB and GB count as KiB, MiB and GiB. */
const unitBytes: Readonly<Record<string, number>> = { '': 1, k: KIB, m: MIB, g: GIB };
const SIZE = /^(\d{1,15}(?:\.\d{1,6})?)\s*([kmg]?)(?:i?b)?$/i;

export const BYTE_SIZE_FORMS = 'Write it like 512MiB, 1.5GiB or 1048576.';

/** Returns the bytes; undefined if the text isn't a size. */
export function parseByteSize(text: string): number | undefined {
  const [, number, unit = ''] = SIZE.exec(text.trim()) ?? [];
  if (number === undefined) return undefined;
  return Math.round(Number(number) * (unitBytes[unit.toLowerCase()] ?? 1));
}

/** Formats in the largest unit with a value of at least 1, with at most one decimal: `512MiB`, `1.5GiB`. */
export function formatByteSize(bytes: number): string {
  for (const [unit, size] of [
    ['GiB', GIB],
    ['MiB', MIB],
    ['KiB', KIB],
  ] as const) {
    if (bytes >= size) return `${Math.round((bytes / size) * 10) / 10}${unit}`;
  }
  return `${bytes}B`;
}
