/** Wakes readers of events after a write of this process. Other processes write without waking them. */
export interface Activity {
  /** Resolves soon after the next write of this process, and otherwise after this time. */
  wait(ms: number, signal?: AbortSignal): Promise<void>;
  /** Reports a write. */
  notice(): void;
}

/** The shortest time between two wake-ups, however much is written. */
const COALESCE_MS = 20;

export function makeActivity(): Activity {
  const waiting = new Set<() => void>();
  let coming: NodeJS.Timeout | undefined;
  return {
    wait(ms, signal) {
      return new Promise((resolve) => {
        const done = (): void => {
          clearTimeout(timer);
          waiting.delete(done);
          signal?.removeEventListener('abort', done);
          resolve();
        };
        const timer = setTimeout(done, ms);
        waiting.add(done);
        signal?.addEventListener('abort', done);
        if (signal?.aborted === true) done();
      });
    },
    notice() {
      if (waiting.size === 0) return;
      coming ??= setTimeout(() => {
        coming = undefined;
        // Each call removes itself from the set, which is allowed during the iteration.
        for (const done of waiting) done();
      }, COALESCE_MS);
    },
  };
}
