import * as z from 'zod';
import { limits } from '../../base/limits.ts';
import type { Job } from '../../job/job.ts';
import type { Ledger } from '../../ledger/ledger.ts';
import { explainRun, sayWait, waitShape } from './waits.service.ts';

export const leftShape = waitShape.extend({
  name: z.string().describe('the pipeline, or the plugin with its command'),
  run_id: z.string().nullable(),
});

export type Left = z.output<typeof leftShape>;

/** What an answer has where no service runs, and what was begun could not all be done. */
export const leftFields = {
  waiting: z
    .array(leftShape)
    .optional()
    .describe('where no service runs: what is left for the next time, and why'),
  message: z.string().optional().describe('where to look for its end, or when it goes on'),
};

/** What of a lineage has not ended, and why. */
export async function findLeft(ledger: Ledger, rootJobId: string): Promise<Left[]> {
  const open = { rootJobId, status: ['queued', 'running'], limit: limits.pageRowsMax } as const;
  const [jobs, runs] = await Promise.all([ledger.jobs.list(open), ledger.runs.list(open)]);
  const waits = runs.map(async (run) =>
    (await explainRun(ledger, run)).map((wait) => ({
      ...wait,
      name: run.pipeline,
      run_id: run.id,
    })),
  );
  // Of a step's job its run tells.
  return [
    ...jobs.filter(({ runId }) => runId === null).map(toLeft),
    ...(await Promise.all(waits)).flat(),
  ];
}

function toLeft(job: Job): Left {
  const name = `${job.plugin} ${job.command}`;
  const of = { branch: '', step: null, step_id: null, run_id: null };
  return { ...of, name, why: sayWait(job), until: job.nextRetryAt, job_id: job.id };
}
