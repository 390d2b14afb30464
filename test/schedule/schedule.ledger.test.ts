import { pauseSchedule } from '../../src/schedule/schedule.sql.ts';
import { describe, expect, test } from 'vitest';
import { databases, only, openBench, range } from '../support/ledger/bench.ts';
import {
  due,
  dueAgain,
  entry,
  fireOne,
  firing,
  LATER,
  NOW,
  PAST,
  startFired,
} from '../support/ledger/schedules.ts';
import { fail, pausing, settleOne, succeed } from '../support/ledger/drafts.ts';

describe.each(databases)('schedules on %s', (kind) => {
  test('a due time is passed once, with its job', async () => {
    const { ledger, job } = await openBench(kind);
    await ledger.schedules.sync([entry()]);
    const found = only(await due(ledger));
    expect(found).toMatchObject({ seq: 0, slotAt: PAST, isLastOpen: false });
    const [first] = await ledger.schedules.fire({ now: NOW, firings: [firing(found)] });
    const [second] = await ledger.schedules.fire({ now: NOW, firings: [firing(found)] });
    expect([first?.verdict, second?.verdict]).toEqual(['fired', 'lost']);
    expect(await job(only(first?.jobIds ?? []))).toMatchObject({
      status: 'queued',
      submittedBy: 'scheduler',
      scheduleId: 'default',
      scheduleSlot: 'g1:0',
    });
    expect(await ledger.jobs.list({ limit: 10 })).toHaveLength(1);
    const [row] = await ledger.schedules.list({ limit: 10 });
    expect(row).toMatchObject({
      seq: 1,
      status: 'active',
      nextDueAt: LATER,
      lastFiredAt: NOW,
      lastJobStatus: 'queued',
    });
  });

  test('repeated after a lost response, it reports what it did', async () => {
    const { ledger } = await openBench(kind);
    await ledger.schedules.sync([entry()]);
    const request = { now: NOW, firings: [firing(only(await due(ledger)))] };
    const first = await ledger.schedules.fire(request);
    expect(await ledger.schedules.fire(request)).toEqual(first);
    expect(await ledger.jobs.list({ limit: 10 })).toHaveLength(1);
  });

  test('two hosts that look at once fire each slot once', async () => {
    const { ledger, open } = await openBench(kind);
    const other = kind === 'postgres' ? await open() : ledger;
    const ids = range(20).map((index) => `s${String(index).padStart(2, '0')}`);
    await ledger.schedules.sync(ids.map((scheduleId) => entry({ scheduleId })));
    const seen = await due(ledger);
    const answers = await Promise.all([
      ledger.schedules.fire({ now: NOW, firings: seen.map((one) => firing(one)) }),
      other.schedules.fire({ now: NOW, firings: seen.toReversed().map((one) => firing(one)) }),
    ]);
    const fired = answers.flat().filter(({ verdict }) => verdict === 'fired');
    expect(fired.map(({ scheduleId }) => scheduleId).sort()).toEqual(ids);
    expect(await ledger.jobs.list({ limit: 100 })).toHaveLength(ids.length);
  });

  test('a row that changed since it was read is left alone', async () => {
    const { ledger, sql } = await openBench(kind);
    await ledger.schedules.sync([entry()]);
    const found = only(await due(ledger));
    for (const change of [
      `status = 'paused'`,
      `status = 'active', generation = 'g2'`,
      `generation = 'g1', next_due_at = '${LATER}'`,
    ]) {
      await sql(`update schedules set ${change}`);
      const [answer] = await ledger.schedules.fire({ now: NOW, firings: [firing(found)] });
      expect(answer?.verdict, change).toBe('lost');
    }
    expect(await ledger.jobs.list({ limit: 10 })).toEqual([]);
  });

  test('due ones come in pages, with the time of the first that is not due', async () => {
    const { ledger } = await openBench(kind);
    const next = { slotAt: LATER, dueAt: LATER };
    await ledger.schedules.sync([
      ...['a', 'b', 'c'].map((scheduleId) => entry({ scheduleId })),
      entry({ scheduleId: 'd', next }),
    ]);
    const first = await ledger.schedules.listDue({ now: NOW, limit: 2 });
    expect(first.due.map(({ scheduleId }) => scheduleId)).toEqual(['a', 'b']);
    const after = only(first.due.slice(1));
    const second = await ledger.schedules.listDue({ now: NOW, limit: 2, after });
    expect(second.due.map(({ scheduleId }) => scheduleId)).toEqual(['c']);
    expect(second.nextAt).toBe(LATER);
  });

  describe('while a job of the same schedule is open', () => {
    test('skip passes the time without a job', async () => {
      const { ledger, sql } = await openBench(kind);
      await ledger.schedules.sync([entry()]);
      await fireOne(ledger);
      await dueAgain(sql);
      expect(await fireOne(ledger)).toMatchObject({
        verdict: 'skipped',
        reason: 'already_running',
        jobIds: [],
      });
      expect(only(await ledger.schedules.list({ limit: 10 }))).toMatchObject({
        seq: 2,
        lastSkipReason: 'already_running',
        lastSkippedAt: NOW,
        skippedInRow: 1,
      });
    });

    test('a catch-up slot is kept and fires again', async () => {
      const { ledger, sql } = await openBench(kind);
      await ledger.schedules.sync([entry()]);
      await fireOne(ledger);
      await dueAgain(sql);
      const ifBusy = { slotAt: PAST, dueAt: LATER };
      expect(await fireOne(ledger, { ifBusy })).toMatchObject({ verdict: 'moved', jobIds: [] });
      expect(only(await ledger.schedules.list({ limit: 10 }))).toMatchObject({
        seq: 1,
        status: 'active',
        nextSlotAt: PAST,
        nextDueAt: LATER,
        lastSkipReason: 'already_running',
      });
      await settleOne(ledger, succeed(await startFired(ledger)));
      expect(await fireOne(ledger, { ifBusy }, LATER)).toMatchObject({ verdict: 'fired' });
    });

    test('queue adds up to the limit', async () => {
      const { ledger, sql } = await openBench(kind);
      await ledger.schedules.sync([entry()]);
      const guard = { ifRunning: 'queue', outstandingMax: 2 } as const;
      const verdicts: unknown[] = [];
      for (let time = 0; time < 3; time += 1) {
        const { verdict, reason } = await fireOne(ledger, { guard });
        verdicts.push(reason ?? verdict);
        await dueAgain(sql);
      }
      expect(verdicts).toEqual(['fired', 'fired', 'outstanding_limit']);
    });

    test('cancel ends what waits, asks what runs to stop, and fires', async () => {
      const { ledger, sql, job } = await openBench(kind);
      await ledger.schedules.sync([entry()]);
      await fireOne(ledger);
      const running = await startFired(ledger);
      await dueAgain(sql);
      const queue = { ifRunning: 'queue', outstandingMax: 5 } as const;
      const waiting = only((await fireOne(ledger, { guard: queue })).jobIds);
      await dueAgain(sql);
      const guard = { ifRunning: 'cancel', outstandingMax: 1 } as const;
      const fired = await fireOne(ledger, { guard });
      expect(fired.cancelled).toEqual([
        { jobId: running.id, answer: 'requested' },
        { jobId: waiting, answer: 'cancelled' },
      ]);
      expect((await job(running.id)).cancelRequestedAt).not.toBeNull();
      expect((await job(only(fired.jobIds))).status).toBe('queued');
    });

    test('another schedule of the same command is not disturbed', async () => {
      const { ledger } = await openBench(kind);
      await ledger.schedules.sync([entry(), entry({ scheduleId: 'other' })]);
      const [one, two] = await due(ledger);
      if (one === undefined || two === undefined) throw new Error('two are due');
      await ledger.schedules.fire({ now: NOW, firings: [firing(one)] });
      const [fired] = await ledger.schedules.fire({ now: NOW, firings: [firing(two)] });
      expect(fired?.verdict).toBe('fired');
    });
  });

  test('an interval whose last job ended meanwhile is not fired on old news', async () => {
    const { ledger, sql } = await openBench(kind);
    await ledger.schedules.sync([entry({ mode: 'every', timing: '5m' })]);
    await fireOne(ledger);
    await dueAgain(sql);
    const seen = only(await due(ledger));
    expect(seen.isLastOpen).toBe(true);
    await settleOne(ledger, succeed(await startFired(ledger)));
    const stale = firing(seen, { needsLastUnchanged: true });
    expect(only(await ledger.schedules.fire({ now: NOW, firings: [stale] })).verdict).toBe('moved');
    const again = only(await due(ledger));
    expect(again).toMatchObject({ seq: 1, isLastOpen: false });
    expect(again.lastCompletedAt).not.toBeNull();
  });

  test('a one-time schedule is exhausted, even after the configuration is read again', async () => {
    const { ledger } = await openBench(kind);
    const once = entry({ mode: 'at', timing: PAST });
    await ledger.schedules.sync([once]);
    const wanted = { ...firing(only(await due(ledger))), next: undefined };
    await ledger.schedules.fire({ now: NOW, firings: [wanted] });
    await ledger.schedules.sync([once]);
    await ledger.schedules.retire([once]);
    await ledger.schedules.sync([once]);
    expect(only(await ledger.schedules.list({ limit: 10 }))).toMatchObject({
      status: 'exhausted',
      reason: 'one_shot_exhausted',
      nextDueAt: null,
    });
    const next = { slotAt: LATER, dueAt: LATER };
    await ledger.schedules.sync([{ ...once, timing: LATER, generation: 'g2', next }]);
    expect(only(await ledger.schedules.list({ limit: 10 }))).toMatchObject({
      status: 'active',
      nextDueAt: LATER,
      seq: 1,
    });
  });

  test('a one-time schedule that fired stays exhausted unless its time or command changes', async () => {
    const { ledger } = await openBench(kind);
    const once = entry({ mode: 'at', timing: PAST });
    await ledger.schedules.sync([once]);
    const wanted = { ...firing(only(await due(ledger))), next: undefined };
    await ledger.schedules.fire({ now: NOW, firings: [wanted] });
    const moved = { ...once, timezone: 'Europe/Berlin', generation: 'g2', seenAt: LATER };
    await ledger.schedules.sync([moved]);
    await ledger.schedules.retire([moved]);
    await ledger.schedules.sync([moved]);
    expect(only(await ledger.schedules.list({ limit: 10 }))).toMatchObject({
      status: 'exhausted',
      reason: 'one_shot_exhausted',
      timezone: 'Europe/Berlin',
      generation: 'g2',
      nextDueAt: null,
    });
    await ledger.schedules.sync([{ ...moved, command: 'sync', generation: 'g3' }]);
    expect(only(await due(ledger))).toMatchObject({ generation: 'g3', dueAt: PAST });
  });

  test('a one-time schedule that did not fire follows every change', async () => {
    const { ledger } = await openBench(kind);
    const once = entry({ mode: 'at', timing: LATER, next: { slotAt: LATER, dueAt: LATER } });
    await ledger.schedules.sync([once]);
    await ledger.schedules.sync([
      { ...once, generation: 'g2', next: { slotAt: PAST, dueAt: PAST } },
    ]);
    expect(only(await due(ledger))).toMatchObject({ generation: 'g2', dueAt: PAST });
  });

  test('the same configuration changes nothing, and an invalid one says why', async () => {
    const { ledger } = await openBench(kind);
    await ledger.schedules.sync([entry()]);
    await fireOne(ledger);
    const before = await ledger.schedules.list({ limit: 10 });
    await ledger.schedules.sync([entry({ seenAt: LATER })]);
    expect(await ledger.schedules.list({ limit: 10 })).toEqual(before);
    await ledger.schedules.sync([entry({ invalid: 'plugin_not_found', next: undefined })]);
    expect(only(await ledger.schedules.list({ limit: 10 }))).toMatchObject({
      status: 'invalid',
      reason: 'plugin_not_found',
    });
    await ledger.schedules.sync([entry()]);
    expect(only(await ledger.schedules.list({ limit: 10 }))).toMatchObject({
      status: 'active',
      reason: null,
      nextDueAt: LATER,
    });
  });

  test('a schedule that was invalid when its timing changed fires again', async () => {
    const { ledger } = await openBench(kind);
    await ledger.schedules.sync([entry()]);
    await fireOne(ledger);
    const changed = { generation: 'g2', seenAt: LATER };
    await ledger.schedules.sync([
      entry({ ...changed, invalid: 'plugin_not_found', next: undefined }),
    ]);
    await ledger.schedules.sync([entry({ ...changed, next: { slotAt: LATER, dueAt: LATER } })]);
    expect(await ledger.schedules.list({ limit: 9 })).toMatchObject([
      { status: 'active', reason: null, nextDueAt: LATER },
    ]);
  });

  test('resumed by a host that does not know it, it keeps its due time', async () => {
    const { ledger } = await openBench(kind);
    await ledger.schedules.sync([entry()]);
    const key = { plugin: 'echo', scheduleId: 'default', now: NOW };
    for (const paused of [true, false]) {
      const target = { type: 'schedule.pause', target: 'schedule:echo/default' };
      await ledger.directives.create(
        pausing({ ...target, sameness: 'each' }, (tx) => pauseSchedule(tx, { ...key, paused })),
      );
    }
    expect(only(await due(ledger))).toMatchObject({ dueAt: PAST });
  });
});

describe.each(databases)('breakers on %s', (kind) => {
  async function poll(bench: Awaited<ReturnType<typeof openBench>>, end: 'fails' | 'succeeds') {
    const { ledger, sql } = bench;
    await dueAgain(sql);
    const { verdict, reason } = await fireOne(ledger);
    if (verdict !== 'fired') return reason;
    const job = await startFired(ledger);
    await settleOne(ledger, end === 'fails' ? fail(job) : succeed(job));
    return verdict;
  }

  test('open at the threshold, let one probe through, and close with its success', async () => {
    const bench = await openBench(kind);
    const { ledger, sql } = bench;
    await ledger.schedules.sync([entry()]);
    expect(await poll(bench, 'fails')).toBe('fired');
    expect(only(await ledger.breakers.list({})).state).toBe('closed');
    expect(await poll(bench, 'fails')).toBe('fired');
    expect(only(await ledger.breakers.list({}))).toMatchObject({ state: 'open', failureCount: 2 });
    expect(await ledger.breakers.countOpen()).toBe(1);
    await sql(`update circuit_breakers set opened_at = '${NOW}'`);
    expect(await poll(bench, 'fails')).toBe('circuit_open');
    await sql(`update circuit_breakers set opened_at = '2025-12-31T23:00:00.000Z'`);
    expect(await poll(bench, 'fails')).toBe('fired');
    expect(only(await ledger.breakers.list({}))).toMatchObject({ state: 'open', failureCount: 3 });
    await sql(`update circuit_breakers set opened_at = '2025-12-31T23:00:00.000Z'`);
    expect(await poll(bench, 'succeeds')).toBe('fired');
    expect(only(await ledger.breakers.list({}))).toMatchObject({
      state: 'closed',
      failureCount: 0,
    });
    const steps = await ledger.breakers.listTransitions({ plugin: 'echo', limit: 10 });
    expect(
      steps.toReversed().map(({ fromState, toState, reason }) => [fromState, toState, reason]),
    ).toEqual([
      ['closed', 'open', 'failure_threshold'],
      ['open', 'half_open', 'cooldown_elapsed'],
      ['half_open', 'open', 'failure_threshold'],
      ['open', 'half_open', 'cooldown_elapsed'],
      ['half_open', 'closed', 'success'],
    ]);
    const signals = await ledger.signals.list({ limit: 10 });
    expect(signals.map(({ type }) => type).toReversed()).toEqual([
      'breaker.opened',
      'breaker.opened',
      'breaker.closed',
    ]);
  });

  test('only one probe is running, over all schedules of the command', async () => {
    const bench = await openBench(kind);
    const { ledger, sql } = bench;
    await ledger.schedules.sync([entry(), entry({ scheduleId: 'other' })]);
    const [one] = await due(ledger);
    if (one === undefined) throw new Error('one is due');
    await ledger.schedules.fire({ now: NOW, firings: [firing(one)] });
    const job = await startFired(ledger);
    await settleOne(ledger, fail(job));
    await sql(`update circuit_breakers set state = 'open', opened_at = '2025-12-31T23:00:00.000Z'`);
    await dueAgain(sql);
    const firings = (await due(ledger)).map((found) => firing(found));
    const answers = await ledger.schedules.fire({ now: NOW, firings });
    expect(answers.map(({ verdict, reason }) => reason ?? verdict)).toEqual([
      'fired',
      'circuit_open',
    ]);
    // A probe that ends without a verdict makes room for another one.
    await ledger.jobs.cancel(only(answers[0]?.jobIds ?? []));
    await dueAgain(sql);
    const next = (await due(ledger)).map((found) => firing(found));
    const later = await ledger.schedules.fire({ now: NOW, firings: next });
    expect(later.map(({ verdict, reason }) => reason ?? verdict)).toEqual([
      'fired',
      'circuit_open',
    ]);
  });

  test('repeated after a lost response, a probe is reported as the one job that it was', async () => {
    const { ledger, sql } = await openBench(kind);
    await ledger.schedules.sync([entry()]);
    await fireOne(ledger);
    await settleOne(ledger, fail(await startFired(ledger)));
    await sql(`update circuit_breakers set state = 'open', opened_at = '2020-01-01T00:00:00.000Z'`);
    await dueAgain(sql);
    const found = only(await due(ledger));
    const both = [firing(found), firing({ ...found, seq: found.seq + 1 })].flatMap(({ act }) =>
      act.kind === 'fire' ? act.jobs : [],
    );
    const request = { now: NOW, firings: [firing(found, { jobs: both })] };
    const first = await ledger.schedules.fire(request);
    expect(only(first).jobIds).toEqual([both[0]?.id]);
    expect(await ledger.schedules.fire(request)).toEqual(first);
  });
});
