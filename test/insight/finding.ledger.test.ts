/** The reads of checks: dead jobs, halted runs, steps that wait for a person, and sealing keys. */
import { setCredential } from '../../src/access/credential.sql.ts';
import { describe, expect, test } from 'vitest';
import { makeId } from '../../src/base/ids.ts';
import type { Ledger } from '../../src/ledger/ledger.ts';
import type { RunHalt } from '../../src/pipeline/run/types.ts';
import { approve, foreach, task, wait } from '../pipeline/graphs.ts';
import { decide, revive } from '../support/ledger/run-directives.ts';
import {
  advanceAll,
  carryOn,
  claimSteps,
  define,
  done,
  runOf,
  start,
} from '../support/ledger/runs.ts';
import { databases, only, openBench } from '../support/ledger/bench.ts';
import { beat, closeUnrunnable, draft, fail, pausing } from '../support/ledger/drafts.ts';

const LONG_AGO = '2020-01-01T00:00:00.000Z';
const FAR_AHEAD = '2100-01-01T00:00:00.000Z';
const all = { since: LONG_AGO, visitMax: 9, groupsMax: 9 };

/** A job that no process will run. */
async function addDead(ledger: Ledger, plugin: string, command = 'handle'): Promise<string> {
  const jobDraft = draft({ plugin, command });
  await ledger.jobs.enqueue({ jobs: [jobDraft] });
  const job = await ledger.jobs.find(jobDraft.id);
  if (job === undefined) throw new Error('the job is not there');
  await ledger.jobs.settle([closeUnrunnable(job)]);
  return jobDraft.id;
}

describe.each(databases)('dead jobs on %s', (kind) => {
  test('are listed by plugin, without retried ones and those outside of the time', async () => {
    const { ledger } = await openBench(kind);
    const first = await addDead(ledger, 'mail');
    const second = await addDead(ledger, 'mail');
    const other = await addDead(ledger, 'report', 'poll');
    expect((await ledger.jobs.listDead(all)).map(({ id }) => id).toSorted()).toEqual(
      [first, second, other].toSorted(),
    );
    expect(
      (await ledger.jobs.listDead({ ...all, visitMax: 1 })).map(({ plugin }) => plugin),
    ).toEqual(expect.arrayContaining(['mail', 'report']));
    expect(await ledger.jobs.listDead({ ...all, since: FAR_AHEAD })).toEqual([]);
    await ledger.jobs.enqueue({ jobs: [draft({ plugin: 'mail', retryOf: first })] });
    const left = await ledger.jobs.listDead(all);
    expect(left.map(({ id }) => id).toSorted()).toEqual([second, other].toSorted());
    const [found] = left.filter(({ id }) => id === other);
    expect(found).toMatchObject({
      plugin: 'report',
      command: 'poll',
      lastError: 'nobody knows it',
    });
  });

  test('in a run are left to the run', async () => {
    const { ledger } = await openBench(kind);
    const graph = await define(ledger, [task('a')]);
    await start(ledger, graph);
    const [job] = await ledger.jobs.list({ limit: 1 });
    if (job === undefined) throw new Error('the job is not there');
    await ledger.jobs.settle([closeUnrunnable(job)]);
    expect(await ledger.jobs.listDead(all)).toEqual([]);
    expect(await ledger.runs.listHalted(all)).toHaveLength(1);
  });
});

describe.each(databases)('halted runs on %s', (kind) => {
  test('are listed until they are revived', async () => {
    const { ledger } = await openBench(kind);
    const graph = await define(ledger, [task('a')]);
    const run = await start(ledger, graph);
    await carryOn(ledger, graph, (job) => fail(job));
    expect(await ledger.runs.listHalted(all)).toMatchObject([
      { id: run.id, pipeline: graph.name, haltedAtStep: 'a' },
    ]);
    expect(await ledger.runs.listHalted({ ...all, since: FAR_AHEAD })).toEqual([]);
    const again = await revive(ledger, run.id);
    expect(await ledger.runs.listHalted(all)).toEqual([]);
    await carryOn(ledger, graph, (job) => fail(job));
    expect((await ledger.runs.listHalted(all)).map(({ id }) => id)).toEqual([again]);
  });
});

describe.each(databases)('a step that waits for a person on %s', (kind) => {
  test('is announced once, in the transaction that begins the wait', async () => {
    const { ledger } = await openBench(kind);
    const result = await define(ledger, [task('bell')]);
    const requests: RunHalt[] = [];
    ledger.provideRules({
      followApproval: (question) => {
        requests.push(question);
        const cause = { sourceEventId: question.signal.id };
        return { jobs: [draft({ plugin: 'pager', ...cause })], runs: [runOf(result, {}, cause)] };
      },
    });
    const graph = await define(ledger, [
      task('a', { next: 'ok' }),
      approve('ok', { next: 'b' }),
      task('b'),
    ]);
    const run = await start(ledger, graph, {}, { hops: 2 });
    expect(await ledger.signals.list({ type: 'run.awaiting_approval', limit: 5 })).toEqual([]);
    await ledger.jobs.settle([done(only(await claimSteps(ledger, graph)))]);
    const signal = only(await ledger.signals.list({ type: 'run.awaiting_approval', limit: 5 }));
    expect(signal).toMatchObject({ subjectId: run.id, hops: 3, id: only(requests).signal.id });
    const question = only(await ledger.runs.listOpenQuestions(9));
    expect(question).toMatchObject({ runId: run.id, pipeline: graph.name, node: 'ok' });
    expect(JSON.parse(signal.data)).toMatchObject({
      run_id: run.id,
      pipeline: graph.name,
      step: 'ok',
      step_id: question.id,
    });
    expect(only(await ledger.jobs.list({ plugin: 'pager', limit: 5 })).sourceEventId).toBe(
      signal.id,
    );
    expect(await carryOn(ledger, result)).toBe(1);

    await decide(ledger, run.id, 'ok', true);
    await advanceAll(ledger);
    expect(await ledger.runs.listOpenQuestions(9)).toEqual([]);
    expect(await ledger.signals.list({ type: 'run.awaiting_approval', limit: 5 })).toHaveLength(1);
  });

  test('wakes a run that waits for the announcement', async () => {
    const { ledger } = await openBench(kind);
    const signal = { type: 'run.awaiting_approval', from: undefined, when: undefined };
    const waiting = await define(ledger, [wait('w', { signal })]);
    const { id } = await start(ledger, waiting);
    const graph = await define(ledger, [approve('ok')]);
    await start(ledger, graph);
    await ledger.processes.heartbeat(beat('p1'));
    await advanceAll(ledger);
    expect((await ledger.runs.find(id))?.status).toBe('succeeded');
  });

  test("is announced for each branch, and a wait for time isn't a question", async () => {
    const { ledger } = await openBench(kind);
    const graph = await define(ledger, [foreach('each', 'ok'), approve('ok')]);
    await start(ledger, graph, { items: [1, 2, 3] });
    const sleeping = await define(ledger, [wait('w', { delayMs: 60_000 })]);
    await start(ledger, sleeping);
    expect(await ledger.runs.listOpenQuestions(9)).toHaveLength(3);
    expect(await ledger.runs.listOpenQuestions(2)).toHaveLength(2);
    expect(await ledger.signals.list({ type: 'run.awaiting_approval', limit: 9 })).toHaveLength(3);
  });
});

describe.each(databases)('the keys that seal something on %s', (kind) => {
  test('are listed once each', async () => {
    const { ledger } = await openBench(kind);
    expect(await ledger.seals.listKeyIds()).toEqual([]);
    for (const [name, keyId] of [
      ['a', 'k2'],
      ['b', 'k1'],
      ['c', 'k2'],
    ] as const) {
      const sealed = { keyId, text: 'v1.a.b' };
      const credential = { id: makeId(), name, provider: null, sealed, expiresInMs: undefined };
      const about = { type: 'credential.set', target: `credential:${name}`, sameness: 'each' };
      await ledger.directives.create(
        pausing({ ...about, sameness: 'each' }, (tx, actor) =>
          setCredential(tx, credential, actor),
        ),
      );
    }
    expect(await ledger.seals.listKeyIds()).toEqual(['k1', 'k2']);
  });
});
