/** What runs in the background: started once, stopped once, both finished when they resolve. */
export interface Service {
  readonly name: string;
  start(): Promise<void>;
  stop(): Promise<void>;
}

export interface LoopOptions {
  readonly name: string;
  readonly everyMs: number;
  /** One round. What it throws goes to `onError`, and the loop goes on. */
  readonly runOnce: () => Promise<void>;
  readonly onError: (error: unknown) => void;
}

/** A duty repeated at an interval, one round at a time; stopping waits for the round under way. */
export function makeLoop({ name, everyMs, runOnce, onError }: LoopOptions): Service {
  let timer: NodeJS.Timeout | undefined;
  let round: Promise<void> = Promise.resolve();
  let stopped = false;

  const next = (): void => {
    if (stopped) return;
    timer = setTimeout(() => {
      round = runOnce().catch(onError).then(next);
    }, everyMs);
    timer.unref();
  };

  return {
    name,
    async start() {
      next();
      await Promise.resolve();
    },
    async stop() {
      stopped = true;
      clearTimeout(timer);
      await round;
    },
  };
}
