import { isTerminal } from '../../job/state.ts';
import { defineRows, type Row, type Transaction } from '../dialect.ts';
import type { Closing, Enqueued, Verdict } from '../ledger.ts';
import { insertAttempts, settledBefore } from './attempt.ts';
import { enqueue } from './enqueue.ts';
import { text } from './row.ts';
import { applyState, planState } from './state.ts';

export interface Settled {
  readonly verdicts: Map<string, Verdict>;
  readonly enqueued: Enqueued[];
}

/**
 * The one door out. Closes attempts under their fence, and with each that closes writes its log row,
 * state, facts, signals and the jobs that follow: together or not at all.
 */
export async function settle(tx: Transaction, closings: readonly Closing[]): Promise<Settled> {
  const verdicts = new Map<string, Verdict>();
  if (closings.length === 0) return { verdicts, enqueued: [] };
  const plan = await planState(tx, closings);
  for (const id of plan.oversize) verdicts.set(id, 'oversize');
  const tried = closings.filter(({ job }) => !plan.oversize.has(job.id));
  const closedIds = new Set(
    (await tx.each(close, tried.map(toCloseRow))).map((row) => text(row, 'id')),
  );
  const closed = tried.filter(({ job }) => closedIds.has(job.id));
  for (const { job } of closed) verdicts.set(job.id, 'settled');
  await explainRefusals(tx, tried.filter(({ job }) => !closedIds.has(job.id)), verdicts);
  await insertAttempts(tx, closed);
  await recordDedupe(tx, closed);
  await applyState(tx, plan, closed);
  const enqueued = await enqueue(tx, {
    signals: closed.flatMap(({ signals }) => signals),
    jobs: closed.flatMap(({ jobs }) => jobs),
  });
  return { verdicts, enqueued };
}

const close = defineRows({
  columns: {
    id: 'text',
    token: 'text',
    from_status: 'text',
    status: 'text',
    terminal: 'int',
    delay_ms: 'int',
    error: 'text',
    reason: 'text',
    retry_count: 'int',
    crash_count: 'int',
    interrupt_count: 'int',
    suspect: 'int',
  },
  sql: (r, d) => `update ${d.table('job_queue')} set
      status = ${r('status')},
      attempt = job_queue.attempt + case when ${r('status')} = 'queued' then 1 else 0 end,
      completed_at = case when ${r('terminal')} = 1 then ${d.now} end,
      next_retry_at = case when ${r('delay_ms')} > 0 then ${d.nowPlus(r('delay_ms'))} end,
      ready_at = case when ${r('status')} = 'queued' then ${d.nowPlus(r('delay_ms'))}
        else job_queue.ready_at end,
      last_error = ${r('error')}, reason = ${r('reason')}, retry_count = ${r('retry_count')},
      crash_count = ${r('crash_count')}, interrupt_count = ${r('interrupt_count')},
      suspect = ${r('suspect')}, claim_token = null, claimed_by = null, claim_expires_at = null
    ${r.from}
    where job_queue.id = ${r('id')} and job_queue.status = ${r('from_status')}
      and job_queue.claim_token is not distinct from ${r('token')}
      and (job_queue.cancel_requested_at is null or ${r('status')} in ('succeeded', 'cancelled'))
    returning job_queue.id`,
});

function toCloseRow({ job, claimToken, report, ending }: Closing): Row {
  return {
    id: job.id,
    token: claimToken,
    from_status: claimToken === null ? 'queued' : 'running',
    status: ending.status,
    terminal: isTerminal(ending.status) ? 1 : 0,
    delay_ms: ending.delayMs,
    error: report.error,
    reason: ending.reason,
    retry_count: ending.retryCount,
    crash_count: ending.crashCount,
    interrupt_count: ending.interruptCount,
    suspect: ending.suspect ? 1 : 0,
  };
}

/** Not closed: settled by an earlier try whose answer was lost, asked to stop, or no longer ours. */
async function explainRefusals(
  tx: Transaction,
  refused: readonly Closing[],
  verdicts: Map<string, Verdict>,
): Promise<void> {
  if (refused.length === 0) return;
  const settled = await settledBefore(tx, refused);
  const stopping = new Set(
    (await tx.each(selectStopping, refused.map(toCloseRow))).map((row) => text(row, 'id')),
  );
  for (const { job } of refused) {
    const verdict = stopping.has(job.id) ? 'cancelled' : 'fenced';
    verdicts.set(job.id, settled.has(job.id) ? 'settled' : verdict);
  }
}

const selectStopping = defineRows({
  columns: close.columns,
  sql: (r, d) => `select q.id from ${r.lateral(
    `select j.id from ${d.table('job_queue')} j where j.id = ${r('id')} and j.status = 'running'
      and j.claim_token = ${r('token')} and j.cancel_requested_at is not null`,
  )}`,
});

/** A success keeps its key taken for its time; any other final end gives the key back. */
async function recordDedupe(tx: Transaction, closed: readonly Closing[]): Promise<void> {
  const keyed = closed
    .filter(({ job, ending }) => job.dedupeKey !== null && isTerminal(ending.status))
    .sort((a, b) => ((a.job.dedupeKey ?? '') < (b.job.dedupeKey ?? '') ? -1 : 1));
  const succeeded = keyed.filter(({ ending }) => ending.status === 'succeeded');
  const others = keyed.filter(({ ending }) => ending.status !== 'succeeded');
  if (succeeded.length > 0) await tx.each(keepKey, lastOfEachKey(succeeded).map(toKeyRow));
  if (others.length > 0) await tx.each(giveKeyBack, others.map(toKeyRow));
}

function lastOfEachKey(closings: readonly Closing[]): Closing[] {
  const byKey = new Map(
    closings.map((closing) => {
      const { dedupeKey, plugin, command } = closing.job;
      return [JSON.stringify([dedupeKey, plugin, command]), closing];
    }),
  );
  return [...byKey.values()];
}

function toKeyRow({ job }: Closing): Row {
  return {
    dedupe_key: job.dedupeKey,
    plugin: job.plugin,
    command: job.command,
    job_id: job.id,
    ttl_ms: job.dedupeTtlMs ?? 0,
  };
}

const keyColumns = {
  dedupe_key: 'text',
  plugin: 'text',
  command: 'text',
  job_id: 'text',
  ttl_ms: 'int',
} as const;

const keepKey = defineRows({
  columns: keyColumns,
  sql: (r, d) => `insert into ${d.table('job_dedupe')}
    (dedupe_key, plugin, command, job_id, blocks_until)
    select ${r('dedupe_key')}, ${r('plugin')}, ${r('command')}, ${r('job_id')},
      ${d.nowPlus(r('ttl_ms'))} ${r.from}
    where true
    on conflict (dedupe_key, plugin, command) do update
      set job_id = excluded.job_id, blocks_until = excluded.blocks_until`,
});

const giveKeyBack = defineRows({
  columns: keyColumns,
  sql: (r, d) => `delete from ${d.table('job_dedupe')}
    where (dedupe_key, plugin, command, job_id) in (select ${r('dedupe_key')}, ${r('plugin')},
      ${r('command')}, ${r('job_id')} ${r.from})`,
});
