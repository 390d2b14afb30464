/** Sizes as people write them. KB, MB and GB count as KiB, MiB and GiB. */

const UNITS: Readonly<Record<string, number>> = { '': 1, k: 1024, m: 1024 ** 2, g: 1024 ** 3 };
const SIZE = /^(\d{1,15}(?:\.\d{1,6})?)\s*([kmg]?)(?:i?b)?$/i;

export const BYTE_SIZE_FORMS = 'Write it like 512MiB, 1.5GiB or 1048576.';

/** Undefined for what is not a size. */
export function parseByteSize(text: string): number | undefined {
  const [, number, unit = ''] = SIZE.exec(text.trim()) ?? [];
  if (number === undefined) return undefined;
  return Math.round(Number(number) * (UNITS[unit.toLowerCase()] ?? 1));
}

/** The largest unit in which it is at least 1, with one decimal at most: `512MiB`, `1.5GiB`. */
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
