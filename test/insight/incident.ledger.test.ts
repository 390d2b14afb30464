/** Incidents: opened once over all hosts, reported in the same commit, closed once. */
import { describe, expect, test } from 'vitest';
import { makeId } from '../../src/base/ids.ts';
import type { Emission } from '../../src/pipeline/run/types.ts';
import type { IncidentChanges } from '../../src/insight/types.ts';
import { databases, only, openBench } from '../support/ledger/bench.ts';
import { draft, startOne } from '../support/ledger/drafts.ts';

function emission(type: string, jobs = 0): Emission {
  const id = makeId();
  const signal = { id, type, source: 'ductile', data: '{}', hops: 1, correlationId: id };
  return {
    signal,
    jobs: Array.from({ length: jobs }, () => draft({ sourceEventId: id })),
    runs: [],
  };
}

function opening(key: string, jobs = 0): IncidentChanges {
  const incident = { id: makeId(), kind: 'breaker_open', key, count: 1, detail: '{}' } as const;
  return {
    opened: [{ ...incident, emission: emission('incident.opened', jobs) }],
    renewed: [],
    closed: [],
  };
}

const none = { opened: [], renewed: [], closed: [] } as const;

describe.each(databases)('incidents on %s', (kind) => {
  test('are opened once by two hosts that see the same, with one signal and its jobs', async () => {
    const { ledger, open } = await openBench(kind);
    const other = kind === 'postgres' ? await open() : ledger;
    const answers = await Promise.all([
      ledger.incidents.update(opening('a/b', 1)),
      other.incidents.update(opening('a/b', 1)),
    ]);
    expect(answers.flatMap(({ opened }) => opened)).toHaveLength(1);
    expect(answers.some(({ events }) => events.queued)).toBe(true);
    const found = only(await ledger.incidents.list({ isOpen: true, limit: 9 }));
    expect(found).toMatchObject({ kind: 'breaker_open', key: 'a/b', count: 1, closedAt: null });
    expect(await ledger.signals.list({ type: 'incident.opened', limit: 9 })).toHaveLength(1);
    expect(await ledger.jobs.count({ limit: 9 })).toBe(1);
  });

  test('are renewed while they are open, closed once, and may open again', async () => {
    const { ledger } = await openBench(kind);
    await ledger.incidents.update(opening('a/b'));
    const { id } = only(await ledger.incidents.list({ isOpen: true, limit: 9 }));
    await ledger.incidents.update({ ...none, renewed: [{ id, count: 4, detail: '{"n":1}' }] });
    expect(await ledger.incidents.find(id)).toMatchObject({ count: 5, detail: '{"n":1}' });
    const closing = (): IncidentChanges => ({
      ...none,
      closed: [{ id, emission: emission('incident.closed') }],
    });
    expect((await ledger.incidents.update(closing())).closed).toEqual([id]);
    expect((await ledger.incidents.update(closing())).closed).toEqual([]);
    await ledger.incidents.update({ ...none, renewed: [{ id, count: 1, detail: '{}' }] });
    expect(await ledger.incidents.find(id)).toMatchObject({
      count: 5,
      closedAt: expect.any(String),
    });
    expect(await ledger.signals.list({ type: 'incident.closed', limit: 9 })).toHaveLength(1);
    expect((await ledger.incidents.update(opening('a/b'))).opened).toHaveLength(1);
    expect(await ledger.incidents.list({ isOpen: false, limit: 9 })).toHaveLength(1);
    expect(await ledger.incidents.list({ kind: 'disk_full', limit: 9 })).toEqual([]);
  });

  test('are pruned when they have been over for long, and never while they are open', async () => {
    const { ledger, sql } = await openBench(kind);
    await ledger.incidents.update(opening('old'));
    await ledger.incidents.update(opening('open'));
    await sql(`update incidents set closed_at = '2020-01-01T00:00:00.000Z' where key = 'old'`);
    const request = { what: 'incidents', olderThanMs: 1000, limit: 9 } as const;
    expect(await ledger.history.countPrunable(request)).toBe(1);
    expect(await ledger.history.prune(request)).toBe(1);
    expect(only(await ledger.incidents.list({ limit: 9 })).key).toBe('open');
  });

  test('are watched by one host at a time', async () => {
    const { ledger, open, sql } = await openBench(kind);
    const other = kind === 'postgres' ? await open() : ledger;
    const taken = await Promise.all([
      ledger.incidents.claimWatch(60_000),
      other.incidents.claimWatch(60_000),
    ]);
    expect(taken.toSorted()).toEqual([false, true]);
    await sql(
      `update ledger_meta set value = '2020-01-01T00:00:00.000Z' where key = 'incidents_watched_at'`,
    );
    expect(await other.incidents.claimWatch(60_000)).toBe(true);
  });

  test('are based on the first ready jobs and on whether jobs start or end', async () => {
    const { ledger, sql } = await openBench(kind);
    const idle = await ledger.jobs.readQueueHeads(60_000);
    expect(idle).toMatchObject({ heads: [], isMoving: false });
    await startOne(ledger, 'p1');
    const { plugin } = draft();
    await ledger.jobs.enqueue({ jobs: [draft(), draft({ plugin: 'zeta' })] });
    const busy = await ledger.jobs.readQueueHeads(60_000);
    expect(busy.heads.map((head) => head.plugin)).toEqual([plugin, 'zeta'].toSorted());
    expect(busy.running).toEqual(new Map([[plugin, 1]]));
    expect(busy.isMoving).toBe(true);
    await sql(
      `update job_queue set started_at = '2020-01-01T00:00:00.000Z' where status = 'running'`,
    );
    expect((await ledger.jobs.readQueueHeads(60_000)).isMoving).toBe(false);
  });
});
