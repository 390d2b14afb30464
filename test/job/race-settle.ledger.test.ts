/** Two that end an attempt, from two connections, held at the place where they meet. */
import pg from 'pg';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { openMeeting, runTogether } from '../support/ledger/barrier.ts';
import { range } from '../support/ledger/bench.ts';
import {
  beat,
  crash,
  draft,
  endAsCancelled,
  retryLater,
  settleOne,
  signalOf,
  startOne,
  strict,
  succeed,
} from '../support/ledger/drafts.ts';

const lockJob = 'select 1 from job_queue where id = $1 for update';
const LONG_AGO = '2000-01-01T00:00:00.000Z';

describe('settling and reaping the same attempt', () => {
  test.each(['settling', 'reaping'])('ends it once; first is %s', async (first) => {
    const { ledger, other, barrier, sql, job: read } = await openMeeting();
    const job = await startOne(ledger, 'p1');
    await sql('update processes set last_heartbeat_at = ?', [LONG_AGO]);
    await barrier.hold(lockJob, [job.id]);
    const closing = succeed(job, { signals: [signalOf(job)], jobs: [draft()] });
    const settle = () => ledger.jobs.settle([closing]);
    const reap = () =>
      other.processes.reap({ processId: 'p1', staleMs: 1000, closings: [crash(job)] });
    const [settled, reaped] =
      first === 'settling'
        ? await runTogether(barrier, settle, reap)
        : (await runTogether(barrier, reap, settle)).toReversed();
    const verdicts = [settled, reaped].map((one) => one?.verdicts.get(job.id));
    const won = first === 'settling';
    expect(verdicts).toEqual(won ? ['settled', 'fenced'] : ['fenced', 'settled']);
    expect((await read(job.id)).status).toBe(won ? 'succeeded' : 'queued');
    expect(await ledger.attempts.listByJob([job.id])).toHaveLength(1);
    expect(await ledger.signals.list({ limit: 10 })).toHaveLength(won ? 1 : 0);
    expect(await ledger.processes.list()).toEqual([]);
  });

  test('twice at once writes it once', async () => {
    const { ledger, other, barrier } = await openMeeting();
    const job = await startOne(ledger, 'p1');
    const closing = succeed(job, { signals: [signalOf(job)], jobs: [draft()] });
    await barrier.hold(lockJob, [job.id]);
    const answers = await runTogether(
      barrier,
      () => ledger.jobs.settle([closing]),
      () => other.jobs.settle([closing]),
    );
    expect(answers.map(({ verdicts }) => verdicts.get(job.id))).toEqual(['settled', 'settled']);
    expect((await ledger.jobs.countQueue()).ready).toBe(1);
    expect(await ledger.attempts.listByJob([job.id])).toHaveLength(1);
    expect(await ledger.signals.list({ limit: 10 })).toHaveLength(1);
  });
});

describe('two that reap', () => {
  test('the same process: its work is released once', async () => {
    const { ledger, other, barrier, sql, job: read } = await openMeeting();
    const job = await startOne(ledger, 'p1');
    await sql('update processes set last_heartbeat_at = ?', [LONG_AGO]);
    await barrier.hold('select 1 from processes for update');
    const reap = { processId: 'p1', staleMs: 1000, closings: [crash(job, true)] };
    await runTogether(
      barrier,
      () => ledger.processes.reap(reap),
      () => other.processes.reap(reap),
    );
    expect(await read(job.id)).toMatchObject({ status: 'queued', attempt: 2, crashCount: 1 });
    expect(await ledger.attempts.listByJob([job.id])).toHaveLength(1);
    expect(await ledger.processes.list()).toEqual([]);
  });
});

describe('a heartbeat that meets a reaper', () => {
  test('and comes first saves the process', async () => {
    const { ledger, other, barrier, sql, job: read } = await openMeeting();
    const job = await startOne(ledger, 'p1');
    await sql('update processes set last_heartbeat_at = ?', [LONG_AGO]);
    await barrier.hold('select 1 from processes for update');
    const [answer, reaped] = await runTogether(
      barrier,
      () => ledger.processes.heartbeat(beat('p1')),
      () => other.processes.reap({ processId: 'p1', staleMs: 1000, closings: [crash(job)] }),
    );
    expect(answer).toMatchObject({ known: true, running: [{ jobId: job.id }] });
    expect([...reaped.verdicts.values()]).toEqual(['fenced']);
    expect((await read(job.id)).status).toBe('running');
  });

  test('and comes second learns that its claims are lost', async () => {
    const { ledger, other, barrier, sql, job: read } = await openMeeting();
    const job = await startOne(ledger, 'p1');
    await sql('update processes set last_heartbeat_at = ?', [LONG_AGO]);
    await barrier.hold('select 1 from processes for update');
    const [reaped, answer] = await runTogether(
      barrier,
      () => other.processes.reap({ processId: 'p1', staleMs: 1000, closings: [crash(job)] }),
      () => ledger.processes.heartbeat(beat('p1')),
    );
    expect([...reaped.verdicts.values()]).toEqual(['settled']);
    expect(answer).toEqual({ known: false, running: [] });
    expect((await read(job.id)).status).toBe('queued');
    expect(await ledger.processes.list()).toHaveLength(1);
  });
});

describe('cancelling what is being settled', () => {
  test.each(['cancelling', 'settling'])('a success stays one; first is %s', async (first) => {
    const { ledger, other, barrier, job: read } = await openMeeting();
    const job = await startOne(ledger, 'p1');
    await barrier.hold(lockJob, [job.id]);
    const cancel = () => other.jobs.cancel(job.id);
    const settle = () => settleOne(ledger, succeed(job));
    if (first === 'cancelling') {
      expect(await runTogether(barrier, cancel, settle)).toEqual(['requested', 'settled']);
    } else expect(await runTogether(barrier, settle, cancel)).toEqual(['settled', 'terminal']);
    expect((await read(job.id)).status).toBe('succeeded');
  });

  test('a retry that comes second is not made', async () => {
    const { ledger, other, barrier, job: read } = await openMeeting();
    const job = await startOne(ledger, 'p1');
    await barrier.hold(lockJob, [job.id]);
    const answers = await runTogether(
      barrier,
      () => other.jobs.cancel(job.id),
      () => settleOne(ledger, retryLater(job)),
    );
    expect(answers).toEqual(['requested', 'cancelled']);
    expect(await settleOne(ledger, endAsCancelled(job))).toBe('settled');
    expect((await read(job.id)).status).toBe('cancelled');
  });

  test('a retry that comes first is cancelled before it starts', async () => {
    const { ledger, other, barrier, job: read } = await openMeeting();
    const job = await startOne(ledger, 'p1');
    await barrier.hold(lockJob, [job.id]);
    const answers = await runTogether(
      barrier,
      () => settleOne(ledger, retryLater(job)),
      () => other.jobs.cancel(job.id),
    );
    expect(answers).toEqual(['settled', 'cancelled']);
    expect((await read(job.id)).status).toBe('cancelled');
  });
});

describe('two changes of one state', () => {
  test.each(['there', 'new'])('are both in it when it is %s', async (how) => {
    const { ledger, other, barrier } = await openMeeting();
    if (how === 'there') {
      const job = await startOne(ledger, 'p1');
      await settleOne(ledger, succeed(job, { state: { kind: 'merge', value: '{"old":0}' } }));
      await barrier.hold('select 1 from plugin_state for update');
    } else {
      await barrier.hold(`insert into plugin_state values ('echo', '{"other":1}', '')`);
    }
    const [a, b] = [await startOne(ledger, 'p1'), await startOne(other, 'p2')];
    await runTogether(
      barrier,
      () => settleOne(ledger, succeed(a, { state: { kind: 'merge', value: '{"a":1}' } })),
      () => settleOne(other, succeed(b, { state: { kind: 'merge', value: '{"b":2}' } })),
    );
    const old = how === 'there' ? { old: 0 } : {};
    expect(JSON.parse(await ledger.plugins.readState('echo'))).toEqual({ ...old, a: 1, b: 2 });
  });

  test('that are facts have numbers of their own', async () => {
    const { ledger, other, barrier } = await openMeeting();
    const jobs = [await startOne(ledger, 'p1', { plugin: 'a' }), await startOne(other, 'p2')];
    const [a, b] = jobs;
    if (a === undefined || b === undefined) throw new Error('two were started');
    const state = { kind: 'snapshot', factType: 'f', mirror: true, value: '{}' } as const;
    await barrier.hold('select 1 from storage_sequences for update');
    await runTogether(
      barrier,
      () => settleOne(ledger, succeed(a, { state })),
      () => settleOne(other, succeed(b, { state })),
    );
    const seqs = [
      ...(await ledger.plugins.listFacts('a', 9)),
      ...(await ledger.plugins.listFacts('echo', 9)),
    ];
    expect(new Set(seqs.map(({ seq }) => seq))).toEqual(new Set([1, 2]));
  });

  test('that are facts, and keys of each other, do not lock each other out', async () => {
    const { ledger, other, barrier } = await openMeeting();
    const state = { kind: 'snapshot', factType: 'f', mirror: true, value: '{}' } as const;
    const a = await startOne(ledger, 'p1', { plugin: 'a', dedupe: strict('x') });
    const b = await startOne(other, 'p2', { dedupe: strict('y') });
    await barrier.hold('select 1 from storage_sequences for update');
    const query = vi.spyOn(pg.Client.prototype, 'query');
    onTestFinished(() => query.mockRestore());
    await runTogether(
      barrier,
      () => ledger.jobs.settle([succeed(a, { state, jobs: [draft({ dedupe: strict('y') })] })]),
      () => other.jobs.settle([succeed(b, { state })]),
    );
    // No transaction was rolled back, so none was repeated.
    const rolledBack = query.mock.calls.filter(([text]) => text === 'rollback');
    expect(rolledBack).toHaveLength(1);
  });
});

describe('delayed jobs', () => {
  test('are promoted once by two that promote', async () => {
    const { ledger, other, sql } = await openMeeting();
    await ledger.jobs.enqueue({ jobs: range(50).map(() => draft()) });
    await sql('update job_queue set next_retry_at = ?', [LONG_AGO]);
    const answers = await Promise.all([
      ledger.jobs.promote(),
      other.jobs.promote(),
      ledger.jobs.promote(),
    ]);
    expect(answers.reduce((sum, { promoted }) => sum + promoted, 0)).toBe(50);
  });
});
