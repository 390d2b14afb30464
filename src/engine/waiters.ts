import { DuctileError } from '../base/errors.ts';
import type { Job } from '../job/job.ts';
import { isTerminal } from '../job/state.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { isRunOver, type Run } from '../pipeline/run.ts';

/** How often something that may end on another host is looked at. */
const LOOK_MS = 500;

export interface Waiters {
  waitFor(jobId: string, timeoutMs: number, signal?: AbortSignal): Promise<Job>;
  waitForRun(runId: string, timeoutMs: number, signal?: AbortSignal): Promise<Run>;
  /** These jobs were settled, or these runs ended, in this process. */
  notice(ids: Iterable<string>): void;
}

/** Callers that stay on the line until a job or a run has ended, here or on another host. */
export function makeWaiters(ledger: Pick<Ledger, 'job' | 'run'>): Waiters {
  const nudges = new Map<string, Set<() => void>>();

  const nudged = (id: string, ms: number, signal: AbortSignal | undefined): Promise<void> =>
    new Promise((resolve) => {
      const waiting = nudges.get(id) ?? new Set();
      nudges.set(id, waiting);
      const done = (): void => {
        clearTimeout(timer);
        signal?.removeEventListener('abort', done);
        waiting.delete(done);
        if (waiting.size === 0) nudges.delete(id);
        resolve();
      };
      const timer = setTimeout(done, ms);
      signal?.addEventListener('abort', done);
      waiting.add(done);
    });

  /** Looks until what it finds is over, the time is, or nobody wants to know any more. */
  const wait = async <T>(
    id: string,
    timeoutMs: number,
    look: () => Promise<{ readonly found: T; readonly isOver: boolean }>,
    signal?: AbortSignal,
  ): Promise<T> => {
    const until = performance.now() + timeoutMs;
    for (;;) {
      const { found, isOver } = await look();
      const left = until - performance.now();
      if (isOver || left <= 0 || signal?.aborted === true) return found;
      await nudged(id, Math.min(LOOK_MS, left), signal);
    }
  };

  return {
    waitFor: (jobId, timeoutMs, signal) =>
      wait(
        jobId,
        timeoutMs,
        async () => {
          const job = await ledger.job(jobId);
          if (job === undefined) {
            throw new DuctileError('JOB_NOT_FOUND', `there is no job ${jobId}`);
          }
          return { found: job, isOver: isTerminal(job.status) };
        },
        signal,
      ),
    waitForRun: (runId, timeoutMs, signal) =>
      wait(
        runId,
        timeoutMs,
        async () => {
          const run = await ledger.run(runId);
          if (run === undefined) {
            throw new DuctileError('RUN_NOT_FOUND', `there is no run ${runId}`);
          }
          return { found: run, isOver: isRunOver(run.status) };
        },
        signal,
      ),
    notice(ids) {
      for (const id of ids) for (const nudge of nudges.get(id) ?? []) nudge();
    },
  };
}
