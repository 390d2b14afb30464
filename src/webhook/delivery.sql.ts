import { requireQueueRoom } from '../job/queue.sql.ts';
import type { QueueLimit } from '../job/types.ts';
import { defineRows, type Row, type Session, type Transaction } from '../ledger/dialect.ts';
import { isKeyReused } from './verify/verify.ts';
import { noRunEvents } from '../pipeline/run/changes.ts';
import {
  deliveryTable,
  type DeliveryDraft,
  type DeliveryFilter,
  type DeliveryRow,
  type AcceptResult,
  type DeliveryResult,
  type RejectedDelivery,
  type DeliveryPageFilter,
  type AgentJobRow,
  type TargetRow,
} from './types.ts';
import { defineInsert, insertRow } from '../ledger/insert.ts';
import { insertEmissions } from '../signal/emit.sql.ts';
import { int, text, textOrNull, filterWritten } from '../ledger/row.ts';
import { formatOrder, WhereClause } from '../ledger/where.ts';
import { limits } from '../base/limits.ts';
import { rangeAfter, readWalk, type ListPage, type WalkStream } from '../ledger/walk.ts';
import { AGENT_KEY, TARGET_KEY } from './agent-outcome.ts';

/** Inserts the deliveries that are new, with their signals and what those start. */
export async function acceptDeliveries(
  tx: Transaction,
  deliveries: readonly DeliveryDraft[],
  queueLimit?: QueueLimit,
): Promise<AcceptResult> {
  if (queueLimit !== undefined) {
    const work = deliveries.flatMap(({ emission: { jobs, runs } }) => [...jobs, ...runs]);
    await requireQueueRoom(tx, queueLimit, work.length);
  }
  const fresh = filterWritten(deliveries, await tx.each(insertDelivery, deliveries.map(toRow)));
  const duplicates = await findDuplicates(tx, deliveries, fresh);
  countTriggers(tx, fresh);
  const emitted =
    fresh.length === 0
      ? { recorded: [], events: noRunEvents }
      : await insertEmissions(
          tx,
          fresh.map(({ emission }) => emission),
        );
  const results: DeliveryResult[] = [];
  for (const [index, { id }] of fresh.entries()) {
    const { signalId, created } = requireResult(emitted.recorded[index], id);
    results.push({ signalId, isNew: created });
    // The first delivery was pruned, but its signal was not: this delivery refers to that signal.
    if (!created) await updateSignalId(tx, id, signalId);
  }
  const events = tx.isRetry ? { ...emitted.events, advancing: true, queued: true } : emitted.events;
  if (duplicates.size === 0) return { results, events };
  const rest = results.values();
  return {
    results: deliveries.map(({ id }) => duplicates.get(id) ?? requireResult(rest.next().value, id)),
    events,
  };
}

function toRow(delivery: DeliveryDraft) {
  return { ...delivery, reason: delivery.skipped, signalId: delivery.emission.signal.id };
}

const insertDelivery = defineInsert(deliveryTable, {
  properties: deliveryTable.except('seq', 'verdict', 'duplicates', 'receivedAt'),
  sql: (_, d) => ({ verdict: `'accepted'`, receivedAt: d.now }),
  rest: 'on conflict do nothing',
  returns: 'id',
});

/** Finds the earlier delivery for each delivery that isn't new. */
async function findDuplicates(
  tx: Transaction,
  deliveries: readonly DeliveryDraft[],
  fresh: readonly DeliveryDraft[],
): Promise<ReadonlyMap<string, DeliveryResult>> {
  const duplicates = new Map<string, DeliveryResult>();
  if (fresh.length === deliveries.length) return duplicates;
  const inserted = new Set(fresh);
  for (const delivery of deliveries) {
    if (!inserted.has(delivery)) duplicates.set(delivery.id, await findEarlier(tx, delivery));
  }
  return duplicates;
}

/**
 * Finds the delivery that was accepted before. With the same id, it is this delivery, written again
 * after a lost response of the database.
 */
async function findEarlier(
  tx: Transaction,
  { id, webhookId, deliveryId, replayKey, isStrict = false }: DeliveryDraft,
): Promise<DeliveryResult> {
  const deliveries = tx.dialect.table('webhook_deliveries');
  const [row] = await tx.run(
    `select seq, id, signal_id, delivery_id, replay_key, reason from ${deliveries}
      where id = ? or (hook_id = ? and verdict = 'accepted' and (delivery_id = ? or replay_key = ?))
      order by seq limit 1`,
    [id, webhookId, deliveryId, replayKey],
  );
  if (row === undefined) throw new Error(`delivery ${id} is neither new nor known`);
  const signalId = text(row, 'signal_id');
  if (text(row, 'id') === id) return { signalId, isNew: true };
  if (isKeyReused(textOrNull(row, 'replay_key'), replayKey)) {
    return { signalId, isNew: false, isKeyReused: true };
  }
  if (isStrict && textOrNull(row, 'delivery_id') !== deliveryId) {
    return { signalId, isNew: false, isReplay: true };
  }
  await tx.run(`update ${deliveries} set duplicates = duplicates + 1 where seq = ?`, [
    int(row, 'seq'),
  ]);
  const skipped = textOrNull(row, 'reason');
  return { signalId, isNew: false, ...(skipped === null ? {} : { skipped }) };
}

function countTriggers(tx: Transaction, fresh: readonly DeliveryDraft[]): void {
  const counts = new Map<string, number>();
  for (const { webhookId } of fresh) counts.set(webhookId, (counts.get(webhookId) ?? 0) + 1);
  // In the same order on all hosts, so that they can't deadlock.
  const ids = [...counts.keys()].toSorted();
  const rows = ids.map((id) => ({ id, count: counts.get(id) ?? 0 }));
  if (rows.length > 0) tx.send(countTrigger, rows);
}

const countTrigger = defineRows({
  columns: { id: 'text', count: 'int' },
  sql: (r, d) => `update ${d.table('webhooks')}
    set trigger_count = trigger_count + ${r('count')}, last_triggered_at = ${d.now},
      last_error = null ${r.from}
    where webhooks.id = ${r('id')}`,
});

async function updateSignalId(tx: Transaction, id: string, signalId: string): Promise<void> {
  await tx.run(`update ${tx.dialect.table('webhook_deliveries')} set signal_id = ? where id = ?`, [
    signalId,
    id,
  ]);
}

/** Records a delivery that was not accepted. A failed one is also the webhook's last error. */
export async function insertRejectedDelivery(
  tx: Transaction,
  delivery: RejectedDelivery,
): Promise<void> {
  const { dialect: d } = tx;
  const { webhookId, verdict, reason } = delivery;
  const row = { ...delivery, receivedAt: { sql: d.now } };
  await insertRow(tx, deliveryTable, row, 'on conflict do nothing');
  if (verdict !== 'failed') return;
  await tx.run(
    `update ${d.table('webhooks')} set trigger_count = trigger_count + 1,
      last_triggered_at = ${d.now}, last_error = ? where id = ?`,
    [reason, webhookId],
  );
}

export async function listDeliveries(
  session: Session,
  filter: DeliveryFilter,
): Promise<DeliveryRow[]> {
  const { webhookId, id, idPrefix, verdict, beforeSeq, limit } = filter;
  const stored = verdict === 'skipped' ? 'accepted' : verdict;
  const where = new WhereClause().equals({ hook_id: webhookId, id, verdict: stored });
  if (verdict === 'accepted') where.and('reason is null');
  if (verdict === 'skipped') where.and('reason is not null');
  if (idPrefix !== undefined) where.and('id >= ? and id < ?', idPrefix, `${idPrefix}~`);
  if (beforeSeq !== undefined) where.and('seq < ?', beforeSeq);
  const rows = await session.run(
    `select * from ${session.dialect.table('webhook_deliveries')} where ${where.text}
      ${formatOrder(filter)} limit ?`,
    [...where.values, limit],
  );
  return rows.map(toDelivery);
}

/** Lists the last accepted or failed delivery of each webhook, or of one webhook. */
export async function listLastDeliveries(
  session: Session,
  webhookId?: string,
): Promise<DeliveryRow[]> {
  const { dialect: d } = session;
  const deliveries = d.table('webhook_deliveries');
  const rows = await session.run(
    `select * from ${deliveries} where seq in (
      select (select max(o.seq) from ${deliveries} o
        where o.hook_id = w.id and o.verdict in ('accepted', 'failed'))
      from ${d.table('webhooks')} w ${webhookId === undefined ? '' : 'where w.id = ?'})`,
    webhookId === undefined ? [] : [webhookId],
  );
  return rows.map(toDelivery);
}

/** A skipped delivery is stored as accepted with a reason, so that it has duplicates, too. */
function toDelivery(row: Row): DeliveryRow {
  const delivery = deliveryTable.decode(row);
  const isSkipped = delivery.verdict === 'accepted' && delivery.reason !== null;
  return isSkipped ? { ...delivery, verdict: 'skipped' } : delivery;
}

function requireResult<T>(result: T | undefined, id: string): T {
  if (result === undefined) throw new Error(`delivery ${id} has no result`);
  return result;
}

/** Reads a page of deliveries by the index that fits the filter. */
export async function readDeliveryPage(
  session: Session,
  filter: DeliveryPageFilter,
): Promise<ListPage<DeliveryRow>> {
  const { webhookId, verdict, beforeSeq } = filter;
  const ways: WalkStream[][] = [];
  if (verdict === 'skipped') {
    const where = new WhereClause().and(isVerdict(verdict));
    const rest = new WhereClause().equals({ hook_id: webhookId });
    ways.push([{ index: 'webhook_deliveries_skipped', where, rest }]);
  } else if (verdict === 'refused' || verdict === 'failed') {
    const where = new WhereClause().and(`verdict <> 'accepted'`);
    const rest = new WhereClause().equals({ hook_id: webhookId });
    ways.push([{ index: 'webhook_deliveries_untaken', key: ['verdict', verdict], where, rest }]);
  }
  if (webhookId !== undefined) {
    const rest = withVerdict(verdict);
    ways.push([
      {
        index: 'webhook_deliveries_hook',
        key: ['hook_id', webhookId],
        where: new WhereClause(),
        rest,
      },
    ]);
  }
  if (ways.length === 0) {
    ways.push([{ index: undefined, where: new WhereClause(), rest: withVerdict(verdict) }]);
  }
  return readWalk(session, {
    table: session.dialect.table('webhook_deliveries'),
    columns: ['hook_id', 'verdict', 'reason'],
    ways,
    order: 'newest',
    range: rangeAfter({}, beforeSeq, 'newest'),
    limit: filter.limit,
    visitMax: filter.visitMax ?? limits.listVisitMax,
    map: toDelivery,
  });
}

function withVerdict(verdict: DeliveryRow['verdict'] | undefined): WhereClause {
  return verdict === undefined ? new WhereClause() : new WhereClause().and(isVerdict(verdict));
}

/** The verdict and the condition of its index, written out. A skipped delivery is stored as accepted. */
function isVerdict(verdict: DeliveryRow['verdict']): string {
  if (verdict === 'skipped') return `verdict = 'accepted' and reason is not null`;
  if (verdict === 'accepted') return `verdict = 'accepted' and reason is null`;
  return `verdict = '${verdict}' and verdict <> 'accepted'`;
}

/** Lists the jobs that notified agents of these signals' deliveries. */
export async function listAgentJobs(
  session: Session,
  signalIds: readonly string[],
): Promise<AgentJobRow[]> {
  if (signalIds.length === 0) return [];
  const rows = await session.run(
    `select id, command, status, last_error, idempotency_key, source_event_id
      from ${session.dialect.table('job_queue')}
      where source_event_id in (${signalIds.map(() => '?').join(', ')})
        and idempotency_key like ? order by seq`,
    [...signalIds, `%${AGENT_KEY}%`],
  );
  return rows.map((row) => ({
    id: text(row, 'id'),
    signalId: text(row, 'source_event_id'),
    command: text(row, 'command'),
    status: text(row, 'status') as AgentJobRow['status'],
    lastError: textOrNull(row, 'last_error'),
    idempotencyKey: text(row, 'idempotency_key'),
  }));
}

/** Lists the jobs and runs of webhooks' own targets. A retry and a revival have the same key. */
export async function listTargets(
  session: Session,
  signalIds: readonly string[],
): Promise<TargetRow[]> {
  if (signalIds.length === 0) return [];
  const { dialect: d } = session;
  const among = `source_event_id in (${signalIds.map(() => '?').join(', ')})`;
  const values = [...signalIds, `%${TARGET_KEY}`];
  const rows = await session.run(
    `select 'job' as kind, id, source_event_id, status, created_at from ${d.table('job_queue')}
        where ${among} and idempotency_key like ?
      union all
      select 'run' as kind, id, source_event_id, status, created_at
        from ${d.table('pipeline_runs')}
        where ${among} and lineage like ?
      order by created_at, id`,
    [...values, ...values],
  );
  return rows.map((row) => ({
    id: text(row, 'id'),
    kind: text(row, 'kind') as TargetRow['kind'],
    signalId: text(row, 'source_event_id'),
    status: text(row, 'status') as TargetRow['status'],
  }));
}
