export interface RetryPolicy {
  readonly maxAttempts: number;
  readonly backoffBaseMs: number;
  /** The next attempt is no sooner than after this, however soon its turn would come. */
  readonly atLeastMs?: number | undefined;
}

const DELAY_MS_MAX = 24 * 60 * 60 * 1000;
const DOUBLINGS_MAX = 40;
const CRASH_STEP_MS = 10_000;

/** The wait before the try that follows the nth failure: base·2^(n-1) + random(0, base). */
export function backoffMs(failures: number, baseMs: number, random: number): number {
  // Without a bound the power becomes infinite, and times a base of 0 no number at all.
  const doublings = Math.min(failures - 1, DOUBLINGS_MAX);
  const delay = baseMs * 2 ** doublings + random * baseMs;
  return Math.min(Math.round(delay), DELAY_MS_MAX);
}

/** The first third of the crash budget is tried again at once, then the wait grows. */
export function crashDelayMs(crashes: number, crashesMax: number): number {
  return crashes <= Math.ceil(crashesMax / 3) ? 0 : crashes * CRASH_STEP_MS;
}
