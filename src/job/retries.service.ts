/** Which jobs were retried, and what can be done with a job. */
import * as z from 'zod';
import { limits } from '../base/limits.ts';
import { isTerminal, type Job } from './job.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { jobShape, showJob } from './shapes.service.ts';

export const listedJobShape = jobShape.extend({
  retried_as: z.string().nullable().describe('the newest job that repeats its work'),
});

/** Finds the newest retry of each of these jobs that has one. */
export async function findRetries(
  ledger: Ledger,
  jobs: readonly Pick<Job, 'id' | 'status'>[],
): Promise<ReadonlyMap<string, string>> {
  const ended = jobs.flatMap(({ id, status }) => (isTerminal(status) ? id : []));
  if (ended.length === 0) return new Map();
  const retries = await ledger.jobs({ retryOf: ended, limit: limits.pageRowsMax });
  // The list has the newest first, so the last entry of a map that is filled from behind is newest.
  return new Map(retries.toReversed().map(({ retryOf, id }) => [retryOf ?? '', id]));
}

export async function showListedJobs(
  ledger: Ledger,
  jobs: readonly Job[],
): Promise<z.output<typeof listedJobShape>[]> {
  const retries = await findRetries(ledger, jobs);
  return jobs.map((job) => ({ ...showJob(job), retried_as: retries.get(job.id) ?? null }));
}

export const jobActions = ['cancel', 'retry', 'revive'] as const;
export type JobAction = (typeof jobActions)[number];

/** Lists what would work now: a step is repeated by reviving its run, and an init by `plugin init`. */
export async function listJobActions(
  ledger: Ledger,
  job: Job,
  isRetried: boolean,
): Promise<JobAction[]> {
  if (!isTerminal(job.status)) return ['cancel'];
  if (job.runId !== null) return (await isRevivable(ledger, job.runId)) ? ['revive'] : [];
  return isRetried || job.command === 'init' ? [] : ['retry'];
}

async function isRevivable(ledger: Ledger, runId: string): Promise<boolean> {
  const run = await ledger.run(runId);
  if (run?.status !== 'halted') return false;
  return (await ledger.runs({ revivedFrom: runId, limit: 1 })).length === 0;
}
