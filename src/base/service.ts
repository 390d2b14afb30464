/** Background work that is started once and stopped once. Both calls resolve when they are done. */
export interface Service {
  readonly name: string;
  start(): Promise<void>;
  stop(): Promise<void>;
}

export interface Loop extends Service {
  /** Starts the next round at once, unless one is running. */
  soon(): void;
}

interface LoopOptions {
  readonly name: string;
  /** Called before each wait, because a reload may change the interval. */
  readonly everyMs: () => number;
  /** Starts the first round at once, not after the first interval. */
  readonly atOnce?: boolean;
  /** Runs one round. Its error goes to `onError`, and the loop continues. */
  readonly runOnce: () => Promise<void>;
  readonly onError: (error: unknown) => void;
}

/** Repeats work at an interval, one round at a time. Stopping waits for the round in progress. */
export function makeLoop({ name, everyMs, atOnce, runOnce, onError }: LoopOptions): Loop {
  let timer: NodeJS.Timeout | undefined;
  let round: Promise<void> = Promise.resolve();
  let state: 'new' | 'waiting' | 'busy' | 'stopped' = 'new';

  const schedule = (ms: number): void => {
    if (state === 'stopped') return;
    state = 'waiting';
    clearTimeout(timer);
    timer = setTimeout(() => {
      state = 'busy';
      round = runOnce()
        .catch(onError)
        .then(() => schedule(everyMs()));
    }, ms);
    timer.unref();
  };

  return {
    name,
    start() {
      schedule(atOnce === true ? 0 : everyMs());
      return Promise.resolve();
    },
    async stop() {
      state = 'stopped';
      clearTimeout(timer);
      await round;
    },
    soon() {
      if (state === 'waiting') schedule(0);
    },
  };
}
