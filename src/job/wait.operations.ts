/** Waiting for the end of work that was started before. */
import * as z from 'zod';
import { defineOperation } from '../operation/define.ts';
import { findJob, jobId } from './operations.ts';
import { runOutput, waitForRunEnd } from '../pipeline/run/start.operations.ts';
import { jobOutput, jobWaitOf, tellJob } from './start.operations.ts';
import { findRun, runId } from '../pipeline/run/run.operations.ts';
import { boundWait, waitField, whileWaiting } from './await-end.operations.ts';

const wait = waitField().default(true).describe('how long to wait for the end');

export const waitForJob = defineOperation({
  name: 'job.wait',
  summary: 'Wait for the end of a job, and return what `plugin run` returns.',
  effect: 'read',
  needs: 'server',
  scope: 'jobs:ro',
  input: z.strictObject({ id: jobId, wait }),
  output: jobOutput,
  errors: ['BUSY', 'INPUT_INVALID', 'JOB_NOT_FOUND', 'LEDGER_UNAVAILABLE', 'LEDGER_UNCERTAIN'],
  http: { method: 'GET', path: '/job/:id/wait' },
  cli: {
    positionals: ['id'],
    flags: { wait: '--wait <duration>' },
    defaults: { wait: '5m' },
    examples: ['ductile job wait 0199a1b2-c3d4-7e5f', 'ductile job wait 0199a1b2 --wait 1h'],
    exitCode: ({ status }) => (status === 'succeeded' ? 0 : 1),
  },
  async run(context, { id, wait: asked }) {
    const job = await findJob(context, id);
    const waitMs = Math.max(1, boundWait(context, jobWaitOf(asked)));
    return await whileWaiting(context, () => tellJob(context, job, { jobId: job.id }, waitMs));
  },
});

export const waitForRun = defineOperation({
  name: 'run.wait',
  summary: 'Wait for the end of a run, and return what `pipeline run` returns.',
  effect: 'read',
  needs: 'server',
  scope: 'runs:ro',
  input: z.strictObject({ id: runId, wait }),
  output: runOutput,
  errors: ['BUSY', 'INPUT_INVALID', 'LEDGER_UNAVAILABLE', 'LEDGER_UNCERTAIN', 'RUN_NOT_FOUND'],
  http: { method: 'GET', path: '/runs/:id/wait' },
  cli: {
    positionals: ['id'],
    flags: { wait: '--wait <duration>' },
    defaults: { wait: '5m' },
    examples: ['ductile run wait 0199a1b2-c3d4-7e5f'],
    exitCode: ({ status }) => (status === 'succeeded' ? 0 : 1),
  },
  async run(context, { id, wait: asked }) {
    const run = await findRun(context, id);
    const waitMs = Math.max(1, boundWait(context, jobWaitOf(asked)));
    return await whileWaiting(context, () => waitForRunEnd(context, run, waitMs));
  },
});
