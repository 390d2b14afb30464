import { DuctileError } from '../base/errors.ts';
import { isTerminal, type Job } from './job.ts';
import type { JobEnd, KnownEnds } from './types.ts';
import type { LedgerSubset } from '../ledger/ledger.ts';
import { isRunOver, type Run } from '../pipeline/run/run.ts';
import type { Config } from '../config/config.ts';

/** How often is looked without being told: telling may fail, and then nobody waits for ever. */
const LOOK_MS = 5000;

export interface Completion {
  waitFor(jobId: string, timeoutMs: number, signal?: AbortSignal): Promise<Job>;
  waitForRun(runId: string, timeoutMs: number, signal?: AbortSignal): Promise<Run>;
  /** To be asked before the job is accepted, as awaited from here, so that its end cannot be missed. */
  expectEnd(jobId: string): ExpectedEnd;
}

/** The end of a job that is about to be accepted. If it ends in this process, nothing is read. */
export interface ExpectedEnd {
  /** Returns the end. Undefined if the time is over or the signal aborts before. */
  wait(timeoutMs: number, signal?: AbortSignal): Promise<JobEnd | undefined>;
  /** Stops waiting. Callers must always call it. */
  drop(): void;
}

/** The current state of what a caller waits for. */
interface Found<T> {
  readonly found: T & { readonly awaitedBy: string | null };
  readonly isOver: boolean;
}

type WaitingLedger = LedgerSubset<
  'jobs.find' | 'runs.find' | 'attempts.listByJob' | 'listener' | 'onEnds' | 'awaitEnd'
>;

/** Callers that stay on the line until a job or a run has ended, here or on another host. */
export function makeCompletion(ledger: WaitingLedger, lookMs = LOOK_MS): Completion {
  const bells = makeBells();
  let isListening = false;

  /** Only from the first that waits on: most processes that open a ledger never wait. */
  const listen = (): void => {
    if (isListening) return;
    isListening = true;
    ledger.onEnds((ids, known) => bells.ring(ids, known));
  };

  /** Looks until what it finds is over, the time is, or nobody wants to know any more. */
  const wait = async <T>(
    { what, id }: { readonly what: 'job' | 'run'; readonly id: string },
    timeoutMs: number,
    look: () => Promise<Found<T>>,
    signal?: AbortSignal,
  ): Promise<T> => {
    if (timeoutMs > 0) listen();
    const until = performance.now() + timeoutMs;
    for (let isKnown = false; ;) {
      // Hung up before looking: what is told meanwhile must not be missed.
      const bell = bells.hang(id);
      try {
        const { found, isOver } = await look();
        const left = until - performance.now();
        if (isOver || left <= 0 || signal?.aborted === true) return found;
        const isNew = !isKnown && found.awaitedBy !== ledger.listener;
        isKnown = true;
        // It may end before that is written, and then nobody would tell: so look again.
        if (isNew) await ledger.awaitEnd(what, id);
        else await bell.rung(Math.min(lookMs, left), signal);
      } finally {
        bell.takeDown();
      }
    }
  };

  const waitFor: Completion['waitFor'] = (id, timeoutMs, signal) => {
    const look = async () => {
      const found = await ledger.jobs.find(id);
      if (found === undefined) throw new DuctileError('JOB_NOT_FOUND', `there is no job ${id}`);
      return { found, isOver: isTerminal(found.status) };
    };
    return wait<Job>({ what: 'job', id }, timeoutMs, look, signal);
  };

  return {
    waitFor,
    expectEnd(id) {
      listen();
      const bell = bells.hang(id);
      return {
        async wait(timeoutMs, signal) {
          const until = performance.now() + timeoutMs;
          const known = await bell.rung(Math.min(lookMs, timeoutMs), signal);
          if (known !== undefined) return known;
          const { status } = await waitFor(id, until - performance.now(), signal);
          if (!isTerminal(status)) return undefined;
          const attempts = await ledger.attempts.listByJob([id]);
          return { status, result: attempts.at(-1)?.result ?? null };
        },
        drop: () => bell.takeDown(),
      };
    },
    waitForRun: (id, timeoutMs, signal) => {
      const look = async () => {
        const found = await ledger.runs.find(id);
        if (found === undefined) throw new DuctileError('RUN_NOT_FOUND', `there is no run ${id}`);
        return { found, isOver: isRunOver(found.status) };
      };
      return wait<Run>({ what: 'run', id }, timeoutMs, look, signal);
    },
  };
}

interface Bell {
  /**
   * Resolves when it has been rung since it hangs, with what was known then; when the time is over, or when
   * the signal says so.
   */
  rung(ms: number, signal: AbortSignal | undefined): Promise<JobEnd | undefined>;
  takeDown(): void;
}

/**
 * Creates the notifications of waiting callers. Those of one id are notified together; without an
 * id, all are.
 */
function makeBells(): {
  hang(id: string): Bell;
  ring(ids: readonly string[] | undefined, known?: KnownEnds): void;
} {
  const hanging = new Map<string, Set<(known?: JobEnd) => void>>();

  const hang = (id: string): Bell => {
    const { promise, resolve } = Promise.withResolvers<JobEnd | undefined>();
    const ofId = hanging.get(id) ?? new Set();
    hanging.set(id, ofId.add(resolve));
    return {
      async rung(ms, signal) {
        const done = () => resolve(undefined);
        const timer = setTimeout(done, ms);
        if (signal?.aborted === true) done();
        signal?.addEventListener('abort', done);
        const known = await promise;
        clearTimeout(timer);
        signal?.removeEventListener('abort', done);
        return known;
      },
      takeDown() {
        ofId.delete(resolve);
        if (ofId.size === 0) hanging.delete(id);
      },
    };
  };

  return {
    hang,
    ring(ids = [...hanging.keys()], known) {
      for (const id of ids) for (const ring of hanging.get(id) ?? []) ring(known?.get(id));
    },
  };
}

interface Lined {
  readonly config: Pick<Config, 'api'>;
}

const waiting = new WeakMap<Lined, number>();

/**
 * A place among those who stay on the line until a job has ended, and how to leave it; undefined when
 * as many wait as may.
 */
export function admitWaiter(engine: Lined): (() => void) | undefined {
  const count = waiting.get(engine) ?? 0;
  if (count >= engine.config.api.maxConcurrentSync) return undefined;
  waiting.set(engine, count + 1);
  return () => void waiting.set(engine, (waiting.get(engine) ?? 1) - 1);
}
