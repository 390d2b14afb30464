import { scheduleEntry, toSchedule } from '../../src/schedule/entry.ts';
import { makeTimedSchedule, type TimedSchedule } from '../../src/schedule/plan.ts';
import type { QuietHours } from '../../src/schedule/window.ts';
import type { Schedule } from '../../src/schedule/schedule.ts';

export function schedule(entry: Readonly<Record<string, unknown>>): Schedule {
  return toSchedule(scheduleEntry.parse(entry));
}

export function timed(
  entry: Readonly<Record<string, unknown>>,
  timezone = 'UTC',
  quietHours: QuietHours = { start: undefined, end: undefined },
): TimedSchedule {
  return makeTimedSchedule('echo', schedule(entry), { timezone, quietHours });
}

/** The problems of an entry: key, colon, message. */
export function faults(entry: Readonly<Record<string, unknown>>): string[] {
  const parsed = scheduleEntry.safeParse(entry);
  return (parsed.error?.issues ?? []).map(({ path, message }) => `${path.join('.')}: ${message}`);
}

export const at = (text: string): number => Date.parse(text);
export const iso = (ms: number | undefined): string | undefined =>
  ms === undefined ? undefined : new Date(ms).toISOString().replace('.000Z', 'Z');
