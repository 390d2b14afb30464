/** That something was written here; a hint that makes readers look sooner, never the truth itself. */
export interface Activity {
  /** Resolves soon after the next write of this process, and otherwise after this time. */
  wait(ms: number, signal?: AbortSignal): Promise<void>;
  notice(): void;
}

/** However much is written, readers are woken at most this often. */
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
        // Each takes itself off the list, which a walk over a set allows.
        for (const done of waiting) done();
      }, COALESCE_MS);
    },
  };
}
