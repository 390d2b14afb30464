/** Directives that are executed later than requested. */
import { switchPause } from '../../src/job/plugin-state.sql.ts';
import type { DirectiveWork } from '../../src/ledger/directive-work.ts';
import { describe, expect, test } from 'vitest';
import { makeId } from '../../src/base/ids.ts';
import type { DirectiveDecision } from '../../src/ledger/directive-work.ts';
import type { SignalDraft } from '../../src/signal/signal.ts';
import { databases, openBench } from '../support/ledger/bench.ts';
import { beat, pausing, waiting } from '../support/ledger/drafts.ts';

const types = ['system.pause'];

function told(type: string): SignalDraft {
  return { id: makeId(), type, source: 'ductile', data: '{}', hops: 1, correlationId: 'c' };
}

function decision(id: string, type: string, actor = 'cli:ann'): DirectiveDecision {
  return { id, actor, signals: [told(type)], jobs: [] };
}

describe.each(databases)('a directive that waits on %s', (kind) => {
  test('has done nothing, and is begun and ended in one commit, once', async () => {
    const { ledger } = await openBench(kind);
    const request = waiting();
    const { directive } = await ledger.directives.create(request);
    expect(directive).toMatchObject({ status: 'requested', attempt: 0, startedAt: null });
    expect(await ledger.meta.read('paused')).not.toBe('1');
    expect(await ledger.signals.list({ limit: 9 })).toEqual([]);
    expect(await ledger.directives.listDue(types, 9)).toEqual([directive]);
    expect(await ledger.directives.listDue(['job.cancel'], 9)).toEqual([]);
    const start = {
      ...request,
      directive,
      begin: { signals: [told('directive.started')], jobs: [] },
    };
    const [one, two] = await Promise.all([
      ledger.directives.start({ ...start, processId: 'p2' }),
      ledger.directives.start({ ...start, processId: 'p3' }),
    ]);
    const begun = one ?? two;
    expect([one, two].filter((found) => found !== undefined)).toHaveLength(1);
    expect(begun).toMatchObject({ status: 'completed', attempt: 1, result: '{"paused":true}' });
    expect(begun?.startedAt).not.toBeNull();
    expect(await ledger.meta.read('paused')).toBe('1');
    const signals = await ledger.signals.list({ limit: 9 });
    expect(signals.map(({ type }) => type)).toEqual(['directive.completed', 'directive.started']);
    expect(await ledger.directives.listDue(types, 9)).toEqual([]);
  });

  test('for its time is not begun before', async () => {
    const { ledger, sql } = await openBench(kind);
    const request = waiting({ due: { inMs: 3_600_000 } });
    const { directive } = await ledger.directives.create(request);
    const earliest = Date.parse(directive.requestedAt) + 3_000_000;
    expect(Date.parse(directive.runAt ?? '')).toBeGreaterThan(earliest);
    expect(await ledger.directives.listDue(types, 9)).toEqual([]);
    expect(await ledger.directives.start({ ...request, directive })).toBeUndefined();
    await sql(`update directives set run_at = '2000-01-01T00:00:00.000Z'`);
    expect(await ledger.directives.listDue(types, 9)).toHaveLength(1);
    expect(await ledger.directives.start({ ...request, directive })).toMatchObject({
      status: 'completed',
    });
    const exact = waiting({ due: { at: '2999-01-01T00:00:00.000Z' } });
    expect((await ledger.directives.create(exact)).directive.runAt).toBe(
      '2999-01-01T00:00:00.000Z',
    );
  });

  test('for later is not what is asked for now, nor for another time', async () => {
    const { ledger } = await openBench(kind);
    const at = '2999-01-01T00:00:00.000Z';
    const toggle = { sameness: 'toggle' } as const;
    const tonight = await ledger.directives.create(waiting({ due: { at } }, toggle));
    const now = await ledger.directives.create(pausing());
    expect(now).toMatchObject({ verdict: 'recorded', directive: { status: 'completed' } });
    expect(await ledger.meta.read('paused')).toBe('1');
    const again = await ledger.directives.create(waiting({ due: { at } }, toggle));
    expect(again).toMatchObject({ verdict: 'repeated', directive: { id: tonight.directive.id } });
    for (const due of [{ at: '2999-01-02T00:00:00.000Z' }, { inMs: 1000 }, { inMs: 1000 }]) {
      expect((await ledger.directives.create(waiting({ due }, toggle))).verdict).toBe('recorded');
    }
    expect((await ledger.directives.create(pausing())).verdict).toBe('repeated');
  });

  test.each(['toggle', 'latest'] as const)(
    'and runs after others is the last change (%s)',
    async (sameness) => {
      const { ledger, sql } = await openBench(kind);
      const paused: DirectiveWork = (tx) => switchPause(tx, true);
      const running: DirectiveWork = (tx) => switchPause(tx, false);
      const later = waiting({ due: { inMs: 3_600_000 } }, { type: 'system.resume', sameness });
      const { directive } = await ledger.directives.create(later);
      for (const asked of [
        pausing({ sameness }, paused),
        pausing({ sameness, type: 'system.resume' }, running),
        pausing({ sameness }, paused),
      ]) {
        expect((await ledger.directives.create(asked)).verdict).toBe('recorded');
      }
      expect((await ledger.directives.create(pausing({ sameness }, paused))).verdict).toBe(
        'repeated',
      );
      await sql(
        `update directives set run_at = '2000-01-01T00:00:00.000Z' where run_at is not null`,
      );
      await ledger.directives.start({ ...later, work: running, directive });
      expect(await ledger.meta.read('paused')).toBe('0');
      expect((await ledger.directives.create(pausing({ sameness }, paused))).verdict).toBe(
        'recorded',
      );
      expect(await ledger.meta.read('paused')).toBe('1');
    },
  );

  test('for approval is the same for repeated requests, as long as nothing was done', async () => {
    const { ledger } = await openBench(kind);
    const wish = (params: string) => waiting({ forApproval: true }, { sameness: 'latest', params });
    const { directive } = await ledger.directives.create(wish('{"a":1}'));
    expect(await ledger.directives.create(wish('{"a":1}'))).toEqual({
      directive,
      verdict: 'repeated',
    });
    expect((await ledger.directives.create(wish('{"a":2}'))).verdict).toBe('recorded');
    await ledger.directives.cancel(decision(directive.id, 'directive.cancelled'));
    expect((await ledger.directives.create(wish('{"a":1}'))).verdict).toBe('recorded');
  });

  test('for approval is begun when it has it, which is reported in the same commit', async () => {
    const { ledger } = await openBench(kind);
    const request = waiting({ forApproval: true });
    const { directive } = await ledger.directives.create(request);
    expect(directive.awaitingApproval).toBe(true);
    expect(await ledger.directives.listDue(types, 9)).toEqual([]);
    expect(await ledger.directives.start({ ...request, directive })).toBeUndefined();
    const approval = decision(directive.id, 'directive.approved');
    expect(await ledger.directives.approve(approval)).toBe(true);
    expect(await ledger.directives.approve(decision(directive.id, 'x', 'cli:bob'))).toBe(false);
    expect(await ledger.signals.list({ limit: 9 })).toMatchObject([{ type: 'directive.approved' }]);
    const [due] = await ledger.directives.listDue(types, 9);
    expect(due).toMatchObject({ awaitingApproval: false, approvedBy: 'cli:ann' });
    expect(due?.approvedAt).not.toBeNull();
  });

  test('is cancelled before it begins, and never after', async () => {
    const { ledger, dump } = await openBench(kind);
    const request = waiting({ forApproval: true });
    const { directive } = await ledger.directives.create(request);
    const { id } = directive;
    expect(await ledger.directives.cancel(decision(id, 'directive.cancelled'))).toBe(true);
    expect(await ledger.directives.find(id)).toMatchObject({
      status: 'cancelled',
      cancelledBy: 'cli:ann',
      error: null,
    });
    expect(await ledger.signals.list({ limit: 9 })).toMatchObject([
      { type: 'directive.cancelled' },
    ]);
    const before = await dump();
    expect(await ledger.directives.cancel(decision(id, 'x'))).toBe(false);
    expect(await ledger.directives.approve(decision(id, 'x'))).toBe(false);
    expect(await ledger.directives.start({ ...request, directive })).toBeUndefined();
    expect(await dump()).toEqual(before);
    const done = await ledger.directives.create(pausing());
    expect(await ledger.directives.cancel(decision(done.directive.id, 'x'))).toBe(false);
  });

  test('and is obsolete is failed with everything that is known', async () => {
    const { ledger } = await openBench(kind);
    const request = waiting();
    const { directive } = await ledger.directives.create(request);
    const end = {
      status: 'failed',
      code: 'JOB_OPEN',
      error: 'no',
      details: { place: 'j' },
    } as const;
    await ledger.directives.start({ ...request, directive, work: () => Promise.resolve(end) });
    expect(await ledger.directives.find(directive.id)).toMatchObject({
      status: 'failed',
      errorCode: 'JOB_OPEN',
      error: 'no',
      errorDetails: '{"place":"j"}',
    });
  });

  test('D-11 again, because its process died, is restarted by another one', async () => {
    const { ledger, sql } = await openBench(kind);
    await ledger.processes.heartbeat(beat('p1'));
    const request = pausing({ maxAttempts: 2 }, 'process');
    const { directive } = await ledger.directives.create(request);
    await sql(`update processes set last_heartbeat_at = '2000-01-01T00:00:00.000Z'`);
    const [orphan] = await ledger.processes.listOrphans({ self: 'p2', staleMs: 30_000 });
    expect(orphan?.directives).toMatchObject([{ id: directive.id, attempt: 1, maxAttempts: 2 }]);
    const released = orphan?.directives ?? [];
    await ledger.processes.reap({ processId: 'p1', staleMs: 30_000, closings: [], released });
    const [due] = await ledger.directives.listDue(types, 9);
    expect(due).toMatchObject({ status: 'requested', attempt: 1, startedAt: null });
    expect(await ledger.processes.listOrphans({ self: 'p2', staleMs: 0 })).toEqual([]);
    const begin = { signals: [], jobs: [] };
    const start = { ...request, begin, processId: 'p2', directive: due ?? directive };
    expect(await ledger.directives.start(start)).toMatchObject({
      status: 'running',
      attempt: 2,
      processId: 'p2',
    });
  });

  test('is counted with the others', async () => {
    const { ledger } = await openBench(kind);
    await ledger.directives.create(pausing());
    const { directive } = await ledger.directives.create(waiting());
    await ledger.directives.cancel(decision(directive.id, 'directive.cancelled'));
    await ledger.directives.create(waiting({ forApproval: true }));
    expect(await ledger.directives.readStatistics(60_000)).toEqual({
      requested: 3,
      ended: { completed: 1, cancelled: 1 },
      signals: 2,
    });
  });
});
