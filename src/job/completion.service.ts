import { DuctileError } from '../base/errors.ts';
import type { Config } from '../config/config.ts';
import type { LedgerSubset } from '../ledger/ledger.ts';
import type { Run } from '../pipeline/run/run.ts';
import { isTerminal, type Job } from './job.ts';
import type { JobEnd, KnownEnds } from './types.ts';

/** How often a waiting caller reads the ledger anyway, because a notification can get lost. */
const POLL_MS = 5000;

/** Waits for the ends of jobs and runs, in this process or on another host. */
export interface Completion {
  waitFor(jobId: string, timeoutMs: number, signal?: AbortSignal): Promise<Job>;
  waitForRun(runId: string, timeoutMs: number, signal?: AbortSignal): Promise<Run>;
  /** Call it before the job is accepted as awaited from here, so that its end can't be missed. */
  expectEnd(jobId: string): ExpectedEnd;
}

/** The end of a job that is about to be accepted. If it ends in this process, nothing is read. */
export interface ExpectedEnd {
  /** Returns the end. Undefined if the time is over or the signal aborts before. */
  wait(timeoutMs: number, signal?: AbortSignal): Promise<JobEnd | undefined>;
  /** Stops waiting. Callers must always call it. */
  drop(): void;
}

/** The current state of the job or run that a caller waits for. */
interface AwaitedState<T> {
  readonly found: T & { readonly awaitedBy: string | null };
  readonly isOver: boolean;
}

type WaitingLedger = LedgerSubset<
  'jobs.find' | 'runs.find' | 'attempts.listByJob' | 'listener' | 'onEnds' | 'awaitEnd'
>;

export function makeCompletion(ledger: WaitingLedger, pollMs = POLL_MS): Completion {
  const waiters = makeWaiters();
  let isListening = false;

  /** Listens from the first waiting caller on: most processes that open a ledger never wait. */
  const listen = (): void => {
    if (isListening) return;
    isListening = true;
    ledger.onEnds((ids, known) => waiters.notify(ids, known));
  };

  /** Reads the state until it is over, the time is over, or the signal aborts. */
  const wait = async <T>(
    { what, id }: { readonly what: 'job' | 'run'; readonly id: string },
    timeoutMs: number,
    read: () => Promise<AwaitedState<T>>,
    signal?: AbortSignal,
  ): Promise<T> => {
    if (timeoutMs > 0) listen();
    const until = performance.now() + timeoutMs;
    for (let isRegistered = false; ;) {
      // Subscribe before reading, so that no end in between is missed.
      const waiter = waiters.add(id);
      try {
        const { found, isOver } = await read();
        const left = until - performance.now();
        if (isOver || left <= 0 || signal?.aborted === true) return found;
        const isNew = !isRegistered && found.awaitedBy !== ledger.listener;
        isRegistered = true;
        // It may end before this is written, and then no notification follows. So read again.
        if (isNew) await ledger.awaitEnd(what, id);
        else await waiter.wait(Math.min(pollMs, left), signal);
      } finally {
        waiter.remove();
      }
    }
  };

  const waitFor: Completion['waitFor'] = (id, timeoutMs, signal) => {
    const read = async () => {
      const found = await ledger.jobs.find(id);
      if (found === undefined) throw new DuctileError('JOB_NOT_FOUND', `there is no job ${id}`);
      return { found, isOver: isTerminal(found.status) };
    };
    return wait<Job>({ what: 'job', id }, timeoutMs, read, signal);
  };

  return {
    waitFor,
    expectEnd(id) {
      listen();
      const waiter = waiters.add(id);
      return {
        async wait(timeoutMs, signal) {
          const until = performance.now() + timeoutMs;
          const known = await waiter.wait(Math.min(pollMs, timeoutMs), signal);
          if (known !== undefined) return known;
          const { status } = await waitFor(id, until - performance.now(), signal);
          if (!isTerminal(status)) return undefined;
          const attempts = await ledger.attempts.listByJob([id]);
          return { status, result: attempts.at(-1)?.result ?? null };
        },
        drop: () => waiter.remove(),
      };
    },
    waitForRun: (id, timeoutMs, signal) => {
      const read = async () => {
        const found = await ledger.runs.find(id);
        if (found === undefined) throw new DuctileError('RUN_NOT_FOUND', `there is no run ${id}`);
        return { found, isOver: found.completedAt !== null };
      };
      return wait<Run>({ what: 'run', id }, timeoutMs, read, signal);
    },
  };
}

/** A caller that waits for the end of a job or run. */
interface Waiter {
  /**
   * Resolves when the end was notified since the waiter was added, with the end if it is known.
   * Resolves with undefined when the time is over or the signal aborts.
   */
  wait(ms: number, signal: AbortSignal | undefined): Promise<JobEnd | undefined>;
  remove(): void;
}

/** All waiting callers, by the id for which they wait. */
interface Waiters {
  add(id: string): Waiter;
  /** Notifies the waiters of these ids, or all waiters without ids. */
  notify(ids: readonly string[] | undefined, known?: KnownEnds): void;
}

function makeWaiters(): Waiters {
  const byId = new Map<string, Set<(known?: JobEnd) => void>>();
  return {
    add(id) {
      const { promise, resolve } = Promise.withResolvers<JobEnd | undefined>();
      const ofId = byId.get(id) ?? new Set();
      byId.set(id, ofId.add(resolve));
      return {
        async wait(ms, signal) {
          const giveUp = () => resolve(undefined);
          const timer = setTimeout(giveUp, ms);
          if (signal?.aborted === true) giveUp();
          signal?.addEventListener('abort', giveUp);
          const known = await promise;
          clearTimeout(timer);
          signal?.removeEventListener('abort', giveUp);
          return known;
        },
        remove() {
          ofId.delete(resolve);
          if (ofId.size === 0) byId.delete(id);
        },
      };
    },
    notify(ids = [...byId.keys()], known) {
      for (const id of ids) for (const notify of byId.get(id) ?? []) notify(known?.get(id));
    },
  };
}

interface WaiterLimit {
  readonly config: Pick<Config, 'api'>;
}

const admitted = new WeakMap<WaiterLimit, number>();

/**
 * Admits an API caller that waits for the end of a job. Returns the function that ends its wait, or
 * undefined if as many callers wait as the configuration allows.
 */
export function admitWaiter(engine: WaiterLimit): (() => void) | undefined {
  const count = admitted.get(engine) ?? 0;
  if (count >= engine.config.api.maxConcurrentSync) return undefined;
  admitted.set(engine, count + 1);
  return () => void admitted.set(engine, (admitted.get(engine) ?? 1) - 1);
}
