import { fromTimestamp } from '../base/clock.ts';

const timestamp = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;

/** Whether a value is a moment as the product writes it. */
export function isMoment(value: unknown): value is string {
  return typeof value === 'string' && timestamp.test(value);
}

const units = [
  [86_400_000, 'd'],
  [3_600_000, 'h'],
  [60_000, 'm'],
  [1000, 's'],
] as const;

/** How long ago a moment was, or how long it is until then, in one unit. */
export function sayWhen(moment: string, nowMs: number): string {
  const ms = nowMs - fromTimestamp(moment);
  const distance = Math.abs(ms);
  for (const [size, name] of units) {
    if (distance < size) continue;
    const count = `${Math.floor(distance / size)}${name}`;
    return ms < 0 ? `in ${count}` : `${count} ago`;
  }
  return 'now';
}

/** A moment of today as a clock on the wall shows it. */
export function sayTime(ms: number): string {
  return new Date(ms).toTimeString().slice(0, 'hh:mm:ss'.length);
}
