/** What runs in the background: started once, stopped once, both finished when they resolve. */
export interface Service {
  readonly name: string;
  start(): Promise<void>;
  stop(): Promise<void>;
}

export interface Loop extends Service {
  /** The next round comes at once, and the interval is asked for again. */
  soon(): void;
}

export interface LoopOptions {
  readonly name: string;
  /** Asked for before each wait, because a reload may change it. */
  readonly everyMs: () => number;
  /** The first round comes at once, not after the first interval. */
  readonly atOnce?: boolean;
  /** One round. What it throws goes to `onError`, and the loop goes on. */
  readonly runOnce: () => Promise<void>;
  readonly onError: (error: unknown) => void;
}

/** A duty repeated at an interval, one round at a time; stopping waits for the round under way. */
export function makeLoop({ name, everyMs, atOnce, runOnce, onError }: LoopOptions): Loop {
  let timer: NodeJS.Timeout | undefined;
  let round: Promise<void> = Promise.resolve();
  let state: 'new' | 'waiting' | 'busy' | 'stopped' = 'new';

  const next = (ms: number): void => {
    if (state === 'stopped') return;
    state = 'waiting';
    clearTimeout(timer);
    timer = setTimeout(() => {
      state = 'busy';
      round = runOnce()
        .catch(onError)
        .then(() => next(everyMs()));
    }, ms);
    timer.unref();
  };

  return {
    name,
    start() {
      next(atOnce === true ? 0 : everyMs());
      return Promise.resolve();
    },
    async stop() {
      state = 'stopped';
      clearTimeout(timer);
      await round;
    },
    soon() {
      if (state === 'waiting') next(0);
    },
  };
}
