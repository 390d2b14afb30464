import { fromTimestamp } from '../base/clock.ts';
import { RUNTIME_SOURCE } from '../signal/signal.ts';
import type { Dialect, Session, Transaction } from '../ledger/dialect.ts';
import { writeMeta } from '../ledger/meta.ts';
import { int, text, textOrNull } from '../ledger/row.ts';
import { isReady, withWaiting } from '../job/queue.sql.ts';

/** The work of a ledger, now or later. */
export interface Workload {
  /** True if a job can start now. */
  readonly isReady: boolean;
  /** True if something runs here or elsewhere, or ran when its process died. */
  readonly isRunning: boolean;
  /** True if runs wait for a concurrency slot. Only an engine can decide whether one may start. */
  readonly hasQueuedRuns: boolean;
  /** Time until the next work is due, by the database's clock; not positive if it is due. */
  readonly nextInMs: number | undefined;
  /** Time since the last pruning; undefined if it never happened. */
  readonly prunedMs: number | undefined;
}

/** The numbers up to which usage is counted. */
export interface UsageLimits {
  readonly queued: number;
  readonly signals: number;
}

/** The usage of resources that tenants have limits for. */
export interface Usage {
  readonly queued: number;
  /** Signals of the last minute, without lifecycle signals. */
  readonly signals: number;
  readonly bytes: number;
}

const MINUTE_MS = 60_000;

/** Reads the workload. It only reads the first rows of indexes, so it is cheap for any number of rows. */
export async function readWorkload(session: Session): Promise<Workload> {
  const { dialect: d } = session;
  const [row = {}] = await session.run(
    `${withWaiting(d)}
    select ${d.now} as now,
      (select count(*) from waiting where not exists (
        select 1 from ${d.table('plugin_switches')} s
          where s.plugin_name = waiting.plugin and s.enabled = 0)) as ready,
      (select value from ${d.table('ledger_meta')} where key = 'paused') as paused,
      (select value from ${d.table('ledger_meta')} where key = 'pruned_at') as pruned_at,
      (select count(*) from (select 1 as one from ${d.table('pipeline_runs')}
        where status = 'queued' and completed_at is null and due_at is null limit 1) l) as queued_runs,
      ${runningSources(d)
        .map((source, index) => `(select count(*) from (${source} limit 1) u${index}) as u${index}`)
        .join(', ')},
      ${dueSources(d)
        .map((source, index) => `(${source} limit 1) as d${index}`)
        .join(', ')}`,
  );
  const nowMs = fromTimestamp(text(row, 'now'));
  const due = dueSources(d).flatMap((_, index) => textOrNull(row, `d${index}`) ?? []);
  const [first] = due.toSorted();
  const prunedAt = textOrNull(row, 'pruned_at');
  return {
    isReady: int(row, 'ready') > 0 && textOrNull(row, 'paused') !== '1',
    isRunning: runningSources(d).some((_, index) => int(row, `u${index}`) > 0),
    hasQueuedRuns: int(row, 'queued_runs') > 0,
    nextInMs: first === undefined ? undefined : fromTimestamp(first) - nowMs,
    prunedMs: prunedAt === null ? undefined : nowMs - fromTimestamp(prunedAt),
  };
}

function runningSources(d: Dialect): string[] {
  return [
    `select 1 as one from ${d.table('job_queue')} where status = 'running'`,
    `select 1 as one from ${d.table('run_branches')} where claim_token is not null`,
    `select 1 as one from ${d.table('directives')} where status = 'running'`,
  ];
}

/** Selects due times with exactly the conditions of the partial indexes, so that these are used. */
function dueSources(d: Dialect): string[] {
  return [
    `select next_retry_at from ${d.table('job_queue')}
      where status = 'queued' and next_retry_at is not null order by next_retry_at`,
    `select next_due_at from ${d.table('schedules')}
      where status = 'active' and next_due_at is not null order by next_due_at`,
    `select run_at from ${d.table('directives')}
      where status = 'requested' and awaiting_approval = 0 and run_at is not null order by run_at`,
    `select b.due_at from ${d.table('run_branches')} b
      where b.due_at is not null and (select r.status from ${d.table('pipeline_runs')} r
        where r.id = b.run_id) <> 'queued' order by b.due_at`,
    `select due_at from ${d.table('pipeline_runs')} where due_at is not null order by due_at`,
  ];
}

export async function readUsage(
  session: Session,
  { queued, signals }: UsageLimits,
): Promise<Usage> {
  const { dialect: d } = session;
  const [row = {}] = await session.run(
    `select (select count(*) from (select 1 as one from ${d.table('job_queue')}
        where ${isReady} limit ?) r) + (select count(*) from (select 1 as one
        from ${d.table('job_queue')} where status = 'queued' and next_retry_at is not null
        limit ?) l) as queued,
      (select count(*) from (select 1 as one from ${d.table('signals')}
        where inserted_at > (select ${d.nowPlus(String(-MINUTE_MS))})
          and source <> '${RUNTIME_SOURCE}' limit ?) s) as signals,
      (select ${d.size}) as bytes`,
    [queued, queued, signals],
  );
  return { queued: int(row, 'queued'), signals: int(row, 'signals'), bytes: int(row, 'bytes') };
}

/** Records the time of the last pruning. */
export async function recordPruned(tx: Transaction): Promise<void> {
  const [row = {}] = await tx.run(`select ${tx.dialect.now} as now`);
  await writeMeta(tx, 'pruned_at', text(row, 'now'));
}
