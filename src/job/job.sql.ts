import type { Dialect, Row, Session } from '../ledger/dialect.ts';
import { int, intOrNull, text, textOrNull } from '../ledger/row.ts';
import { formatOrder, WhereClause } from '../ledger/where.ts';
import type { Job, JobStatus } from './job.ts';
import type { JobFilter } from './types.ts';

/** A list of names: `returning *` would include the columns of joined rows. */
export const jobColumns = [
  'seq',
  'id',
  'plugin',
  'command',
  'payload',
  'status',
  'attempt',
  'max_attempts',
  'retry_count',
  'crash_count',
  'interrupt_count',
  'suspect',
  'submitted_by',
  'actor',
  'dedupe_key',
  'dedupe_ttl_ms',
  'dependency_key',
  'created_at',
  'ready_at',
  'started_at',
  'completed_at',
  'next_retry_at',
  'last_error',
  'reason',
  'parent_job_id',
  'source_event_id',
  'root_job_id',
  'retry_of',
  'idempotency_key',
  'hops',
  'runtime_caused',
  'event_context_id',
  'schedule_id',
  'schedule_slot',
  'claim_token',
  'claimed_by',
  'claim_expires_at',
  'cancel_requested_at',
  'config_snapshot_id',
  'run_id',
  'branch_id',
  'step_id',
  'base_key',
  'timeout_ms',
  'backoff_ms',
  'awaited_by',
]
  .map((column) => `job_queue.${column}`)
  .join(', ');

export async function findJob(session: Session, id: string, lock = ''): Promise<Job | undefined> {
  const [row] = await session.run(
    `select ${jobColumns} from ${session.dialect.table('job_queue')} where id = ? ${lock}`,
    [id],
  );
  return row === undefined ? undefined : toJob(row);
}

export async function listJobs(session: Session, filter: JobFilter): Promise<Job[]> {
  const where = whereJobs(filter, session.dialect);
  const rows = await session.run(
    `select ${jobColumns} from ${session.dialect.table('job_queue')}
      where ${where.text} ${formatOrder(filter)} limit ?`,
    [...where.values, filter.limit],
  );
  return rows.map(toJob);
}

export async function countJobs(session: Session, filter: JobFilter): Promise<number> {
  const where = whereJobs(filter, session.dialect);
  const [row] = await session.run(
    `select count(*) as n from (select 1 as one from ${session.dialect.table('job_queue')}
      where ${where.text} limit ?) found`,
    [...where.values, filter.limit],
  );
  return int(row ?? {}, 'n');
}

/**
 * Alternatives are unions of rows: with `or`, the database would search all jobs for the newest.
 */
function whereJobs(filter: JobFilter, dialect: Dialect): WhereClause {
  const jobs = dialect.table('job_queue');
  const where = new WhereClause().equals({
    plugin: filter.plugin,
    command: filter.command,
    parent_job_id: filter.parentJobId,
    submitted_by: filter.submittedBy,
    source_event_id: filter.sourceEventId,
  });
  if (filter.rootJobId !== undefined) {
    // Most jobs are their own root. The index of lineages contains only the others.
    const root = filter.rootJobId;
    where.and(
      `seq in (select seq from ${jobs} where id = ?
        union all select seq from ${jobs} where root_job_id = ? and root_job_id <> id)`,
      root,
      root,
    );
  }
  if (filter.idPrefix !== undefined) {
    // A range on the index of ids. `~` sorts after every character of an id.
    where.and('id >= ? and id < ?', filter.idPrefix, `${filter.idPrefix}~`);
  }
  if (filter.status !== undefined) {
    where.and(`status in (${filter.status.map(() => '?').join(', ')})`, ...filter.status);
  }
  if (filter.causedBy !== undefined) {
    const marks = filter.causedBy.map(() => '?').join(', ');
    where.and(
      `seq in (select seq from ${jobs} where parent_job_id in (${marks})
        union all select seq from ${jobs} where retry_of in (${marks}))`,
      ...filter.causedBy,
      ...filter.causedBy,
    );
  }
  if (filter.retryOf !== undefined) {
    const marks = filter.retryOf.map(() => '?').join(', ');
    where.and(`seq in (select seq from ${jobs} where retry_of in (${marks}))`, ...filter.retryOf);
  }
  if (filter.from !== undefined) where.and('created_at >= ?', filter.from);
  if (filter.to !== undefined) where.and('created_at < ?', filter.to);
  if (filter.olderThanMs !== undefined) {
    where.and(`created_at <= (select ${dialect.nowPlus('?')})`, -filter.olderThanMs);
  }
  if (filter.query !== undefined) where.contains('last_error', filter.query);
  if (filter.notRetried === true) {
    where.and(`not exists (select 1 from ${jobs} r where r.retry_of = job_queue.id)`);
  }
  if (filter.upToSeq !== undefined) where.and('seq <= ?', filter.upToSeq);
  if (filter.beforeSeq !== undefined) {
    where.and(filter.order === 'oldest' ? 'seq > ?' : 'seq < ?', filter.beforeSeq);
  }
  return where;
}

export function toJob(row: Row): Job {
  return {
    seq: int(row, 'seq'),
    id: text(row, 'id'),
    plugin: text(row, 'plugin'),
    command: text(row, 'command'),
    payload: text(row, 'payload'),
    status: text(row, 'status') as JobStatus,
    attempt: int(row, 'attempt'),
    maxAttempts: int(row, 'max_attempts'),
    retryCount: int(row, 'retry_count'),
    crashCount: int(row, 'crash_count'),
    interruptCount: int(row, 'interrupt_count'),
    suspect: row['suspect'] === 1,
    submittedBy: text(row, 'submitted_by'),
    actor: text(row, 'actor'),
    dedupeKey: textOrNull(row, 'dedupe_key'),
    dedupeTtlMs: intOrNull(row, 'dedupe_ttl_ms'),
    dependencyKey: textOrNull(row, 'dependency_key'),
    createdAt: text(row, 'created_at'),
    readyAt: text(row, 'ready_at'),
    startedAt: textOrNull(row, 'started_at'),
    completedAt: textOrNull(row, 'completed_at'),
    nextRetryAt: textOrNull(row, 'next_retry_at'),
    lastError: textOrNull(row, 'last_error'),
    reason: textOrNull(row, 'reason'),
    parentJobId: textOrNull(row, 'parent_job_id'),
    sourceEventId: textOrNull(row, 'source_event_id'),
    rootJobId: text(row, 'root_job_id'),
    retryOf: textOrNull(row, 'retry_of'),
    idempotencyKey: text(row, 'idempotency_key'),
    hops: int(row, 'hops'),
    runtimeCaused: row['runtime_caused'] === 1,
    eventContextId: textOrNull(row, 'event_context_id'),
    scheduleId: textOrNull(row, 'schedule_id'),
    scheduleSlot: textOrNull(row, 'schedule_slot'),
    claimToken: textOrNull(row, 'claim_token'),
    claimedBy: textOrNull(row, 'claimed_by'),
    claimExpiresAt: textOrNull(row, 'claim_expires_at'),
    cancelRequestedAt: textOrNull(row, 'cancel_requested_at'),
    configSnapshotId: textOrNull(row, 'config_snapshot_id'),
    runId: textOrNull(row, 'run_id'),
    branchId: textOrNull(row, 'branch_id'),
    stepId: textOrNull(row, 'step_id'),
    baseKey: textOrNull(row, 'base_key'),
    timeoutMs: intOrNull(row, 'timeout_ms'),
    backoffMs: intOrNull(row, 'backoff_ms'),
    awaitedBy: textOrNull(row, 'awaited_by'),
  };
}
