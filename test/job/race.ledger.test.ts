/** Two that add and claim, from two connections, held at the place where they meet. */
import { describe, expect, test } from 'vitest';
import type { ClaimedJob } from '../../src/job/types.ts';
import { openMeeting, runTogether, type Meeting } from '../support/ledger/barrier.ts';
import { only, range } from '../support/ledger/bench.ts';
import {
  beat,
  claimable,
  claimAs,
  draft,
  request,
  settleOne,
  startOne,
  strict,
  succeed,
} from '../support/ledger/drafts.ts';

const LONG_AGO = '2000-01-01T00:00:00.000Z';

describe('two that enqueue', () => {
  test('with one key: one is added, the other is its duplicate', async () => {
    const { ledger, other, barrier } = await openMeeting();
    await barrier.hold(`insert into job_dedupe values ('k', 'echo', 'handle', 'nobody', null)`);
    const jobs = [draft({ dedupe: strict('k') }), draft({ dedupe: strict('k') })];
    const answers = await runTogether(
      barrier,
      () => ledger.jobs.enqueue({ jobs: jobs.slice(0, 1) }),
      () => other.jobs.enqueue({ jobs: jobs.slice(1) }),
    );
    const added = answers.flat().filter(({ duplicateOf }) => duplicateOf === undefined);
    const dropped = answers.flat().filter(({ duplicateOf }) => duplicateOf !== undefined);
    expect(only(dropped).duplicateOf).toBe(only(added).jobId);
    expect((await ledger.jobs.countQueue()).ready).toBe(1);
  });

  test('with one key whose time is over: one is added', async () => {
    const { ledger, other, barrier, sql } = await openMeeting();
    await settleOne(ledger, succeed(await startOne(ledger, 'p1', { dedupe: strict('k') })));
    await sql('update job_dedupe set blocks_until = ?', [LONG_AGO]);
    await barrier.hold('select 1 from job_dedupe for update');
    const answers = await runTogether(
      barrier,
      () => ledger.jobs.enqueue({ jobs: [draft({ dedupe: strict('k') })] }),
      () => other.jobs.enqueue({ jobs: [draft({ dedupe: strict('k') })] }),
    );
    const dropped = answers.flat().filter(({ duplicateOf }) => duplicateOf !== undefined);
    expect(dropped).toHaveLength(1);
    expect((await ledger.jobs.countQueue()).ready).toBe(1);
  });

  test('the same job: it is there once and holds its key once', async () => {
    const { ledger, other, barrier } = await openMeeting();
    await barrier.hold(`insert into job_dedupe values ('k', 'echo', 'handle', 'nobody', null)`);
    const jobs = [draft({ dedupe: strict('k') })];
    const ask = [() => ledger.jobs.enqueue({ jobs }), () => other.jobs.enqueue({ jobs })] as const;
    expect((await runTogether(barrier, ...ask)).flat()).toEqual(
      range(2).map(() => ({ jobId: jobs[0]?.id })),
    );
    expect((await ledger.jobs.countQueue()).ready).toBe(1);
  });

  test('a job that has come and gone while it was asked for again leaves its key as it is', async () => {
    const { ledger, barrier, sql } = await openMeeting();
    const jobDraft = draft({ dedupe: strict('k') });
    await barrier.hold(`insert into job_dedupe values ('k', 'echo', 'handle', $1, $2)`, [
      jobDraft.id,
      '2999-01-01T00:00:00.000Z',
    ]);
    const asking = ledger.jobs.enqueue({ jobs: [jobDraft] });
    await barrier.untilWaiting(1);
    await barrier.lift('commit');
    expect(await asking).toEqual([{ jobId: jobDraft.id }]);
    expect(await sql('select blocks_until from job_dedupe')).toEqual([
      { blocks_until: '2999-01-01T00:00:00.000Z' },
    ]);
  });

  test('the same keys in other orders do not lock each other out', async () => {
    const { ledger, other } = await openMeeting();
    for (let round = 0; round < 20; round += 1) {
      const keys = range(10).map((index) => `${round} ${index}`);
      const [one, two] = await Promise.all([
        ledger.jobs.enqueue({ jobs: keys.map((key) => draft({ dedupe: strict(key) })) }),
        other.jobs.enqueue({
          jobs: keys.toReversed().map((key) => draft({ dedupe: strict(key) })),
        }),
      ]);
      const added = [...one, ...two].filter(({ duplicateOf }) => duplicateOf === undefined);
      expect(added).toHaveLength(10);
    }
  });
});

describe('two that add to a queue with a limit', () => {
  const queueLimit = { most: 3, tenant: 'acme' };

  test('and the last free place: one gets it, the other is refused', async () => {
    const { ledger, other, barrier } = await openMeeting();
    await ledger.jobs.enqueue({ jobs: [draft(), draft({ due: { inMs: 60_000 } })] });
    await barrier.holdQueue();
    const [one, two] = await runTogether(
      barrier,
      () => outcomeOf(ledger.jobs.enqueue({ jobs: [draft()], queueLimit })),
      () => outcomeOf(other.jobs.enqueue({ jobs: [draft()], queueLimit })),
    );
    expect([one, two].toSorted()).toEqual(['TENANT_LIMIT', 'added']);
    expect((await ledger.jobs.countQueue()).ready).toBe(2);
  });

  test('a batch that does not fit adds nothing', async () => {
    const { ledger } = await openMeeting();
    const jobs = range(4).map(() => draft());
    expect(await outcomeOf(ledger.jobs.enqueue({ jobs, queueLimit }))).toBe('TENANT_LIMIT');
    expect((await ledger.jobs.countQueue()).ready).toBe(0);
    expect(await outcomeOf(ledger.jobs.enqueue({ jobs: jobs.slice(1), queueLimit }))).toBe('added');
  });
});

async function outcomeOf(adding: Promise<unknown>): Promise<string> {
  return adding.then(
    () => 'added',
    (error: { readonly code: string }) => error.code,
  );
}

describe('a key that is pruned while it is claimed again', () => {
  test('is still held afterwards', async () => {
    const { ledger, other, barrier, sql } = await openMeeting();
    await settleOne(ledger, succeed(await startOne(ledger, 'p1', { dedupe: strict('k') })));
    await sql('update job_dedupe set blocks_until = ?', [LONG_AGO]);
    // Another process adds the same job: the enqueue has locked its key and waits.
    const next = draft({ dedupe: strict('k') });
    const columns = `id, plugin, command, status, submitted_by, actor, created_at, ready_at,
      root_job_id, idempotency_key`;
    await barrier.hold(
      `insert into job_queue (${columns}) values ($1, '', '', 'queued', '', '', '', '', '', '')`,
      [next.id],
    );
    const taking = ledger.jobs.enqueue({ jobs: [next] });
    await barrier.untilWaiting(1);
    const pruned = await other.history.prune({ what: 'dedupe', olderThanMs: 0, limit: 10 });
    await barrier.lift();
    expect(await taking).toEqual([{ jobId: next.id }]);
    expect(pruned).toBe(0);
    const again = await other.jobs.enqueue({ jobs: [draft({ dedupe: strict('k') })] });
    expect(only(again).duplicateOf).toBe(next.id);
  });
});

describe('two that claim', () => {
  async function race(
    { ledger, other, barrier }: Meeting,
    given: Parameters<typeof claimAs>[2] = {},
  ): Promise<[ClaimedJob[], ClaimedJob[]]> {
    await Promise.all([
      ledger.processes.heartbeat(beat('p1')),
      other.processes.heartbeat(beat('p2')),
    ]);
    await barrier.holdClaims();
    return runTogether(
      barrier,
      () => ledger.jobs.claim(request('p1', given)),
      () => other.jobs.claim(request('p2', given)),
    );
  }

  test('the only job: one has it', async () => {
    const meeting = await openMeeting();
    await meeting.ledger.jobs.enqueue({ jobs: [draft()] });
    const claimed = (await race(meeting)).flat();
    expect(claimed).toHaveLength(1);
  });

  test('the last free place of a plugin: one has it', async () => {
    const meeting = await openMeeting();
    await meeting.ledger.jobs.enqueue({ jobs: range(10).map(() => draft()) });
    const plugins = [claimable('echo', { parallelism: 3 })];
    await claimAs(meeting.ledger, 'p1', { plugins, slots: 2 });
    expect((await race(meeting, { plugins })).flat()).toHaveLength(1);
  });

  test('two jobs of one key: one runs', async () => {
    const meeting = await openMeeting();
    const dedupe = { key: 'k', ttlMs: 0, blockInFlight: false };
    await meeting.ledger.jobs.enqueue({ jobs: [draft({ dedupe }), draft({ dedupe })] });
    expect((await race(meeting)).flat()).toHaveLength(1);
  });

  test('many jobs: each has its own, and all that there are', async () => {
    const meeting = await openMeeting();
    await meeting.ledger.jobs.enqueue({ jobs: range(30).map(() => draft()) });
    const [one, two] = await race(meeting, { slots: 15 });
    expect([one.length, two.length]).toEqual([15, 15]);
    expect(new Set([...one, ...two].map(({ id }) => id)).size).toBe(30);
  });

  test('while one of them settles in the same commit: no place is given twice', async () => {
    const { ledger, other, barrier } = await openMeeting();
    await ledger.jobs.enqueue({ jobs: range(5).map(() => draft()) });
    const plugins = [claimable('echo', { parallelism: 1 })];
    const job = only(await claimAs(ledger, 'p1', { plugins }));
    await other.processes.heartbeat(beat('p2'));
    await barrier.holdClaims();
    const [settled, claimed] = await runTogether(
      barrier,
      () => ledger.jobs.settle([succeed(job)], request('p1', { plugins })),
      () => other.jobs.claim(request('p2', { plugins })),
    );
    expect([...settled.claimed, ...claimed]).toHaveLength(1);
  });
});

describe('a process that waits for a job', () => {
  test('does not make it wait: a claim in that moment does not pass it over', async () => {
    const { ledger, other, barrier, sql } = await openMeeting();
    const [older, younger] = [draft(), draft({ plugin: 'two' })];
    await ledger.jobs.enqueue({ jobs: [older, younger] });
    await ledger.processes.heartbeat(beat('p1'));
    // Holds it between its write and its commit.
    await sql(`create function stop_here() returns trigger language plpgsql as
      'begin perform pg_advisory_xact_lock(7); return null; end'`);
    await sql(`create trigger stop_here after update of awaited_by on job_queue
      for each row execute function stop_here()`);
    await barrier.hold('select pg_advisory_xact_lock(7)');
    const plugins = [claimable('echo'), claimable('two')];
    const [, claimed] = await runTogether(
      barrier,
      () => other.awaitEnd('job', older.id),
      () => ledger.jobs.claim(request('p1', { plugins, slots: 1 })),
    );
    expect(only(claimed).id).toBe(older.id);
  });

  test("and finds it locked doesn't keep others from claiming", async () => {
    const { ledger, other, barrier, job } = await openMeeting();
    const running = await startOne(ledger, 'p1');
    const next = draft();
    await ledger.jobs.enqueue({ jobs: [next] });
    await barrier.hold('select 1 from job_queue where id = $1 for update', [running.id]);
    const waiting = other.awaitEnd('job', running.id);
    await barrier.untilWaiting(1);
    expect(only(await ledger.jobs.claim(request('p1'))).id).toBe(next.id);
    await barrier.lift();
    await waiting;
    expect((await job(running.id)).awaitedBy).toBe(other.listener);
  });
});

describe('a process that claims while it is reaped', () => {
  test.each(['the claim', 'the reaping'])(
    'never runs without being known; first is %s',
    async (first) => {
      const { ledger, other, barrier, sql } = await openMeeting();
      await ledger.jobs.enqueue({ jobs: [draft()] });
      await ledger.processes.heartbeat(beat('p1'));
      await sql('update processes set last_heartbeat_at = ?', [LONG_AGO]);
      await barrier.holdClaims();
      const claim = () => ledger.jobs.claim(request('p1'));
      const reap = () => other.processes.reap({ processId: 'p1', staleMs: 1000, closings: [] });
      if (first === 'the claim') await runTogether(barrier, claim, reap);
      else await runTogether(barrier, reap, claim);
      const running = await ledger.jobs.list({ status: ['running'], limit: 10 });
      const known = await ledger.processes.list();
      expect([running.length, known.length]).toEqual(first === 'the claim' ? [1, 1] : [0, 0]);
    },
  );
});
