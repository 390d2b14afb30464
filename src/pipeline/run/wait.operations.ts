/** Waiting for the end of work that was started before. */
import * as z from 'zod';
import { defineOperation } from '../../operation/define.ts';
import { runOutput, waitForRunEnd } from './start.operations.ts';
import { toJobWaitMs } from '../../job/start.operations.ts';
import { findRun, runId } from './run.operations.ts';
import { limitWait, waitField, withWaiterSlot } from '../../job/start-options.operations.ts';

const wait = waitField().default(true).describe('how long to wait for the end');

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
    const waitMs = Math.max(1, limitWait(context, toJobWaitMs(asked)));
    return await withWaiterSlot(context, () => waitForRunEnd(context, run, waitMs));
  },
});
