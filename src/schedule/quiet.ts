import { moveInto, type DayWindow } from './window.ts';
import type { Zone } from './zone.ts';

/** Whole hours of the day in which nothing is to start; a side that is not said is undefined. */
export interface QuietHours {
  readonly start: number | undefined;
  /** The first hour that is not quiet any more. */
  readonly end: number | undefined;
}

/** What becomes of work that comes due meanwhile: it is left out, or waits for their end. */
export const quietActions = ['skip', 'defer'] as const;
export type QuietAction = (typeof quietActions)[number];

/**
 * Until when it is quiet, or undefined when it is not. Each side that is not said is taken from the
 * usual hours; without both there are none, and none when they begin and end at the same hour.
 */
export function quietUntil(
  own: QuietHours,
  usual: QuietHours,
  nowMs: number,
  zone: Zone,
): number | undefined {
  const start = own.start ?? usual.start;
  const end = own.end ?? usual.end;
  if (start === undefined || end === undefined || start === end) return undefined;
  const awake: DayWindow = { start: end * 60, end: start * 60 };
  const until = moveInto(
    { onlyBetween: awake, notOn: [], preferredWindow: undefined },
    nowMs,
    zone,
  );
  return until === nowMs ? undefined : until;
}
