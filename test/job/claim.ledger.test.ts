import { describe, expect, test } from 'vitest';
import { fromTimestamp } from '../../src/base/clock.ts';
import type { ClaimedJob } from '../../src/job/types.ts';
import { databases, only, openBench, range } from '../support/ledger/bench.ts';
import {
  beat,
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

function idsOf(jobs: readonly { readonly id: string }[]): string[] {
  return jobs.map(({ id }) => id);
}

/** In whole seconds, because the clock of the database may have moved between the two. */
function leaseOf({ startedAt, claimExpiresAt }: ClaimedJob): number {
  const ms = fromTimestamp(claimExpiresAt ?? '') - fromTimestamp(startedAt);
  return Math.round(ms / 1000) * 1000;
}

describe.each(databases)('a claim on %s', (kind) => {
  test('marks the job as running under its token and process', async () => {
    const { ledger, job } = await openBench(kind);
    const jobDraft = draft();
    await ledger.jobs.enqueue({ jobs: [jobDraft] });
    const claimed = only(await claimAs(ledger, 'p1', { token: 'token' }));
    expect(claimed).toMatchObject({
      id: jobDraft.id,
      status: 'running',
      attempt: 1,
      claimToken: 'token',
      claimedBy: 'p1',
      state: '{}',
      context: '{}',
    });
    const { state: _state, context: _context, queueMs, ...row } = claimed;
    expect(await job(jobDraft.id)).toEqual(row);
    expect(queueMs).toBe(fromTimestamp(claimed.startedAt) - fromTimestamp(claimed.readyAt));
  });

  test('lasts as long as its command may, by the clock of the database', async () => {
    const { ledger } = await openBench(kind);
    const commands = ['handle', 'poll', 'constructor'];
    await ledger.jobs.enqueue({ jobs: commands.map((command) => draft({ command })) });
    const plugins = [claimable('echo', { leaseMs: { poll: 5000 }, leaseDefaultMs: 9000 })];
    expect((await claimAs(ledger, 'p1', { plugins })).map(leaseOf)).toEqual([9000, 5000, 9000]);
  });

  test('lasts as long as the timeout of the job, if it has one', async () => {
    const { ledger } = await openBench(kind);
    const own = { leaseMs: {}, leaseDefaultMs: 9000 };
    const plugins = [claimable('echo', { ...own, leaseSlackMs: 7000 }), claimable('plain', own)];
    await ledger.jobs.enqueue({
      jobs: [
        draft({ timeoutMs: 60_000 }),
        draft({ timeoutMs: 1000 }),
        draft(),
        draft({ plugin: 'plain', timeoutMs: 60_000 }),
      ],
    });
    const claimed = await claimAs(ledger, 'p1', { plugins });
    expect(claimed.map(leaseOf)).toEqual([67_000, 8000, 9000, 9000]);
  });

  test('knows whether it saw everything, if there is no other writer', async () => {
    const { ledger } = await openBench(kind);
    await claimAs(ledger, 'p1');
    const look = () => ledger.jobs.settle([], request('p1'));
    // Requests of one tick run in their order.
    const [, seen] = await Promise.all([ledger.jobs.enqueue({ jobs: [draft()] }), look()]);
    const known = kind === 'sqlite' ? { after: true, before: false } : {};
    expect(seen.isLatest?.()).toBe(known.after);
    const [missed] = await Promise.all([look(), ledger.jobs.enqueue({ jobs: [draft()] })]);
    expect(missed.isLatest?.()).toBe(known.before);
    expect(seen.isLatest?.()).toBe(known.before);
    if (kind === 'sqlite') {
      expect([seen.claimed, missed.claimed].map(({ length }) => length)).toEqual([1, 0]);
    }
  });

  test('returns the state of the plugin', async () => {
    const { ledger } = await openBench(kind);
    const first = await startOne(ledger, 'p1');
    await settleOne(ledger, succeed(first, { state: { kind: 'merge', value: '{"at":7}' } }));
    expect((await startOne(ledger, 'p1')).state).toBe('{"at":7}');
  });

  test('claims jobs strictly in their order of arrival, over all plugins', async () => {
    const { ledger } = await openBench(kind);
    const jobs = range(40).map((index) => draft({ plugin: `p${index % 3}` }));
    for (const job of jobs) await ledger.jobs.enqueue({ jobs: [job] });
    const plugins = range(3).map((index) => claimable(`p${index}`));
    const order: string[] = [];
    for (let slots = 1; order.length < jobs.length; slots += 2) {
      order.push(...idsOf(await claimAs(ledger, 'p1', { plugins, slots })));
    }
    expect(order).toEqual(idsOf(jobs));
  });

  test('claims no more than the slots, and nothing without slots', async () => {
    const { ledger } = await openBench(kind);
    await ledger.jobs.enqueue({ jobs: range(5).map(() => draft()) });
    expect(await claimAs(ledger, 'p1', { slots: 0 })).toEqual([]);
    expect(await claimAs(ledger, 'p1', { slots: -1 })).toEqual([]);
    expect(await claimAs(ledger, 'p1', { plugins: [] })).toEqual([]);
    expect(await claimAs(ledger, 'p1', { slots: 3 })).toHaveLength(3);
    expect(await claimAs(ledger, 'p1', { slots: 3 })).toHaveLength(2);
  });

  test('claims no jobs of plugins that the process does not have', async () => {
    const { ledger } = await openBench(kind);
    const [unknown, known] = [draft({ plugin: 'unknown' }), draft()];
    await ledger.jobs.enqueue({ jobs: [unknown, known] });
    expect(idsOf(await claimAs(ledger, 'p1'))).toEqual([known.id]);
    expect((await ledger.jobs.find(unknown.id))?.status).toBe('queued');
  });

  test('is refused to a process that the ledger does not know', async () => {
    const { ledger } = await openBench(kind);
    await ledger.jobs.enqueue({ jobs: [draft()] });
    expect(await ledger.jobs.claim(request('p1'))).toEqual([]);
    await ledger.processes.heartbeat(beat('p1'));
    expect(await ledger.jobs.claim(request('p1'))).toHaveLength(1);
  });

  test('comes with a settle in the same commit, for the slots that it frees', async () => {
    const { ledger } = await openBench(kind);
    const plugins = [claimable('echo', { parallelism: 2 })];
    const jobs = range(5).map(() => draft());
    await ledger.jobs.enqueue({ jobs });
    const first = await claimAs(ledger, 'p1', { plugins });
    const { claimed, verdicts } = await ledger.jobs.settle(
      first.map((job) => succeed(job)),
      request('p1', { plugins, token: 'next' }),
    );
    expect([...verdicts.values()]).toEqual(['settled', 'settled']);
    expect(idsOf(claimed)).toEqual(idsOf(jobs.slice(2, 4)));
    expect(new Set(claimed.map(({ claimToken }) => claimToken))).toEqual(new Set(['next']));
  });
});

describe.each(databases)('limits of claims on %s', (kind) => {
  test('a plugin never runs more than its parallelism, whichever process claims', async () => {
    const { ledger, open } = await openBench(kind);
    const other = await open();
    await ledger.jobs.enqueue({ jobs: range(10).map(() => draft()) });
    const plugins = [claimable('echo', { parallelism: 3 })];
    const one = await claimAs(ledger, 'p1', { plugins, slots: 2 });
    const two = await claimAs(other, 'p2', { plugins, slots: 2 });
    expect([one.length, two.length]).toEqual([2, 1]);
    expect(await claimAs(ledger, 'p1', { plugins })).toEqual([]);
    await settleOne(other, succeed(only(two)));
    expect(await claimAs(ledger, 'p1', { plugins })).toHaveLength(1);
  });

  test('a plugin at its limit does not block others, thousands of jobs in front or not', async () => {
    const { ledger, sql } = await openBench(kind);
    await ledger.jobs.enqueue({ jobs: range(5000).map(() => draft({ plugin: 'slow' })) });
    const quick = range(3).map(() => draft({ plugin: 'quick' }));
    await ledger.jobs.enqueue({ jobs: quick });
    const plugins = [claimable('slow', { parallelism: 1 }), claimable('quick')];
    expect(await claimAs(ledger, 'p1', { plugins, slots: 1 })).toMatchObject([{ plugin: 'slow' }]);
    expect(idsOf(await claimAs(ledger, 'p1', { plugins, slots: 10 }))).toEqual(idsOf(quick));
    expect(await sql(`select count(*) as n from job_queue where status = 'running'`)).toMatchObject(
      [{ n: 4 }],
    );
  });

  test('the same key and target never run at once, and the younger ones keep their order', async () => {
    const { ledger } = await openBench(kind);
    const dedupe = { key: 'k', ttlMs: 0, blockInFlight: false };
    const keyed = range(3).map(() => draft({ dedupe }));
    const others = [draft({ dedupe, command: 'poll' }), draft({ dedupe, plugin: 'b' }), draft()];
    await ledger.jobs.enqueue({ jobs: [...keyed, ...others] });
    const plugins = [claimable(), claimable('b')];
    const first = await claimAs(ledger, 'p1', { plugins });
    expect(idsOf(first)).toEqual([keyed[0]?.id, ...idsOf(others)]);
    for (const expected of keyed.slice(1)) {
      const running = (await ledger.jobs.list({ status: ['running'], limit: 10 })).filter(
        ({ command, plugin, dedupeKey }) => command === 'handle' && plugin === 'echo' && dedupeKey,
      );
      expect(idsOf(await claimAs(ledger, 'p2', { plugins }))).toEqual([]);
      await settleOne(ledger, succeed(only(running)));
      expect(idsOf(await claimAs(ledger, 'p2', { plugins }))).toEqual([expected.id]);
    }
  });

  test('a slot is not wasted on a job that waits for its own key', async () => {
    const { ledger } = await openBench(kind);
    const dedupe = { key: 'k', ttlMs: 0, blockInFlight: false };
    const keyed = range(4).map(() => draft({ dedupe }));
    const others = range(4).map(() => draft());
    await ledger.jobs.enqueue({ jobs: [...keyed, ...others] });
    const claimed = await claimAs(ledger, 'p1', { slots: 4 });
    expect(idsOf(claimed)).toEqual(idsOf([...keyed.slice(0, 1), ...others.slice(0, 3)]));
  });
});

describe.each(databases)('the order of claims on %s', (kind) => {
  test('holds over plugins when some have to wait for their own key', async () => {
    const { ledger } = await openBench(kind);
    const dedupe = { key: 'k', ttlMs: 0, blockInFlight: false };
    const a = [draft({ dedupe }), draft({ dedupe }), draft()];
    const b = range(3).map(() => draft({ plugin: 'b' }));
    await ledger.jobs.enqueue({ jobs: [...a, ...b] });
    const plugins = [claimable(), claimable('b')];
    const claimed = await claimAs(ledger, 'p1', { plugins, slots: 2 });
    expect(idsOf(claimed)).toEqual([a[0]?.id, a[2]?.id]);
  });
});

describe.each(databases)('suspects on %s', (kind) => {
  /** Jobs that met two crashes in company, and so run under suspicion now. */
  async function makeSuspects(count: number, command = 'handle') {
    const bench = await openBench(kind);
    const { ledger } = bench;
    const jobs = range(count).map(() => draft({ command }));
    await ledger.jobs.enqueue({ jobs });
    for (let round = 0; round < 2; round += 1) {
      const claimed = await claimAs(ledger, 'p1');
      await ledger.jobs.settle(claimed.map((job) => crash(job)));
    }
    const found = await ledger.jobs.list({ limit: 10 });
    expect(found.map(({ suspect, interruptCount }) => [suspect, interruptCount])).toEqual(
      jobs.map(() => [true, 2]),
    );
    return { ...bench, suspects: jobs };
  }

  test('run one at a time in a process, with others beside them', async () => {
    const { ledger, suspects } = await makeSuspects(3);
    const others = range(4).map(() => draft());
    await ledger.jobs.enqueue({ jobs: others });
    const first = await claimAs(ledger, 'p1', { slots: 3 });
    expect(idsOf(first)).toEqual([suspects[0]?.id, others[0]?.id, others[1]?.id]);
    expect(idsOf(await claimAs(ledger, 'p1', { slots: 9 }))).toEqual(idsOf(others.slice(2)));
    expect(idsOf(await claimAs(ledger, 'p2', { slots: 9 }))).toEqual([suspects[1]?.id]);
    const suspect = first.find((job: ClaimedJob) => job.suspect);
    if (suspect !== undefined) await settleOne(ledger, succeed(suspect));
    expect(idsOf(await claimAs(ledger, 'p1', { slots: 9 }))).toEqual([suspects[2]?.id]);
  });

  test('are limited even as health checks of a plugin whose jobs wait for its init', async () => {
    const { ledger, suspects } = await makeSuspects(2, 'health');
    const plugins = [claimable('echo', { init: { fingerprint: 'f', isHeld: true } })];
    const [first] = await claimAs(ledger, 'p1', { plugins, slots: 1 });
    expect(first?.id).toBe(suspects[0]?.id);
    expect(await claimAs(ledger, 'p1', { plugins })).toEqual([]);
    expect(idsOf(await claimAs(ledger, 'p2', { plugins }))).toEqual([suspects[1]?.id]);
  });

  test('in a plugin with one slot do not block it while another suspect runs', async () => {
    const { ledger, suspects } = await makeSuspects(2);
    const plugins = [claimable('echo', { parallelism: 2 })];
    const plain = draft();
    await ledger.jobs.enqueue({ jobs: [plain] });
    expect(idsOf(await claimAs(ledger, 'p1', { plugins }))).toEqual([suspects[0]?.id, plain.id]);
  });
});

describe.each(databases)('attempts on %s', (kind) => {
  test('are numbered over every start, releases and crashes included', async () => {
    const { ledger } = await openBench(kind);
    await ledger.jobs.enqueue({ jobs: [draft()] });
    const numbers: number[] = [];
    for (const end of [release, crash, release]) {
      const job = only(await claimAs(ledger, 'p1'));
      numbers.push(job.attempt);
      await settleOne(ledger, end(job));
    }
    const last = only(await claimAs(ledger, 'p1'));
    await settleOne(ledger, succeed(last));
    expect([...numbers, last.attempt]).toEqual([1, 2, 3, 4]);
    const log = await ledger.attempts.listByJob([last.id]);
    expect(log.map(({ attempt, status }) => [attempt, status])).toEqual([
      [1, 'released'],
      [2, 'crashed'],
      [3, 'released'],
      [4, 'succeeded'],
    ]);
  });
});
