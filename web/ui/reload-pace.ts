/** How often something is asked again: at once when little happens, seldom when much does. */
export interface Pace {
  /** There is something new. */
  ask(): void;
  stop(): void;
}

/** The server tells once in a second; who asks at each of these is one of many who do. */
const BEAT_MS = 1000;
const LONGEST_MS = 5000;

/** The pauses grow while there is something new after each, and are short again after a quiet time. */
export function makePace(look: () => boolean): Pace {
  let pauseMs = BEAT_MS;
  let lookedAt = 0;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const wait = (ms: number): void => {
    timer = setTimeout(begin, ms);
  };
  const begin = (): void => {
    timer = undefined;
    const quietMs = Date.now() - lookedAt - pauseMs;
    if (!look()) {
      wait(BEAT_MS);
      return;
    }
    lookedAt = Date.now();
    pauseMs = quietMs > 2 * BEAT_MS ? BEAT_MS : Math.min(LONGEST_MS, 2 * pauseMs);
  };
  return {
    ask() {
      if (timer !== undefined) return;
      const leftMs = lookedAt + pauseMs - Date.now();
      if (leftMs <= 0) begin();
      else wait(leftMs);
    },
    stop: () => clearTimeout(timer),
  };
}
