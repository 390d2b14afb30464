/** Reported signals: each is stored once, with the jobs and runs that it starts. */
import { describe, expect, test } from 'vitest';
import { makeId } from '../../src/base/ids.ts';
import type { Emission } from '../../src/pipeline/run/types.ts';
import type { SignalDraft } from '../../src/signal/signal.ts';
import { task } from '../pipeline/graphs.ts';
import { define, runOf } from '../support/ledger/runs.ts';
import { databases, only, openBench, range } from '../support/ledger/bench.ts';
import { draft, settleOne, signalOf, startOne, succeed } from '../support/ledger/drafts.ts';

function report(given: Partial<SignalDraft> = {}, jobs = 0): Emission {
  const id = makeId();
  const signal = { type: 'order.paid', source: 'shop', data: '{}', hops: 1, correlationId: id };
  return {
    signal: { id, ...signal, ...given },
    jobs: range(jobs).map(() => draft({ sourceEventId: given.id ?? id })),
    runs: [],
  };
}

describe.each(databases)('a reported signal on %s', (kind) => {
  test('comes back as it was sent, with its jobs', async () => {
    const { ledger } = await openBench(kind);
    const emission = report(
      {
        subjectType: 'order',
        subjectId: '42',
        occurredAt: '2026-01-02T03:04:05.678Z',
        dedupeKey: 'k',
        sourceEventId: 'e',
        visibility: 'admin_only',
      },
      2,
    );
    const { recorded, events } = await ledger.signals.emit([emission]);
    expect(recorded).toEqual([{ signalId: emission.signal.id, created: true }]);
    expect(events.queued).toBe(true);
    expect(only(await ledger.signals.list({ limit: 9 }))).toMatchObject(emission.signal);
    const jobs = await ledger.jobs.list({ sourceEventId: emission.signal.id, limit: 9 });
    expect(new Set(jobs.map(({ id }) => id))).toEqual(new Set(emission.jobs.map(({ id }) => id)));
  });

  test('twice under one key is the first one, and starts nothing', async () => {
    const { ledger, dump } = await openBench(kind);
    const first = report({ dedupeKey: 'k', data: '{"n":1}' }, 1);
    await ledger.signals.emit([first]);
    const before = await dump();
    const { recorded, events } = await ledger.signals.emit([
      report({ dedupeKey: 'k', data: '{"n":2}' }, 1),
    ]);
    expect(recorded).toEqual([{ signalId: first.signal.id, created: false }]);
    expect(events.queued).toBe(false);
    expect(await dump()).toEqual(before);
  });

  test('twice under one key begins its run once', async () => {
    const { ledger } = await openBench(kind);
    const graph = await define(ledger, [task('a')]);
    const keyed = () => ({ ...report({ dedupeKey: 'k' }), runs: [runOf(graph)] });
    const answers = await Promise.all(range(6).map(() => ledger.signals.emit([keyed()])));
    expect(answers.filter(({ events }) => events.queued)).toHaveLength(1);
    expect(await ledger.runs.list({ limit: 9 })).toHaveLength(1);
    await ledger.signals.emit([{ ...keyed(), signal: report({ dedupeKey: 'other' }).signal }]);
    expect(await ledger.runs.list({ limit: 9 })).toHaveLength(2);
  });

  test("is one by its source's own id, and another of another source", async () => {
    const { ledger } = await openBench(kind);
    const first = report({ sourceEventId: 'e' });
    const { recorded } = await ledger.signals.emit([
      first,
      report({ sourceEventId: 'e' }),
      report({ sourceEventId: 'e', source: 'other' }),
      report(),
      report(),
    ]);
    expect(recorded.map(({ created }) => created)).toEqual([true, false, true, true, true]);
    expect(recorded[1]?.signalId).toBe(first.signal.id);
    expect(await ledger.signals.list({ limit: 9 })).toHaveLength(4);
  });

  test('by many at once under one key is there once', async () => {
    const { ledger } = await openBench(kind);
    const answers = await Promise.all(
      range(20).map(() => ledger.signals.emit([report({ dedupeKey: 'k' }, 1)])),
    );
    const recorded = answers.map((answer) => only(answer.recorded));
    expect(recorded.filter(({ created }) => created)).toHaveLength(1);
    expect(new Set(recorded.map(({ signalId }) => signalId)).size).toBe(1);
    expect(await ledger.jobs.list({ limit: 99 })).toHaveLength(1);
  });

  test('hands its correlation on to all that comes of it', async () => {
    const { ledger } = await openBench(kind);
    const first = report({ correlationId: 'chain' });
    await ledger.signals.emit([first]);
    const job = await startOne(ledger, 'p1', { sourceEventId: first.signal.id });
    const second = signalOf(job, 0, { causationId: first.signal.id, correlationId: job.rootJobId });
    const child = draft({ rootJobId: job.rootJobId, parentJobId: job.id });
    await settleOne(ledger, succeed(job, { signals: [second] }));
    // A later step of the same lineage, which no signal caused.
    const step = await startOne(ledger, 'p1', child);
    const third = signalOf(step, 0, { correlationId: step.rootJobId });
    await settleOne(ledger, succeed(step, { signals: [third] }));
    const named = report({ causationId: second.id, correlationId: 'own', isCorrelated: true });
    await ledger.signals.emit([named, report({ causationId: second.id })]);
    const found = await ledger.signals.list({ order: 'oldest', limit: 9 });
    expect(found.map(({ correlationId }) => correlationId)).toEqual([
      'chain',
      'chain',
      'chain',
      'own',
      'chain',
    ]);
  });

  test('is found by everything that lists are narrowed down to', async () => {
    const { ledger } = await openBench(kind);
    const a = report({
      subjectType: 'order',
      subjectId: '1',
      occurredAt: '2026-01-01T00:00:00.000Z',
    });
    const b = report({ type: 'order.lost', source: 'other', causationId: 'x', dedupeKey: 'k' });
    const c = report({ visibility: 'admin_only', correlationId: 'c', sourceEventId: 'e' });
    await ledger.signals.emit([a, b, c]);
    const ids = async (filter: object) =>
      (await ledger.signals.list({ ...filter, order: 'oldest', limit: 9 })).map(({ id }) => id);
    const [idA, idB, idC] = [a.signal.id, b.signal.id, c.signal.id];
    expect(await ids({ source: 'other' })).toEqual([idB]);
    expect(await ids({ subjectType: 'order', subjectId: '1' })).toEqual([idA]);
    expect(await ids({ correlationId: 'c' })).toEqual([idC]);
    expect(await ids({ causationId: 'x' })).toEqual([idB]);
    expect(await ids({ visibility: 'internal' })).toEqual([idA, idB]);
    expect(await ids({ to: '2026-01-01T00:00:00.001Z' })).toEqual([idA]);
    expect(await ids({ from: '2026-01-01T00:00:00.001Z' })).toEqual([idB, idC]);
    expect(await ids({ source: 'other', dedupeKey: 'k' })).toEqual([idB]);
    expect(await ids({ source: 'shop', sourceEventId: 'e' })).toEqual([idC]);
    expect(await ids({ idPrefix: idB })).toEqual([idB]);
    const [first, , last] = await ledger.signals.list({ order: 'oldest', limit: 9 });
    expect(await ids({ beforeSeq: first?.seq ?? 0 })).toEqual([idB, idC]);
    expect(await ids({ upToSeq: (last?.seq ?? 0) - 1 })).toEqual([idA, idB]);
    expect(await ledger.signals.countGroups({ limit: 9 })).toEqual([
      { source: 'other', type: 'order.lost', count: 1 },
      { source: 'shop', type: 'order.paid', count: 2 },
    ]);
    expect(await ledger.signals.countGroups({ limit: 1 })).toMatchObject([
      { source: 'shop', count: 1 },
    ]);
  });

  test('is kept until both its own time and that of its record are over', async () => {
    const { ledger, sql } = await openBench(kind);
    const old = '2020-01-01T00:00:00.000Z';
    const late = report({ occurredAt: old });
    const ahead = report();
    const gone = report({ occurredAt: old });
    await ledger.signals.emit([late, ahead, gone]);
    const { id } = gone.signal;
    await sql('update signals set inserted_at = ? where id in (?, ?)', [old, id, ahead.signal.id]);
    expect(await ledger.history.prune({ what: 'signals', olderThanMs: 60_000, limit: 9 })).toBe(1);
    const left = (await ledger.signals.list({ order: 'oldest', limit: 9 })).map(
      (signal) => signal.id,
    );
    expect(left).toEqual([late.signal.id, ahead.signal.id]);
  });
});

describe('two hosts that report the same at once', () => {
  test('have one signal, and one of each job', async () => {
    const { ledger, open } = await openBench('postgres');
    const other = await open();
    const rounds = range(20).map(async (round) => {
      const keys = { dedupeKey: `k${round}`, sourceEventId: `e${round}` };
      const [one, two] = await Promise.all([
        ledger.signals.emit([report(keys, 1)]),
        other.signals.emit([report(keys, 1)]),
      ]);
      const recorded = [only(one.recorded), only(two.recorded)];
      expect(recorded.filter(({ created }) => created)).toHaveLength(1);
      expect(recorded[0]?.signalId).toBe(recorded[1]?.signalId);
    });
    await Promise.all(rounds);
    expect(await ledger.signals.list({ limit: 99 })).toHaveLength(20);
    expect(await ledger.jobs.list({ limit: 99 })).toHaveLength(20);
  });
});
