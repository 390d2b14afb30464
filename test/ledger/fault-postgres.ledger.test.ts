/** The way to PostgreSQL breaks: each verb has happened once, or not at all and says so. */
import { noRules } from '../../src/ledger/rules.ts';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { makeToken } from '../../src/base/ids.ts';
import type { Closing } from '../../src/ledger/commit.ts';
import type { Ledger } from '../../src/ledger/ledger.ts';
import { openLedger } from '../../src/ledger/open.ts';
import { foreach, task } from '../pipeline/graphs.ts';
import { openBarrier } from '../support/ledger/barrier.ts';
import { makeProxy, type Loss, type Proxy } from '../support/ledger/proxy.ts';
import { claimSteps, define, done as stepDone, start, stepsOf } from '../support/ledger/runs.ts';
import { only, openBench, range, type Bench, type PostgresPlace } from '../support/ledger/bench.ts';
import {
  beat,
  claimAs,
  crash,
  draft,
  release,
  request,
  settleOne,
  signalOf,
  startOne,
  strict,
  succeed,
} from '../support/ledger/drafts.ts';

interface Broken extends Bench {
  /** The same ledger, over a way that can break. */
  readonly far: Ledger;
  readonly proxy: Proxy;
}

async function openBroken(): Promise<Broken> {
  const bench = await openBench('postgres');
  const place = bench.place as PostgresPlace;
  const proxy = await makeProxy(place.url);
  const far = await openLedger({ ...place, url: proxy.url }, noRules);
  onTestFinished(() => far.close());
  return { ...bench, far, proxy };
}

function succeedFully(job: Closing['job']): Closing {
  return succeed(job, {
    state: { kind: 'snapshot', factType: 'seen', mirror: true, value: '{"seen":1}' },
    signals: [signalOf(job)],
    jobs: [draft({ dedupe: strict('child') }), draft()],
  });
}

const unavailable = { code: 'LEDGER_UNAVAILABLE' };
const losses: readonly Loss[] = ['unsent', 'unanswered', 'unheard'];

describe.each(losses)('a commit that is %s', (loss) => {
  test('enqueue: the jobs are stored once', async () => {
    const { far, proxy, ledger } = await openBroken();
    const jobs = [draft({ dedupe: strict('k') }), draft(), draft({ dedupe: strict('k') })];
    const signals = [
      { id: 's', type: 'a.b', source: 'api', data: '{}', hops: 0, correlationId: 'c' },
    ];
    proxy.loseAt('commit', loss);
    const answers = await far.jobs.enqueue({ jobs, signals });
    expect(answers.map(({ duplicateOf }) => duplicateOf)).toEqual([
      undefined,
      undefined,
      jobs[0]?.id,
    ]);
    expect(proxy.lost()).toBe(1);
    expect((await ledger.jobs.countQueue()).ready).toBe(2);
    expect(await ledger.signals.list({ limit: 10 })).toHaveLength(1);
  });

  test('claim: the claimed jobs are known, and no others are claimed', async () => {
    const { far, proxy, ledger } = await openBroken();
    await ledger.jobs.enqueue({ jobs: range(10).map(() => draft()) });
    await far.processes.heartbeat(beat('p1'));
    proxy.loseAt('commit', loss);
    const claimed = await far.jobs.claim(request('p1', { slots: 3 }));
    expect(proxy.lost()).toBe(1);
    expect(claimed).toHaveLength(3);
    const running = await ledger.jobs.list({ status: ['running'], limit: 10, order: 'oldest' });
    expect(claimed.map(({ id }) => id)).toEqual(running.map(({ id }) => id));
  });

  test('settle with a claim: both happened once and are reported', async () => {
    const { far, proxy, ledger } = await openBroken();
    const job = await startOne(far, 'p1', { dedupe: strict('k') });
    await ledger.jobs.enqueue({ jobs: [draft({ dedupe: strict('child') })] });
    const closing = succeedFully(job);
    proxy.loseAt('commit', loss);
    const { verdicts, enqueued, claimed } = await far.jobs.settle(
      [closing],
      request('p1', { slots: 1 }),
    );
    expect(proxy.lost()).toBe(1);
    expect([...verdicts]).toEqual([[job.id, 'settled']]);
    expect(enqueued.map(({ duplicateOf }) => duplicateOf !== undefined)).toEqual([true, false]);
    expect(claimed).toHaveLength(1);
    expect(await ledger.jobs.countQueue()).toMatchObject({ ready: 1, running: 1 });
    expect(await ledger.attempts.listByJob([job.id])).toHaveLength(1);
    expect(await ledger.signals.list({ limit: 10 })).toHaveLength(1);
    expect(await ledger.plugins.listFacts('echo', 10)).toHaveLength(1);
  });

  test('settle that moves a run: the run has moved once, and that is reported', async () => {
    const { far, proxy, ledger } = await openBroken();
    const graph = await define(ledger, [task('a', { next: 'b' }), task('b')]);
    proxy.loseAt('commit', loss);
    const run = await start(far, graph);
    proxy.loseAt('commit', loss);
    const { runEvents } = await far.jobs.settle([stepDone(only(await claimSteps(ledger, graph)))]);
    expect(runEvents.queued).toBe(true);
    proxy.loseAt('commit', loss);
    const ends: (readonly string[] | undefined)[] = [];
    far.onEnds((ids) => ends.push(ids));
    const last = only(await claimSteps(ledger, graph));
    await far.jobs.settle([stepDone(last)]);
    expect(ends.flat()).toEqual(expect.arrayContaining([last.id, run.id]));
    expect(proxy.lost()).toBe(3);
    expect(await stepsOf(ledger, run.id)).toEqual(['a succeeded', 'b succeeded']);
  });

  test('advancement: each branch of the block is begun once', async () => {
    const { far, proxy, ledger } = await openBroken();
    const graph = await define(ledger, [foreach('each', 'a'), task('a')]);
    await start(ledger, graph, { items: range(150) });
    await far.processes.heartbeat(beat('p1'));
    const token = makeToken();
    proxy.loseAt('commit', loss);
    const claim = await far.runs.claimBranches({ processId: 'p1', token, limit: 5 });
    proxy.loseAt('commit', loss);
    const answer = await far.runs.advance({ branchId: only(claim.branchIds), token });
    expect(answer).toMatchObject({ verdict: 'done', queued: true });
    expect(proxy.lost()).toBe(2);
    expect(await claimSteps(ledger, graph)).toHaveLength(150);
  });

  test('release: the job is released once', async () => {
    const { far, proxy, ledger, job: read } = await openBroken();
    const job = await startOne(far, 'p1');
    proxy.loseAt('commit', loss);
    expect(await settleOne(far, release(job))).toBe('settled');
    expect(await read(job.id)).toMatchObject({ status: 'queued', attempt: 2 });
    expect(await ledger.attempts.listByJob([job.id])).toHaveLength(1);
  });

  test('reap: the work is released once', async () => {
    const { far, proxy, ledger, job: read } = await openBroken();
    const job = await startOne(ledger, 'dead');
    proxy.loseAt('commit', loss);
    const closings = [crash(job, true)];
    const { verdicts } = await far.processes.reap({ processId: 'dead', staleMs: 0, closings });
    expect([...verdicts.values()]).toEqual(['settled']);
    expect(await read(job.id)).toMatchObject({ status: 'queued', attempt: 2, crashCount: 1 });
    expect(await ledger.processes.list()).toEqual([]);
  });

  test('cancel: the job is cancelled, and that is the result', async () => {
    const { far, proxy, ledger, job: read } = await openBroken();
    const waiting = draft();
    await ledger.jobs.enqueue({ jobs: [waiting] });
    proxy.loseAt('commit', loss);
    expect(await far.jobs.cancel(waiting.id)).toBe('cancelled');
    const running = await startOne(ledger, 'p1');
    proxy.loseAt('commit', loss);
    expect(await far.jobs.cancel(running.id)).toBe('requested');
    expect(proxy.lost()).toBe(2);
    expect((await read(waiting.id)).status).toBe('cancelled');
  });

  test('heartbeat, promotion, pruning and farewell: each is done', async () => {
    const { far, proxy, ledger, sql } = await openBroken();
    proxy.loseAt('commit', loss);
    await far.processes.heartbeat(beat('p1'));
    expect(await ledger.processes.list()).toHaveLength(1);
    await ledger.jobs.enqueue({ jobs: [draft(), draft()] });
    await sql(`update job_queue set next_retry_at = '2000-01-01T00:00:00.000Z'`);
    proxy.loseAt('commit', loss);
    await far.jobs.promote();
    expect(await ledger.jobs.countQueue()).toMatchObject({ ready: 2, delayed: 0 });
    await ledger.jobs.settle((await claimAs(ledger, 'p1')).map((job) => succeed(job)));
    proxy.loseAt('commit', loss);
    await far.history.prune({ what: 'jobs', olderThanMs: 0, limit: 10 });
    expect(await ledger.jobs.list({ limit: 10 })).toEqual([]);
    proxy.loseAt('commit', loss);
    await far.processes.leave('p1');
    expect(await ledger.processes.list()).toEqual([]);
    expect(proxy.lost()).toBe(4);
  });
});

describe('an attempt that is reaped while the response to its settle is lost', () => {
  test('learns that it lost its claim', async () => {
    const { far, proxy, ledger, job: read } = await openBroken();
    const job = await startOne(far, 'p1');
    proxy.loseAt('commit', 'unsent');
    const settling = far.jobs.settle([succeedFully(job)]);
    await vi.waitFor(() => expect(proxy.lost()).toBe(1));
    await ledger.processes.reap({ processId: 'p1', staleMs: 0, closings: [crash(job)] });
    const [verdict] = (await settling).verdicts.values();
    const { status } = await read(job.id);
    // The second try may still have come before the reaper; then the reaper was the fenced one.
    expect([verdict, status]).toEqual(
      status === 'queued' ? ['fenced', 'queued'] : ['settled', 'succeeded'],
    );
    expect(await ledger.attempts.listByJob([job.id])).toHaveLength(1);
  });
});

describe('a connection that is lost at every statement in turn', () => {
  const verbs: readonly (readonly [string, (world: Broken) => Promise<() => Promise<unknown>>])[] =
    [
      [
        'enqueue',
        ({ far }) => {
          const jobs = [draft({ dedupe: strict('k') }), draft()];
          const contexts = [{ id: 'context', accumulated: '{}' }];
          return Promise.resolve(() => far.jobs.enqueue({ jobs, contexts }));
        },
      ],
      [
        'settle and claim',
        async ({ far, ledger }) => {
          const job = await startOne(ledger, 'p1', { dedupe: strict('k') });
          await ledger.jobs.enqueue({ jobs: [draft()] });
          const closing = succeedFully(job);
          return () => far.jobs.settle([closing], request('p1'));
        },
      ],
      [
        'reap',
        async ({ far, ledger }) => {
          const job = await startOne(ledger, 'dead');
          return () =>
            far.processes.reap({ processId: 'dead', staleMs: 0, closings: [crash(job)] });
        },
      ],
      [
        'cancel',
        async ({ far, ledger }) => {
          const jobDraft = draft({ dedupe: strict('k') });
          await ledger.jobs.enqueue({ jobs: [jobDraft] });
          return () => far.jobs.cancel(jobDraft.id);
        },
      ],
      ['heartbeat', ({ far }) => Promise.resolve(() => far.processes.heartbeat(beat('p1')))],
    ];

  test.each(verbs)('%s has happened, or nothing has', async (_, prepare) => {
    const world = await openBroken();
    const { proxy, dump } = world;
    const verb = await prepare(world);
    const before = await dump();
    // The commit is the last of them: lost before it was sent, it is sent again.
    for (let at = 1; ; at += 1) {
      proxy.loseAt(at, 'unsent');
      const done = await verb().then(
        () => true,
        (error: unknown) => {
          expect(error).toMatchObject(unavailable);
          return false;
        },
      );
      expect(proxy.lost()).toBe(at);
      if (done) break;
      expect(await dump()).toEqual(before);
    }
    expect(await dump()).not.toEqual(before);
    expect(proxy.lost()).toBeGreaterThan(0);
  });

  test('a read fails and the next one does not', async () => {
    const { far, proxy } = await openBroken();
    proxy.loseAt(1, 'unanswered');
    await expect(far.jobs.countQueue()).rejects.toMatchObject(unavailable);
    expect(await far.jobs.countQueue()).toMatchObject({ ready: 0 });
  });
});

describe('a connection that an operator ends', () => {
  test('in the middle of a verb leaves nothing of it, and the ledger continues', async () => {
    const bench = await openBench('postgres');
    const { ledger, dump } = bench;
    const barrier = await openBarrier(bench);
    const job = await startOne(ledger, 'p1', { dedupe: strict('k') });
    const closing = succeedFully(job);
    const before = await dump();
    await barrier.hold('select 1 from storage_sequences for update');
    const settling = ledger.jobs.settle([closing]).then(
      () => 'settled',
      (error: { code?: string }) => error.code,
    );
    await barrier.terminate(await barrier.untilWaiting(1));
    expect(await settling).toBe('LEDGER_UNAVAILABLE');
    await barrier.lift();
    expect(await dump()).toEqual(before);
    expect(await settleOne(ledger, closing)).toBe('settled');
  });

  test('while it is idle is not even noticed', async () => {
    const { ledger, sql } = await openBench('postgres');
    await Promise.all(range(5).map(() => ledger.jobs.countQueue()));
    await sql(`select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'ductile'
      and state = 'idle' and datname = current_database()`);
    await vi.waitFor(async () =>
      expect(await ledger.jobs.countQueue()).toMatchObject({ ready: 0 }),
    );
    await ledger.jobs.enqueue({ jobs: [draft()] });
    expect(only(await ledger.jobs.list({ limit: 5 })).status).toBe('queued');
  });

  test('by a time limit of the server counts as an outage, not as bad data', async () => {
    const bench = await openBench('postgres');
    const { ledger, dump, sql } = bench;
    const barrier = await openBarrier(bench);
    const job = await startOne(ledger, 'p1');
    const before = await dump();
    await barrier.hold('select 1 from job_queue for update');
    const refused = expect(ledger.jobs.settle([succeedFully(job)])).rejects.toMatchObject(
      unavailable,
    );
    const [pid = 0] = await barrier.untilWaiting(1);
    await sql('select pg_cancel_backend(?)', [pid]);
    await refused;
    await barrier.lift();
    expect(await dump()).toEqual(before);
  });
});

test('a server that only reads refuses, and it is certain that nothing was accepted', async () => {
  const { ledger, dump, sql } = await openBench('postgres');
  const [{ name } = { name: '' }] = await sql('select current_database() as name');
  const alter = async (change: string): Promise<void> => {
    await sql(`alter database ${name} ${change}`);
    await sql(`select pg_terminate_backend(pid) from pg_stat_activity
      where pid <> pg_backend_pid() and datname = current_database()`);
    await vi.waitFor(async () =>
      expect(await ledger.jobs.countQueue()).toMatchObject({ ready: 0 }),
    );
  };
  const before = await dump();
  await alter('set default_transaction_read_only = on');
  await expect(ledger.jobs.enqueue({ jobs: [draft()] })).rejects.toMatchObject(unavailable);
  expect(await dump()).toEqual(before);
  await alter('reset default_transaction_read_only');
  await ledger.jobs.enqueue({ jobs: [draft()] });
  expect((await ledger.jobs.countQueue()).ready).toBe(1);
});

describe('a server that cannot be reached', () => {
  test('is reported, and the same ledger works again when it is back', async () => {
    const { far, proxy, ledger } = await openBroken();
    await far.jobs.enqueue({ jobs: [draft()] });
    await proxy.down();
    await expect(far.jobs.enqueue({ jobs: [draft()] })).rejects.toMatchObject(unavailable);
    await expect(far.jobs.countQueue()).rejects.toMatchObject(unavailable);
    await expect(far.processes.heartbeat(beat('p1'))).rejects.toMatchObject(unavailable);
    await proxy.up();
    await far.jobs.enqueue({ jobs: [draft()] });
    expect((await ledger.jobs.countQueue()).ready).toBe(2);
  });

  test('keeps a ledger from being opened, and says why', async () => {
    const { proxy, place } = await openBroken();
    await proxy.down();
    await expect(
      openLedger({ ...(place as PostgresPlace), url: proxy.url }, noRules),
    ).rejects.toMatchObject({ ...unavailable, message: expect.stringContaining('ECONNREFUSED') });
    await proxy.up();
  });

  test('from the moment of a commit on leaves it uncertain, and asking again settles it', async () => {
    const { far, proxy, ledger } = await openBroken();
    const job = await startOne(far, 'p1');
    const closing = succeedFully(job);
    proxy.loseAt('commit', 'unanswered');
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    onTestFinished(() => void vi.useRealTimers());
    const outcome: { code?: string | undefined } = {};
    const settling = far.jobs.settle([closing]).catch(({ code }: { code?: string }) => {
      outcome.code = code;
    });
    while (proxy.lost() === 0) await new Promise<void>((turn) => setImmediate(turn));
    await proxy.down();
    while (outcome.code === undefined) {
      await vi.advanceTimersByTimeAsync(100);
      await new Promise<void>((turn) => setImmediate(turn));
    }
    vi.useRealTimers();
    await settling;
    expect(outcome.code).toBe('LEDGER_UNCERTAIN');
    await proxy.up();
    const { verdicts, enqueued } = await far.jobs.settle([closing]);
    expect([...verdicts.values()]).toEqual(['settled']);
    expect(enqueued).toHaveLength(2);
    expect(await ledger.attempts.listByJob([job.id])).toHaveLength(1);
    expect((await ledger.jobs.countQueue()).ready).toBe(2);
  });
});
