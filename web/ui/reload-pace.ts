/** Limits how often data is reloaded: at once after a quiet time, less often while events keep coming. */
export interface ReloadPace {
  /** Requests a reload, because there is new data. */
  request(): void;
  stop(): void;
}

/** The service sends events once per second; many open pages shouldn't all reload each time. */
const BEAT_MS = 1000;
const LONGEST_MS = 5000;

/**
 * Doubles the pause while each pause ends with new data, and resets it after a quiet time. `reload`
 * returns false if it can't run now.
 */
export function makeReloadPace(reload: () => boolean): ReloadPace {
  let pauseMs = BEAT_MS;
  let reloadedAt = 0;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const schedule = (ms: number): void => {
    timer = setTimeout(reloadNow, ms);
  };
  const reloadNow = (): void => {
    timer = undefined;
    const quietMs = Date.now() - reloadedAt - pauseMs;
    if (!reload()) {
      schedule(BEAT_MS);
      return;
    }
    reloadedAt = Date.now();
    pauseMs = quietMs > 2 * BEAT_MS ? BEAT_MS : Math.min(LONGEST_MS, 2 * pauseMs);
  };
  return {
    request() {
      if (timer !== undefined) return;
      const leftMs = reloadedAt + pauseMs - Date.now();
      if (leftMs <= 0) reloadNow();
      else schedule(leftMs);
    },
    stop: () => clearTimeout(timer),
  };
}
