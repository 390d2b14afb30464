/** Operations on runs, with real processes. */
import { describe, expect, test } from 'vitest';
import { ownerOf, type Context } from '../../src/operation/context.ts';
import type { Operation } from '../../src/operation/define.ts';
import { invoke } from '../../src/operation/invoke.ts';
import { retryJobsOperation } from '../../src/job/bulk.operations.ts';
import { retryJobsDirective } from '../../src/job/job.directives.ts';
import { decideStepDirective, rejectStep } from '../../src/pipeline/run/decide.directives.ts';
import {
  cancelRunDirective,
  retryRunFromDirective,
  reviveRunDirective,
} from '../../src/pipeline/run/run.directives.ts';
import {
  listRunsOperation,
  showRunOperation,
  runTree,
} from '../../src/pipeline/run/run.operations.ts';
import { jobTree } from '../../src/job/tree.operations.ts';
import { databases, eventually, makePlace, type Database } from '../support/instance.ts';
import { python } from '../support/plugin-program.ts';
import { finish, outputOf, startRun } from '../support/runs.ts';
import { makePrincipal } from '../../src/access/tokens.service.ts';

/** Fails until a file exists. */
const moody = python(`
note("moody", request["idempotency_key"])
if not os.path.exists("../../gate-good"):
    fail("not in the mood", retry=False)
ok("fine")`);

const notes = python('note(request["step_id"], payload.get("item")); ok(str(payload.get("item")))');
const sleeps = python('note("asleep"); wait_for("never")');

const pipelines = [
  {
    name: 'moods',
    steps: [
      { id: 'first', uses: 'noter.poll' },
      { id: 'each', foreach: 'payload.items', steps: [{ id: 'work', uses: 'noter.poll' }] },
      { id: 'mood', uses: 'moody.poll' },
      { id: 'last', uses: 'noter.poll' },
    ],
  },
  {
    name: 'asks',
    steps: [
      { id: 'ok', approve: 'Send {payload.n}?' },
      { id: 'then', uses: 'noter.poll' },
    ],
  },
  {
    name: 'slow',
    steps: [
      { id: 'sleep', uses: 'sleeper.poll' },
      { id: 'then', uses: 'noter.poll' },
    ],
  },
];

async function begin(database: Database) {
  const settings = { retry: { max_attempts: 1 } };
  const place = await makePlace({
    database,
    plugins: {
      noter: { program: notes, settings },
      moody: { program: moody, settings },
      sleeper: { program: sleeps, settings },
    },
    pipelines,
  });
  const instance = await place.start();
  const { engine } = instance;
  const context: Context = { engine, principal: ownerOf('cli:ann'), submittedBy: 'cli' };
  const ask = (operation: Operation, input: object = {}) => invoke(operation, context, input);
  return { place, instance, ask, context };
}

describe.each(databases)('runs as operators see them on %s', (database) => {
  test('a halted run is shown, revived once, and continues to its end', async () => {
    const { place, instance, ask } = await begin(database);
    const halted = await finish(instance, 'moods', { items: ['a', 'b'] });
    expect(halted.status).toBe('halted');
    const shown = await ask(showRunOperation, { id: halted.id });
    expect(shown).toMatchObject({
      status: 'halted',
      halt_reason: 'retries_exhausted',
      halted_at_step: 'mood',
      waiting: [],
      complete: true,
      revived_as: null,
    });
    const { nodes } = (await ask(runTree, { id: halted.id })) as {
      nodes: { depth: number; name: string; kind: string }[];
    };
    expect(nodes.map(({ depth, name, kind }) => `${depth} ${kind} ${name}`)).toEqual([
      '0 task first',
      '0 foreach each',
      '1 branch 0',
      '2 task work',
      '1 branch 1',
      '2 task work',
      '0 task mood',
    ]);
    expect(await ask(listRunsOperation, { status: ['halted'], pipeline: 'moods' })).toMatchObject({
      runs: [{ run_id: halted.id }],
      next_cursor: null,
    });
    const planned = await ask(reviveRunDirective.operation, { id: halted.id, dry_run: true });
    expect(String((planned['plan'] as string[])[0])).toMatch(/halted at step mood/);

    await place.openGate('good');
    const revived = await ask(reviveRunDirective.operation, { id: halted.id.slice(0, 30) });
    expect(revived).toMatchObject({ revived_from: halted.id, actor: 'cli:ann' });
    const run = await instance.engine.waitForRun(String(revived['run_id']), 20_000);
    expect(run.status).toBe('succeeded');
    expect(outputOf(run)).toMatchObject({ each: [{ result: 'a' }, { result: 'b' }] });
    const keys = (await place.notes()).filter((line) => line.startsWith('moody'));
    expect(keys).toHaveLength(2);
    expect(new Set(keys).size).toBe(1);
    expect((await place.notes()).filter((line) => line.startsWith('work'))).toHaveLength(2);
    await expect(ask(reviveRunDirective.operation, { id: halted.id })).rejects.toMatchObject({
      code: 'RUN_REVIVED',
    });
    await expect(ask(reviveRunDirective.operation, { id: run.id })).rejects.toMatchObject({
      code: 'RUN_NOT_HALTED',
    });
    expect(await ask(showRunOperation, { id: halted.id })).toMatchObject({ revived_as: run.id });
    const tree = (await ask(jobTree, { id: halted.rootJobId })) as { jobs: object[] };
    expect(tree.jobs).toContainEqual(expect.objectContaining({ run_id: run.id, step_id: 'mood' }));
    expect(await instance.ledger.check()).toEqual([]);
  });

  test('an ended run is repeated from a step on', async () => {
    const { place, instance, ask } = await begin(database);
    await place.openGate('good');
    const first = await finish(instance, 'moods', { items: ['a', 'b'] });
    await expect(
      ask(retryRunFromDirective.operation, { id: first.id, step: 'wrk' }),
    ).rejects.toMatchObject({
      code: 'STEP_NOT_FOUND',
      hint: expect.stringContaining('work') as string,
    });
    const again = await ask(retryRunFromDirective.operation, { id: first.id, step: 'work' });
    const run = await instance.engine.waitForRun(String(again['run_id']), 20_000);
    expect(run).toMatchObject({ status: 'succeeded', output: first.output });
    const steps = (await place.notes()).map((line) => line.split(' ')[0]);
    expect(steps.filter((step) => step === 'first')).toHaveLength(1);
    expect(steps.filter((step) => step === 'work')).toHaveLength(4);
  });

  test('a step asks and continues with the reply, and `why` explains the wait', async () => {
    const { instance, ask } = await begin(database);
    const id = await startRun(instance, 'asks', { n: 3 });
    expect(await ask(showRunOperation, { id })).toMatchObject({
      status: 'running',
      waiting: [{ step: 'ok', why: 'it waits for approval: Send 3?' }],
    });
    await expect(ask(decideStepDirective.operation, { id, step: 'then' })).rejects.toMatchObject({
      code: 'STEP_NOT_WAITING',
      hint: 'These steps wait: ok.',
    });
    expect(
      await ask(decideStepDirective.operation, { id, step: 'ok', why: 'it is fine' }),
    ).toMatchObject({
      approved: true,
      by: 'cli:ann',
      why: 'it is fine',
    });
    const run = await instance.engine.waitForRun(id, 20_000);
    expect(outputOf(run)).toMatchObject({
      ok: { approved: true, by: 'cli:ann', why: 'it is fine' },
    });
    await expect(ask(rejectStep, { id, step: 'ok' })).rejects.toMatchObject({
      code: 'STEP_NOT_WAITING',
    });
    const other = await startRun(instance, 'asks', { n: 4 });
    await ask(rejectStep, { id: other, step: 'ok' });
    const rejected = await instance.engine.waitForRun(other, 20_000);
    expect(rejected).toMatchObject({ status: 'halted', haltReason: 'rejected' });
    await expect(
      ask(decideStepDirective.operation, { id: other, step: 'ok' }),
    ).rejects.toMatchObject({
      message: expect.stringContaining('rejected by cli:ann') as string,
    });
    const again = { id: other, step: 'then', dry_run: true };
    await expect(ask(retryRunFromDirective.operation, again)).rejects.toMatchObject({
      code: 'STEP_NOT_FOUND',
      message: expect.stringContaining('never reached step then') as string,
    });
  });

  test('a cancelled run stops its process, and nothing follows', async () => {
    const { place, instance, ask } = await begin(database);
    const id = await startRun(instance, 'slow');
    await eventually('it sleeps', async () => (await place.notes()).includes('asleep'));
    expect(await ask(showRunOperation, { id })).toMatchObject({
      waiting: [{ step: 'sleep', why: 'sleeper poll is running' }],
    });
    const { stopping, status } = await ask(cancelRunDirective.operation, { id });
    expect(status).toBe('cancelled');
    const [jobId] = stopping as string[];
    expect(await instance.ended(jobId ?? '')).toMatchObject({ status: 'cancelled' });
    expect(await ask(cancelRunDirective.operation, { id })).toMatchObject({ status: 'cancelled' });
    expect(await instance.ledger.jobs.list({ limit: 9 })).toHaveLength(1);
    expect(await instance.ledger.check()).toEqual([]);
  });

  test('a step is not retried outside of its run', async () => {
    const { instance, ask } = await begin(database);
    const halted = await finish(instance, 'moods', { items: [] });
    const failed = (await instance.ledger.jobs.list({ plugin: 'moody', limit: 1 }))[0];
    await expect(ask(retryJobsDirective.operation, { id: failed?.id })).rejects.toMatchObject({
      code: 'INPUT_INVALID',
      hint: expect.stringContaining(`run revive ${halted.id}`) as string,
    });
    expect(await ask(retryJobsOperation, { plugin: 'moody' })).toMatchObject({
      queued: 0,
      run_step: 1,
    });
  });

  test('a run does nothing that its token denies', async () => {
    const { instance, context } = await begin(database);
    const halted = await finish(instance, 'moods', { items: [] });
    const principal = makePrincipal('token:x', ['*', 'moody:deny:poll']);
    await expect(
      invoke(reviveRunDirective.operation, { ...context, principal }, { id: halted.id }),
    ).rejects.toMatchObject({ code: 'FORBIDDEN' });
  });

  test('every operation on an unknown run says so', async () => {
    const { ask } = await begin(database);
    const id = '0199a1b2-0000-7000-8000-000000000000';
    for (const operation of [
      showRunOperation,
      runTree,
      cancelRunDirective.operation,
      reviveRunDirective.operation,
    ]) {
      await expect(ask(operation, { id })).rejects.toMatchObject({ code: 'RUN_NOT_FOUND' });
    }
    await expect(ask(decideStepDirective.operation, { id, step: 'x' })).rejects.toMatchObject({
      code: 'RUN_NOT_FOUND',
    });
  });
});
