import { defineRows, type Row, type Session, type Transaction } from '../ledger/dialect.ts';
import {
  incidentTable,
  type Incident,
  type IncidentFilter,
  type IncidentChanges,
  type RecentJobEnd,
  type IncidentResult,
  type QueueHeads,
} from './types.ts';
import { defineInsert } from '../ledger/insert.ts';
import type { MetaKey } from '../ledger/meta.ts';
import { noRunEvents } from '../pipeline/run/changes.ts';
import { hasNoKey } from '../job/dependency.sql.ts';
import { insertEmissions } from '../signal/emit.sql.ts';
import { int, readRows, text, textOrNull } from '../ledger/row.ts';
import { isReady, withWaiting } from '../job/queue.sql.ts';
import { formatOrder, WhereClause } from '../ledger/where.ts';

export async function listIncidents(session: Session, filter: IncidentFilter): Promise<Incident[]> {
  const where = new WhereClause().equals({ kind: filter.kind });
  // Word for word the condition of the index of open incidents, so that the planner uses it.
  if (filter.isOpen === true) where.and('closed_at is null');
  if (filter.isOpen === false) where.and('closed_at is not null');
  if (filter.idPrefix !== undefined) {
    where.and('id >= ? and id < ?', filter.idPrefix, `${filter.idPrefix}~`);
  }
  if (filter.beforeSeq !== undefined) where.and('seq < ?', filter.beforeSeq);
  return await readRows(
    session,
    incidentTable,
    `where ${where.text} ${formatOrder(filter)} limit ?`,
    [...where.values, filter.limit],
  );
}

export async function findIncident(session: Session, id: string): Promise<Incident | undefined> {
  const [incident] = await readRows(session, incidentTable, 'where id = ?', [id]);
  return incident;
}

/**
 * Opens, renews and closes incidents, and inserts their signals. An incident that another host opened
 * or closed first is left alone, and has only the signal of that host.
 */
export async function updateIncidents(
  tx: Transaction,
  { opened, renewed, closed }: IncidentChanges,
): Promise<IncidentResult> {
  tx.send(
    renew,
    renewed.map(({ id, count, detail }) => ({ id, count, detail })),
  );
  const openedIds = toIds(await tx.each(insert, opened));
  const closedIds = toIds(
    await tx.each(
      close,
      closed.map(({ id }) => ({ id })),
    ),
  );
  const changed = [
    ...opened.filter(({ id }) => openedIds.has(id)),
    ...closed.filter(({ id }) => closedIds.has(id)),
  ];
  const emissions = changed.map(({ emission }) => emission);
  const { events } =
    emissions.length === 0 ? { events: noRunEvents } : await insertEmissions(tx, emissions);
  return { opened: [...openedIds], closed: [...closedIds], events };
}

function toIds(rows: readonly Row[]): Set<string> {
  return new Set(rows.map((row) => text(row, 'id')));
}

const insert = defineInsert(incidentTable, {
  properties: ['id', 'kind', 'key', 'count', 'detail'],
  sql: (_, d) => ({ openedAt: d.now, lastSeenAt: d.now }),
  rest: 'on conflict (kind, key) where closed_at is null do nothing returning id',
});

const renew = defineRows({
  columns: { id: 'text', count: 'int', detail: 'text' },
  key: 'id',
  sql: (r, d) => `update ${d.table('incidents')} set last_seen_at = ${d.now},
      count = incidents.count + ${r('count')}, detail = ${r('detail')}
    ${r.from} where incidents.id ${r.isKey()} and incidents.closed_at is null`,
});

const close = defineRows({
  columns: { id: 'text' },
  key: 'id',
  sql: (r, d) => `update ${d.table('incidents')} set closed_at = ${d.now}
    ${r.from} where incidents.id ${r.isKey()} and incidents.closed_at is null
    returning incidents.id`,
});

/** Returns whether this host reviews the incidents this time: the host that moves the mark first does. */
export async function claimIncidentWatch(tx: Transaction, everyMs: number): Promise<boolean> {
  const { dialect: d } = tx;
  const key: MetaKey = 'incidents_watched_at';
  const rows = await tx.run(
    `insert into ${d.table('ledger_meta')} as m (key, value) values (?, ${d.now})
      on conflict (key) do update set value = excluded.value
        where m.value <= (select ${d.nowPlus('?')}) returning key`,
    [key, -everyMs],
  );
  return rows.length > 0;
}

/**
 * Reads the first ready job of each plugin, the running jobs, and whether any job started or ended
 * lately. Jobs with a dependency key are left out, because they can wait for a long time.
 */
export async function readQueueHeads(session: Session, progressMs: number): Promise<QueueHeads> {
  const { dialect: d } = session;
  const jobs = d.table('job_queue');
  const heads = await session.run(
    `${withWaiting(d)} select waiting.plugin, (select j.ready_at from ${jobs} j
        where ${isReady} and j.plugin = waiting.plugin and ${hasNoKey('j')}
        order by j.seq limit 1) as ready_at
      from waiting`,
  );
  const running = await session.run(
    `select plugin, count(*) as n from ${jobs} where status = 'running' group by plugin`,
  );
  const [progress = {}] = await session.run(
    `with cut as (select ${d.nowPlus('?')} as at) select ${d.now} as now,
      (select count(*) from (select 1 as one from ${jobs} where status = 'running'
        and started_at > (select at from cut) limit 1) s) as started,
      (select count(*) from (select 1 as one from ${d.table('job_log')}
        where completed_at > (select at from cut) limit 1) e) as ended`,
    [-progressMs],
  );
  return {
    now: text(progress, 'now'),
    heads: heads.flatMap((row) => {
      const readyAt = textOrNull(row, 'ready_at');
      return readyAt === null ? [] : [{ plugin: text(row, 'plugin'), readyAt }];
    }),
    running: new Map(running.map((row) => [text(row, 'plugin'), int(row, 'n')])),
    isMoving: int(progress, 'started') + int(progress, 'ended') > 0,
  };
}

/** Lists the jobs that ended last, newest first. */
export async function listLastEnds(session: Session, limit: number): Promise<RecentJobEnd[]> {
  const rows = await session.run(
    `select id, plugin, command, status, last_error, runtime_caused
      from ${session.dialect.table('job_queue')} where completed_at is not null
      order by completed_at desc limit ?`,
    [limit],
  );
  return rows.map((row) => ({
    id: text(row, 'id'),
    plugin: text(row, 'plugin'),
    command: text(row, 'command'),
    status: text(row, 'status') as RecentJobEnd['status'],
    error: textOrNull(row, 'last_error'),
    isAlarm: row['runtime_caused'] === 1,
  }));
}
