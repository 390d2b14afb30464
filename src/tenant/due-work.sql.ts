import { fromTimestamp } from '../base/clock.ts';
import { RUNTIME_SOURCE } from '../signal/signal.ts';
import type { Dialect, Session, Transaction } from '../ledger/dialect.ts';
import type { Outlook, Usage, UsageLimits } from './outlook.ts';
import { writeMeta } from '../ledger/meta.ts';
import { int, text, textOrNull } from '../ledger/row.ts';
import { isReady, withWaiting } from '../job/queue.sql.ts';

const MINUTE_MS = 60_000;

/** All by the heads of indexes: it costs the same whatever there is. */
export async function readOutlook(session: Session): Promise<Outlook> {
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
        where status = 'queued' and completed_at is null and due_at is null limit 1) l) as in_line,
      ${underWay(d)
        .map((source, index) => `(select count(*) from (${source} limit 1) u${index}) as u${index}`)
        .join(', ')},
      ${dues(d)
        .map((source, index) => `(${source} limit 1) as d${index}`)
        .join(', ')}`,
  );
  const nowMs = fromTimestamp(text(row, 'now'));
  const due = dues(d).flatMap((_, index) => textOrNull(row, `d${index}`) ?? []);
  const [first] = due.toSorted();
  const prunedAt = textOrNull(row, 'pruned_at');
  return {
    isReady: int(row, 'ready') > 0 && textOrNull(row, 'paused') !== '1',
    isRunning: underWay(d).some((_, index) => int(row, `u${index}`) > 0),
    isInLine: int(row, 'in_line') > 0,
    nextInMs: first === undefined ? undefined : fromTimestamp(first) - nowMs,
    prunedMs: prunedAt === null ? undefined : nowMs - fromTimestamp(prunedAt),
  };
}

function underWay(d: Dialect): string[] {
  return [
    `select 1 as one from ${d.table('job_queue')} where status = 'running'`,
    `select 1 as one from ${d.table('run_branches')} where claim_token is not null`,
    `select 1 as one from ${d.table('directives')} where status = 'running'`,
  ];
}

/** The words of the indexes, so that they are used. */
function dues(d: Dialect): string[] {
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

export async function notePruned(tx: Transaction): Promise<void> {
  const [row = {}] = await tx.run(`select ${tx.dialect.now} as now`);
  await writeMeta(tx, 'pruned_at', text(row, 'now'));
}
