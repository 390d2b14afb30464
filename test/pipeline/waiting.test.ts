/** The state of jobs and runs: what they wait for, who decided, and what can be done. */
import { describe, expect, test } from 'vitest';
import { ownerOf, type Context } from '../../src/operation/context.ts';
import type { JsonOutput, Operation } from '../../src/operation/define.ts';
import { invoke } from '../../src/operation/invoke.ts';
import { inspectJob, listJobsOperation } from '../../src/job/operations.ts';
import { retryJobsDirective } from '../../src/job/job.directives.ts';
import { decideStepDirective, rejectStep } from '../../src/pipeline/run/decide.directives.ts';
import { cancelRunDirective, reviveRunDirective } from '../../src/pipeline/run/run.directives.ts';
import { listRunsOperation, showRunOperation } from '../../src/pipeline/run/run.operations.ts';
import {
  databases,
  eventually,
  makePlace,
  type Database,
  type TestInstance,
} from '../support/instance.ts';
import { python } from '../support/plugin-program.ts';
import { finish, startRun, stepsOf } from '../support/runs.ts';

const pipelines = [
  {
    name: 'asks',
    steps: [
      { id: 'ok', approve: 'Send {payload.n}?' },
      { id: 'then', uses: 'noter.poll' },
    ],
  },
  { name: 'listens', steps: [{ id: 'paid', wait: { signal: 'order.paid' } }] },
  { name: 'pauses', steps: [{ id: 'later', wait: '1h' }] },
  {
    name: 'busy',
    steps: [
      {
        id: 'both',
        split: [
          { id: 'one', steps: [{ id: 'sleep', uses: 'sleeper.poll' }] },
          { id: 'two', steps: [{ id: 'later', wait: '1h' }] },
        ],
      },
    ],
  },
  { name: 'fails', steps: [{ id: 'mood', uses: 'moody.poll' }] },
];

async function begin(database: Database) {
  const settings = { retry: { max_attempts: 1 } };
  const place = await makePlace({
    database,
    plugins: {
      noter: { program: python('ok("fine")'), settings },
      moody: { program: python('fail("not in the mood")'), settings },
      sleeper: { program: python('note("asleep"); wait_for("never")'), settings },
    },
    pipelines,
  });
  const instance = await place.start();
  const context: Context = {
    engine: instance.engine,
    principal: ownerOf('cli:ann'),
    submittedBy: 'cli',
  };
  const ask = (operation: Operation, input: object = {}) => invoke(operation, context, input);
  return { place, instance, ask };
}

async function waitUntilAsked({ ledger }: TestInstance, runId: string): Promise<void> {
  const page = { runId, status: 'waiting', limit: 1 } as const;
  await eventually('a step waits', async () => (await ledger.runs.listSteps(page)).length > 0);
}

function rowsIn(output: JsonOutput, field: string): JsonOutput[] {
  return output[field] as JsonOutput[];
}

describe.each(databases)('on %s', (database) => {
  test('a run that waits says for what, in the list and by itself', async () => {
    const { place, instance, ask } = await begin(database);
    const ids = {
      asks: await startRun(instance, 'asks', { n: 7 }),
      listens: await startRun(instance, 'listens'),
      pauses: await startRun(instance, 'pauses'),
      busy: await startRun(instance, 'busy'),
    };
    await eventually('it sleeps', async () => (await place.notes()).includes('asleep'));
    for (const id of Object.values(ids)) await waitUntilAsked(instance, id);
    const listed = rowsIn(await ask(listRunsOperation), 'runs');
    const of = (name: string) => listed.find((run) => run['pipeline'] === name)?.['waiting_for'];
    expect(of('asks')).toMatchObject({ kind: 'approval', step: 'ok', message: 'Send 7?' });
    expect(of('listens')).toMatchObject({ kind: 'signal', step: 'paid', message: 'order.paid' });
    expect(of('pauses')).toMatchObject({ kind: 'time', step: 'later' });
    expect(of('pauses')).toHaveProperty('until', expect.stringMatching(/^20/));
    expect(of('busy')).toBeNull();
    const shown = await ask(showRunOperation, { id: ids.asks });
    expect(shown).toMatchObject({
      status: 'running',
      waiting_for: { kind: 'approval', step: 'ok', message: 'Send 7?' },
      actions: ['approve', 'reject', 'cancel'],
      approvals: [],
    });
    for (const id of Object.values(ids)) await ask(cancelRunDirective.operation, { id });
    await instance.close();
  });

  test('a run says who approved or rejected it, and with which reason', async () => {
    const { instance, ask } = await begin(database);
    const decide = async (operation: Operation, why?: string) => {
      const runId = await startRun(instance, 'asks', { n: 1 });
      await waitUntilAsked(instance, runId);
      await ask(operation, { id: runId, step: 'ok', ...(why === undefined ? {} : { why }) });
      await instance.engine.waitForRun(runId, 60_000);
      return await ask(showRunOperation, { id: runId });
    };
    const approved = await decide(decideStepDirective.operation, 'read: and checked');
    const expected = { approved: true, by: 'cli:ann', reason: 'read: and checked' };
    expect(approved['approvals']).toMatchObject([{ step: 'ok', ...expected }]);
    expect(rowsIn(approved, 'steps')[0]).toMatchObject({
      approved: true,
      approved_by: 'cli:ann',
      approval_reason: 'read: and checked',
    });
    expect(rowsIn(approved, 'steps')[1]).toMatchObject({ approved: null, approved_by: null });
    expect(approved).toMatchObject({ waiting_for: null, actions: [] });
    const rejected = await decide(rejectStep);
    expect(rejected['approvals']).toMatchObject([
      { step: 'ok', approved: false, by: 'cli:ann', reason: null },
    ]);
    expect(rejected).toMatchObject({ actions: ['revive'] });
    await instance.close();
  });

  test('a dead job offers a retry until it was retried, and names the job that repeats it', async () => {
    const { instance, ask } = await begin(database);
    const { id: jobId } = await instance.run('moody');
    expect(await ask(inspectJob, { id: jobId })).toMatchObject({
      retried_as: null,
      actions: ['retry'],
    });
    const { job_id: again } = await ask(retryJobsDirective.operation, { id: jobId });
    expect(await ask(inspectJob, { id: jobId })).toMatchObject({ retried_as: again, actions: [] });
    const listed = rowsIn(await ask(listJobsOperation), 'jobs');
    expect(listed).toMatchObject([
      { job_id: again, retried_as: null },
      { job_id: jobId, retried_as: again },
    ]);
    await instance.engine.waitFor(String(again), 60_000);
    await instance.close();
  });

  test("a failed step's job offers to revive its run, once, and no retry", async () => {
    const { instance, ask } = await begin(database);
    const halted = await finish(instance, 'fails');
    const [step] = await stepsOf(instance, halted.id);
    const inspect = () => ask(inspectJob, { id: step?.jobId });
    expect(await inspect()).toMatchObject({ status: 'dead', actions: ['revive'] });
    const { run_id: next } = await ask(reviveRunDirective.operation, { id: halted.id });
    expect(await inspect()).toMatchObject({ actions: [] });
    await instance.engine.waitForRun(String(next), 60_000);
    await instance.close();
  });
});
