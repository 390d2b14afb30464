import { describe, expect, test } from 'vitest';
import { schemaVersion } from '../../src/ledger/migrate.ts';
import { databases, only, openBench, range, type Bench } from '../support/ledger/bench.ts';
import {
  beat,
  closeUnrunnable,
  claimable,
  claimAs,
  crash,
  draft,
  release,
  request,
  settleOne,
  startOne,
  succeed,
} from '../support/ledger/drafts.ts';

const STALE_MS = 30_000;
const LONG_AGO = '2000-01-01T00:00:00.000Z';

async function silence({ sql }: Bench, processId: string): Promise<void> {
  await sql('update processes set last_heartbeat_at = ? where id = ?', [LONG_AGO, processId]);
}

describe.each(databases)('a heartbeat on %s', (kind) => {
  test('registers a process, with the time of the database', async () => {
    const { ledger } = await openBench(kind);
    const before = await ledger.now();
    expect(await ledger.processes.heartbeat(beat('p1'))).toEqual({ known: false, running: [] });
    const { plugins: _plugins, ...fields } = beat('p1');
    const row = only(await ledger.processes.list());
    expect(row).toMatchObject(fields);
    expect([row.startedAt >= before, row.lastHeartbeatAt >= row.startedAt]).toEqual([true, true]);
  });

  test('from a known process renews it and its details', async () => {
    const bench = await openBench(kind);
    const { ledger, sql } = bench;
    await ledger.processes.heartbeat(beat('p1'));
    await sql('update processes set started_at = ?, last_heartbeat_at = ?', [LONG_AGO, LONG_AGO]);
    const next = beat('p1', { slots: 3, spawner: 'native', plugins: ['echo', 'new'] });
    expect((await ledger.processes.heartbeat(next)).known).toBe(true);
    const row = only(await ledger.processes.list());
    expect(row).toMatchObject({ slots: 3, spawner: 'native', startedAt: LONG_AGO });
    expect(row.lastHeartbeatAt > LONG_AGO).toBe(true);
    expect(await sql('select plugins from processes')).toMatchObject([
      { plugins: '["echo","new"]' },
    ]);
  });

  test('from a known process reports a schema that a newer program has created', async () => {
    const { ledger, sql } = await openBench(kind);
    await ledger.processes.heartbeat(beat('p1'));
    expect(await ledger.processes.heartbeat(beat('p1'))).toMatchObject({ schemaVersion });
    const next = [schemaVersion + 1, 'next', LONG_AGO];
    await sql('insert into schema_migrations (version, name, applied_at) values (?, ?, ?)', next);
    expect(await ledger.processes.heartbeat(beat('p1'))).toMatchObject({
      schemaVersion: schemaVersion + 1,
    });
  });

  test('returns the claims that the ledger has for the process', async () => {
    const { ledger } = await openBench(kind);
    await ledger.jobs.enqueue({ jobs: range(3).map(() => draft()) });
    const mine = await claimAs(ledger, 'p1', { slots: 2 });
    await claimAs(ledger, 'p2');
    const { running } = await ledger.processes.heartbeat(beat('p1'));
    expect(running.toSorted((a, b) => (a.jobId < b.jobId ? -1 : 1))).toEqual(
      mine.map(({ id, claimToken }) => ({ jobId: id, claimToken, cancelRequested: false })),
    );
  });

  test('from a reaped process says so, and makes it known again', async () => {
    const { ledger } = await openBench(kind);
    const job = await startOne(ledger, 'p1');
    await ledger.processes.reap({ processId: 'p1', staleMs: 0, closings: [crash(job)] });
    expect(await ledger.jobs.claim(request('p1'))).toEqual([]);
    expect(await ledger.processes.heartbeat(beat('p1'))).toEqual({ known: false, running: [] });
    expect(await ledger.processes.heartbeat(beat('p1'))).toMatchObject({
      known: true,
      running: [],
    });
    expect(await ledger.jobs.claim(request('p1'))).toHaveLength(1);
  });
});

describe.each(databases)('leaving on %s', (kind) => {
  test('deletes the row of the process', async () => {
    const { ledger } = await openBench(kind);
    await ledger.processes.heartbeat(beat('p1'));
    await ledger.processes.heartbeat(beat('p2'));
    await ledger.processes.leave('p1');
    await ledger.processes.leave('nobody');
    expect((await ledger.processes.list()).map(({ id }) => id)).toEqual(['p2']);
  });

  test('keeps the row while a job of the process runs', async () => {
    const { ledger } = await openBench(kind);
    const job = await startOne(ledger, 'p1');
    await ledger.processes.leave('p1');
    expect(await ledger.processes.list()).toHaveLength(1);
    await settleOne(ledger, release(job));
    await ledger.processes.leave('p1');
    expect(await ledger.processes.list()).toEqual([]);
  });
});

describe.each(databases)('orphans on %s', (kind) => {
  const ask = { self: 'self', staleMs: STALE_MS };

  test('are the jobs of silent processes, and none of live ones', async () => {
    const bench = await openBench(kind);
    const { ledger } = bench;
    const left = [await startOne(ledger, 'dead'), await startOne(ledger, 'dead')];
    await startOne(ledger, 'alive');
    await ledger.processes.heartbeat(beat('idle'));
    await silence(bench, 'dead');
    await silence(bench, 'idle');
    const found = await ledger.processes.listOrphans(ask);
    const byId = new Map(found.map(({ processId, jobs }) => [processId, jobs.map(({ id }) => id)]));
    expect(byId).toEqual(
      new Map([
        ['dead', left.map(({ id }) => id)],
        ['idle', []],
      ]),
    );
    expect(found.flatMap(({ jobs }) => jobs).map(({ claimToken }) => claimToken)).toEqual(
      left.map(({ claimToken }) => claimToken),
    );
  });

  test('are never those of the process that asks, even if it was silent', async () => {
    const bench = await openBench(kind);
    const { ledger } = bench;
    await startOne(ledger, 'self');
    await silence(bench, 'self');
    expect(await ledger.processes.listOrphans(ask)).toEqual([]);
  });

  test('include claims of a process that has no row', async () => {
    const { ledger, sql } = await openBench(kind);
    const job = await startOne(ledger, 'gone');
    await sql('delete from processes');
    const { processId, jobs } = only(await ledger.processes.listOrphans(ask));
    expect([processId, only(jobs).id]).toEqual(['gone', job.id]);
    const closings = jobs.map((one) => crash(one));
    const { verdicts } = await ledger.processes.reap({ processId, staleMs: STALE_MS, closings });
    expect([...verdicts.values()]).toEqual(['settled']);
    expect(await ledger.processes.listOrphans(ask)).toEqual([]);
  });
});

describe.each(databases)('reaping on %s', (kind) => {
  test('requeues the work of a silent process and deletes its row', async () => {
    const bench = await openBench(kind);
    const { ledger, job } = bench;
    const [a, b] = [await startOne(ledger, 'dead'), await startOne(ledger, 'dead')];
    await silence(bench, 'dead');
    const closings = [crash(a), crash(b)];
    const settlement = await ledger.processes.reap({
      processId: 'dead',
      staleMs: STALE_MS,
      closings,
    });
    expect([...settlement.verdicts.values()]).toEqual(['settled', 'settled']);
    expect(settlement.claimed).toEqual([]);
    expect(await ledger.processes.list()).toEqual([]);
    expect(await job(a.id)).toMatchObject({ status: 'queued', attempt: 2, retryCount: 0 });
    expect(await ledger.attempts.listByJob([a.id])).toMatchObject([
      { status: 'crashed', cause: 'engine_crash', processId: 'dead' },
    ]);
    expect(await claimAs(ledger, 'p2')).toHaveLength(2);
  });

  test('leaves a process alone that has a recent heartbeat', async () => {
    const { ledger, dump } = await openBench(kind);
    const job = await startOne(ledger, 'alive');
    const before = await dump();
    const closings = [crash(job)];
    const { verdicts } = await ledger.processes.reap({
      processId: 'alive',
      staleMs: STALE_MS,
      closings,
    });
    expect([...verdicts]).toEqual([[job.id, 'fenced']]);
    expect(await dump()).toEqual(before);
  });

  test('does not wait for a process that is proven dead', async () => {
    const { ledger } = await openBench(kind);
    const job = await startOne(ledger, 'dead');
    const closings = [crash(job)];
    const { verdicts } = await ledger.processes.reap({ processId: 'dead', staleMs: 0, closings });
    expect([...verdicts.values()]).toEqual(['settled']);
    expect(await ledger.processes.list()).toEqual([]);
  });

  test('twice writes nothing more', async () => {
    const { ledger, dump } = await openBench(kind);
    const job = await startOne(ledger, 'dead');
    const reap = { processId: 'dead', staleMs: 0, closings: [crash(job)] };
    await ledger.processes.reap(reap);
    const before = await dump();
    await ledger.processes.reap(reap);
    expect(await dump()).toEqual(before);
  });

  test('does not touch what another process claimed since it looked', async () => {
    const { ledger, dump } = await openBench(kind);
    const old = await startOne(ledger, 'dead');
    await ledger.processes.reap({ processId: 'dead', staleMs: 0, closings: [crash(old)] });
    await claimAs(ledger, 'p2');
    const before = await dump();
    const closings = [
      { ...crash(old), report: { ...crash(old).report, cause: 'unheld' as const } },
    ];
    const { verdicts } = await ledger.processes.reap({ processId: 'dead', staleMs: 0, closings });
    expect([...verdicts.values()]).toEqual(['fenced']);
    expect(await dump()).toEqual(before);
  });

  test('keeps the row of a process that has more than was seen', async () => {
    const { ledger } = await openBench(kind);
    const [seen] = [await startOne(ledger, 'dead')];
    const unseen = await startOne(ledger, 'dead');
    await ledger.processes.reap({ processId: 'dead', staleMs: 0, closings: [crash(seen)] });
    expect(await ledger.processes.list()).toHaveLength(1);
    await ledger.processes.reap({ processId: 'dead', staleMs: 0, closings: [crash(unseen)] });
    expect(await ledger.processes.list()).toEqual([]);
  });

  test('with one claim that cannot be written leaves the process to the next try', async () => {
    const { ledger, dump } = await openBench(kind);
    const [a, b] = [await startOne(ledger, 'dead'), await startOne(ledger, 'dead')];
    const before = await dump();
    const jobs = [{ ...draft(), payload: null as unknown as string }];
    const poison = { ...crash(a), jobs };
    await expect(
      ledger.processes.reap({ processId: 'dead', staleMs: 0, closings: [poison, crash(b)] }),
    ).rejects.toThrow();
    expect(await dump()).toEqual(before);
    const { verdicts } = await ledger.processes.reap({
      processId: 'dead',
      staleMs: 0,
      closings: [crash(b)],
    });
    expect([...verdicts.values()]).toEqual(['settled']);
  });
});

describe.each(databases)('expired claims on %s', (kind) => {
  test('are found although their process is alive', async () => {
    const { ledger, sql } = await openBench(kind);
    const old = await startOne(ledger, 'p1');
    await startOne(ledger, 'p1');
    expect(await ledger.jobs.listExpiredClaims()).toEqual([]);
    await sql('update job_queue set claim_expires_at = ? where id = ?', [LONG_AGO, old.id]);
    const expired = await ledger.jobs.listExpiredClaims();
    expect(expired.map(({ id }) => id)).toEqual([old.id]);
    await ledger.jobs.settle(expired.map((job) => crash(job)));
    expect(await settleOne(ledger, succeed(old))).toBe('fenced');
    expect(await ledger.jobs.listExpiredClaims()).toEqual([]);
  });
});

describe.each(databases)('jobs without a runner on %s', (kind) => {
  const ask = { graceMs: 60_000, staleMs: STALE_MS, limit: 10 };

  async function makeOld({ sql }: Bench): Promise<void> {
    await sql('update processes set started_at = ?, plugins_since = ?', [LONG_AGO, LONG_AGO]);
    await sql('update job_queue set ready_at = ?', [LONG_AGO]);
  }

  test('are those of plugins that no live process has known for the grace time', async () => {
    const bench = await openBench(kind);
    const { ledger, job } = bench;
    const [lost, known] = [draft({ plugin: 'removed' }), draft()];
    await ledger.jobs.enqueue({ jobs: [lost, known] });
    await ledger.processes.heartbeat(beat('p1'));
    await makeOld(bench);
    expect((await ledger.jobs.listUnrunnable(ask)).map(({ id }) => id)).toEqual([lost.id]);
    await ledger.jobs.settle(
      (await ledger.jobs.listUnrunnable(ask)).map((one) => closeUnrunnable(one)),
    );
    expect(await job(lost.id)).toMatchObject({ status: 'dead', reason: 'no_runner' });
    expect((await job(known.id)).status).toBe('queued');
  });

  test('are listed for one plugin, delayed jobs included', async () => {
    const { ledger } = await openBench(kind);
    const later = draft({ plugin: 'removed', due: { inMs: 60_000 } });
    const now = draft({ plugin: 'removed' });
    await ledger.jobs.enqueue({ jobs: [later, now, draft()] });
    const ids = async (limit: number): Promise<string[]> =>
      (await ledger.jobs.listQueued('removed', limit)).map(({ id }) => id);
    expect([await ids(9), await ids(1)]).toEqual([[now.id, later.id], [now.id]]);
  });

  test('wait when they are younger than the grace time, or delayed', async () => {
    const bench = await openBench(kind);
    const { ledger, sql } = bench;
    const [young, delayed] = [draft({ plugin: 'removed' }), draft({ plugin: 'removed' })];
    await ledger.jobs.enqueue({ jobs: [young, delayed] });
    await ledger.processes.heartbeat(beat('p1'));
    await makeOld(bench);
    await sql('update job_queue set ready_at = ? where id = ?', [await ledger.now(), young.id]);
    await sql(`update job_queue set next_retry_at = '2999-01-01T00:00:00.000Z' where id = ?`, [
      delayed.id,
    ]);
    expect(await ledger.jobs.listUnrunnable(ask)).toEqual([]);
  });

  test.each([
    ['no process lives', async (bench: Bench) => silence(bench, 'p1')],
    [
      'every process is younger than the grace time',
      async ({ sql, ledger }: Bench) => {
        const now = await ledger.now();
        await sql('update processes set started_at = ?, plugins_since = ?', [now, now]);
      },
    ],
    [
      'the only process has just got other plugins',
      async ({ ledger }: Bench) => {
        await ledger.processes.heartbeat(beat('p1', { plugins: ['other'] }));
      },
    ],
    [
      'another process knows them',
      async ({ ledger }: Bench) => {
        await ledger.processes.heartbeat(beat('p2', { plugins: ['removed'] }));
      },
    ],
  ])('are none when %s', async (_, change) => {
    const bench = await openBench(kind);
    const { ledger } = bench;
    await ledger.jobs.enqueue({ jobs: [draft({ plugin: 'removed' })] });
    await ledger.processes.heartbeat(beat('p1'));
    await makeOld(bench);
    expect(await ledger.jobs.listUnrunnable(ask)).toHaveLength(1);
    await change(bench);
    expect(await ledger.jobs.listUnrunnable(ask)).toEqual([]);
  });

  test('are listed in bounded numbers, over all plugins', async () => {
    const bench = await openBench(kind);
    const { ledger } = bench;
    const jobs = range(12).map((index) => draft({ plugin: `removed-${index % 3}` }));
    await ledger.jobs.enqueue({ jobs });
    await ledger.processes.heartbeat(beat('p1'));
    await makeOld(bench);
    expect(await ledger.jobs.listUnrunnable({ ...ask, limit: 7 })).toHaveLength(7);
    expect(await ledger.jobs.listUnrunnable({ ...ask, limit: 100 })).toHaveLength(12);
  });

  test('do not include jobs of a plugin that the asking process could not load', async () => {
    const bench = await openBench(kind);
    const { ledger } = bench;
    const [broken, removed] = ['broken', 'removed'].map((plugin) => draft({ plugin }));
    await ledger.jobs.enqueue({ jobs: [broken, removed].flatMap((job) => job ?? []) });
    await ledger.processes.heartbeat(beat('p1'));
    await makeOld(bench);
    const found = await ledger.jobs.listUnrunnable({ ...ask, unloaded: ['broken'] });
    expect(found.map(({ id }) => id)).toEqual([removed?.id]);
  });

  test('are found behind a long queue of others', async () => {
    const bench = await openBench(kind);
    const { ledger } = bench;
    await ledger.jobs.enqueue({ jobs: range(2000).map(() => draft()) });
    const lost = draft({ plugin: 'removed' });
    await ledger.jobs.enqueue({ jobs: [lost] });
    await claimAs(ledger, 'p1', { plugins: [claimable()], slots: 3 });
    await makeOld(bench);
    expect((await ledger.jobs.listUnrunnable(ask)).map(({ id }) => id)).toEqual([lost.id]);
  });
});

describe.each(databases)('a quick check on %s', (kind) => {
  test('finds nothing in a sound ledger, and what is wrong with what runs', async () => {
    const { ledger, sql } = await openBench(kind);
    await ledger.jobs.enqueue({ jobs: [draft(), draft()] });
    await claimAs(ledger, 'p1', { slots: 1 });
    expect(await ledger.quickCheck()).toEqual([]);
    const change = `update job_queue set claim_expires_at = ? where status = 'running'`;
    await sql(change, [null]);
    expect(await ledger.quickCheck()).toEqual(['1 running jobs without a claim']);
    await sql(change, [LONG_AGO]);
  });
});
