import { DuctileError } from '../base/errors.ts';
import type { Job } from '../job/job.ts';
import { isTerminal } from '../job/state.ts';
import type { Ledger } from '../ledger/ledger.ts';

/** How often a job that may run on another host is looked at. */
const LOOK_MS = 500;

export interface Waiters {
  waitFor(jobId: string, timeoutMs: number): Promise<Job>;
  /** These jobs were settled by this process. */
  notice(jobIds: Iterable<string>): void;
}

/** Callers that stay on the line until a job has ended, here or on another host. */
export function makeWaiters(ledger: Ledger): Waiters {
  const nudges = new Map<string, Set<() => void>>();

  const nudged = (jobId: string, ms: number): Promise<void> =>
    new Promise((resolve) => {
      const waiting = nudges.get(jobId) ?? new Set();
      nudges.set(jobId, waiting);
      const done = (): void => {
        clearTimeout(timer);
        waiting.delete(done);
        if (waiting.size === 0) nudges.delete(jobId);
        resolve();
      };
      const timer = setTimeout(done, ms);
      waiting.add(done);
    });

  return {
    async waitFor(jobId, timeoutMs) {
      const until = performance.now() + timeoutMs;
      for (;;) {
        const job = await ledger.job(jobId);
        if (job === undefined) throw new DuctileError('JOB_NOT_FOUND', `there is no job ${jobId}`);
        const left = until - performance.now();
        if (isTerminal(job.status) || left <= 0) return job;
        await nudged(jobId, Math.min(LOOK_MS, left));
      }
    },
    notice(jobIds) {
      for (const id of jobIds) for (const nudge of nudges.get(id) ?? []) nudge();
    },
  };
}
