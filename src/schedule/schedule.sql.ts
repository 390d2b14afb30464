import type { DirectiveEnd } from '../directive/types.ts';
import type { Row, Session, Transaction } from '../ledger/dialect.ts';
import { defineInsert, defineRowsOf } from '../ledger/insert.ts';
import {
  scheduleTable,
  type DueResult,
  type DueRequest,
  type DueSchedule,
  type PauseRequest,
  type ScheduleDraft,
  type ScheduleFilter,
  type ScheduleKey,
  type ScheduleRow,
} from './types.ts';
import { text, textOrNull } from '../ledger/row.ts';
import { WhereClause } from '../ledger/where.ts';

/** Inserts schedules, and updates rows whose definition changed. */
export async function syncSchedules(
  tx: Transaction,
  drafts: readonly ScheduleDraft[],
): Promise<void> {
  await tx.each(upsertDraft, sortByKey(drafts).map(toDraftRow));
}

/** Retires schedules that are no longer configured. Their rows keep their history. */
export async function retireSchedules(
  tx: Transaction,
  keys: readonly ScheduleKey[],
): Promise<void> {
  await tx.each(retireRow, sortByKey(keys));
}

/** Lists a page of schedules that are due, the earliest first. */
export async function listDueSchedules(session: Session, request: DueRequest): Promise<DueResult> {
  const { dialect } = session;
  const table = dialect.table('schedules');
  const where = new WhereClause().and(`s.status = 'active'`).and('s.next_due_at <= ?', request.now);
  if (request.after !== undefined) {
    const { dueAt, plugin, scheduleId } = request.after;
    const row = '(s.next_due_at, s.plugin, s.schedule_id) > (?, ?, ?)';
    where.and(row, dueAt, plugin, scheduleId);
  }
  const due = await session.run(
    `select s.*, j.id as found, j.completed_at
      from ${table} s left join ${dialect.table('job_queue')} j on j.id = s.last_job_id
      where ${where.text} order by s.next_due_at, s.plugin, s.schedule_id
      limit ?`,
    [...where.values, request.limit],
  );
  if (due.length === request.limit) return { due: due.map(toDue), nextAt: undefined };
  const [next] = await session.run(
    `select min(next_due_at) as at from ${table} where status = 'active' and next_due_at > ?`,
    [request.now],
  );
  return {
    due: due.map(toDue),
    nextAt: next === undefined ? undefined : (textOrNull(next, 'at') ?? undefined),
  };
}

export async function listSchedules(
  session: Session,
  filter: ScheduleFilter,
): Promise<ScheduleRow[]> {
  const { dialect } = session;
  const { plugin, scheduleId, status, after, limit } = filter;
  const where = new WhereClause().equals({ 's.plugin': plugin, 's.schedule_id': scheduleId });
  if (status !== undefined) {
    where.and(`s.status in (${status.map(() => '?').join(', ')})`, ...status);
  }
  if (after !== undefined) {
    where.and('(s.plugin, s.schedule_id) > (?, ?)', after.plugin, after.scheduleId);
  }
  const rows = await session.run(
    `select s.*, j.status as last_job_status from ${dialect.table('schedules')} s
      left join ${dialect.table('job_queue')} j on j.id = s.last_job_id
      where ${where.text} order by s.plugin, s.schedule_id limit ?`,
    [...where.values, limit],
  );
  return rows.map((row) => ({
    ...scheduleTable.decode(row),
    lastJobStatus: textOrNull(row, 'last_job_status'),
  }));
}

/** Pauses or resumes a schedule. Returns whether that changed anything. */
export async function pauseSchedule(tx: Transaction, request: PauseRequest): Promise<DirectiveEnd> {
  const { plugin, scheduleId, paused, next, now } = request;
  const table = tx.dialect.table('schedules');
  // An invalid or exhausted schedule stores the pause and keeps its status.
  const [status, pausedAt] = paused ? ['paused', now] : ['active', null];
  const changed = await tx.run(
    `update ${table} set paused_at = ?, updated_at = ?,
        status = case when status in ('active', 'paused') then ? else status end,
        reason = case when status in ('active', 'paused') then ? else reason end,
        next_slot_at = case when next_due_at < ? then coalesce(?, next_slot_at)
          else next_slot_at end,
        next_due_at = case when next_due_at < ? then coalesce(?, next_due_at)
          else next_due_at end
      where plugin = ? and schedule_id = ? and (paused_at is null) = (? = 1) returning seq`,
    [
      pausedAt ?? null,
      now,
      status ?? 'active',
      paused ? 'paused_manual' : null,
      paused ? '' : now,
      next?.slotAt ?? null,
      paused ? '' : now,
      next?.dueAt ?? null,
      plugin,
      scheduleId,
      paused ? 1 : 0,
    ],
  );
  const result = { plugin, schedule_id: scheduleId, paused, changed: changed.length > 0 };
  return { status: 'completed', result };
}

/** Sorts by key: a fixed order of locks, so that two hosts can't deadlock. */
export function sortByKey<Key extends ScheduleKey>(keys: readonly Key[]): Key[] {
  return keys.toSorted((a, b) =>
    a.plugin === b.plugin ? (a.scheduleId < b.scheduleId ? -1 : 1) : a.plugin < b.plugin ? -1 : 1,
  );
}

/**
 * A row of the same generation keeps its due time, its seq and its exhaustion. A row of another
 * generation keeps only its seq, so that no slot number is used twice. A pause survives every
 * change. A schedule that was due once and is done isn't repeated because its timezone or a window
 * changes.
 */
const upsertDraft = defineInsert(scheduleTable, {
  properties: scheduleTable.except(
    'seq',
    'firstSeenAt',
    'lastFiredAt',
    'lastJobId',
    'lastSkippedAt',
    'lastSkipReason',
    'skippedInRow',
    'updatedAt',
  ),
  parameters: { seen_at: 'text' },
  sql: (r) => ({ firstSeenAt: r('seen_at'), updatedAt: r('seen_at') }),
  rest: writeDraftUpdate(),
});

function writeDraftUpdate(): string {
  // A job that an older generation fired doesn't exhaust this one.
  const fired = 'schedules.last_fired_at >= schedules.first_seen_at';
  const same = ['mode', 'timing', 'command'].map(
    (column) => `schedules.${column} = excluded.${column}`,
  );
  const spent = `schedules.mode in ('at', 'after') and schedules.next_due_at is null and ${fired}`;
  const kept = `(schedules.generation = excluded.generation or ${spent} and ${same.join(' and ')})`;
  const done = `${kept} and schedules.next_due_at is null and ${fired}`;
  const status = `case when excluded.status = 'invalid' then 'invalid'
    when schedules.paused_at is not null then 'paused' when ${done} then 'exhausted'
    else 'active' end`;
  const reason = `case when excluded.status = 'invalid' then excluded.reason
    when schedules.paused_at is not null then 'paused_manual'
    when ${done} then 'one_shot_exhausted' end`;
  const keep = (column: string): string =>
    `case when ${kept} and (schedules.${column} is not null or ${fired})
      then schedules.${column} else excluded.${column} end`;
  return `on conflict (plugin, schedule_id) do update set command = excluded.command,
      mode = excluded.mode, timing = excluded.timing, timezone = excluded.timezone,
      generation = excluded.generation, status = ${status}, reason = ${reason},
      next_slot_at = ${keep('next_slot_at')}, next_due_at = ${keep('next_due_at')},
      first_seen_at = case when ${kept} then schedules.first_seen_at
        else excluded.first_seen_at end,
      skipped_in_row = case when schedules.generation = excluded.generation
        then schedules.skipped_in_row else 0 end,
      updated_at = excluded.updated_at
    where schedules.generation <> excluded.generation
      or schedules.status in ('invalid', 'retired')
      or schedules.status <> excluded.status and excluded.status = 'invalid'`;
}

function toDraftRow(draft: ScheduleDraft) {
  const { invalid, next, seenAt } = draft;
  return {
    ...draft,
    status: invalid === undefined ? ('active' as const) : ('invalid' as const),
    reason: invalid,
    nextSlotAt: next?.slotAt,
    nextDueAt: next?.dueAt,
    seen_at: seenAt,
  };
}

const retireRow = defineRowsOf(scheduleTable, ['plugin', 'scheduleId'], {
  sql: (r, d) => `update ${d.table('schedules')} set status = 'retired',
      reason = 'not_configured', updated_at = ${d.now} ${r.from}
    where schedules.plugin = ${r('plugin')} and schedules.schedule_id = ${r('schedule_id')}`,
});

function toDue(row: Row): DueSchedule {
  const { plugin, scheduleId, generation, seq, lastJobId } = scheduleTable.decode(row);
  const completedAt = textOrNull(row, 'completed_at');
  return {
    plugin,
    scheduleId,
    generation,
    seq,
    slotAt: text(row, 'next_slot_at'),
    dueAt: text(row, 'next_due_at'),
    lastJobId,
    isLastOpen: row['found'] !== null && completedAt === null,
    lastCompletedAt: completedAt,
  };
}
