import { fromTimestamp, toTimestamp, type Timestamp } from '../base/clock.ts';
import { isTerminal } from './job.ts';
import { RUNTIME_SOURCE, type SignalDraft } from '../signal/signal.ts';
import {
  defineRows,
  together,
  type NotedEnds,
  type Row,
  type Transaction,
} from '../ledger/dialect.ts';
import type { ClaimRequest, EnqueueResult, SettleVerdict } from './types.ts';
import type { Closing, Settlement } from '../ledger/commit.ts';
import { joinNews, noNews, type RunDraft, type RunNews } from '../pipeline/run/types.ts';
import {
  insertAttempts,
  findSettledBefore,
  type ClosedAt,
  fence,
  fenceColumns,
  toFenceRow,
} from './attempt.sql.ts';
import { recordBreakerEnds } from '../schedule/breaker.sql.ts';
import { arrive, movesRun } from '../pipeline/run/after-job.sql.ts';
import { claimJobs, readCandidates, claimCandidates } from './claim.sql.ts';
import { recordDedupe } from './dedupe.sql.ts';
import { enqueueJobs, findEnqueued } from './enqueue.sql.ts';
import { text, textOrNull } from '../ledger/row.ts';
import { beginRuns, recallNews } from '../pipeline/run/start.sql.ts';
import { hasWaitingBranch, isAdminOnly } from '../signal/signal.sql.ts';
import { applyState, noStatePlan, planState, type StatePlan } from './plugin-state.sql.ts';

export interface SettleResult {
  readonly verdicts: Map<string, SettleVerdict>;
  readonly enqueued: EnqueueResult[];
  readonly news: RunNews;
}

/**
 * Closes attempts under their fence. With each attempt that closes, it writes its log row, state,
 * facts, signals and the jobs that follow, in one transaction. All attempts end here.
 */
export async function settleClosings(
  tx: Transaction,
  closings: readonly Closing[],
): Promise<SettleResult> {
  const plan = await planState(tx, closings);
  const tried = closings.filter(({ job }) => !plan.oversize.has(job.id));
  return await follow(tx, { tried, closedAt: await close(tx, tried), plan });
}

/**
 * Settles and claims. If the ends have no consequences, the claim doesn't wait for their result.
 */
export async function exchangeClaims(
  tx: Transaction,
  closings: readonly Closing[],
  request: ClaimRequest,
): Promise<Settlement> {
  const { isLatest } = tx;
  if (closings.length === 0) {
    return { ...settleNothing(), claimed: await claimJobs(tx, request), isLatest };
  }
  if (closings.some(hasConsequences)) {
    const settled = await settleClosings(tx, closings);
    return { ...settled, claimed: await claimJobs(tx, request), isLatest };
  }
  const [closedAt, view] = await together(close(tx, closings), readCandidates(tx, request));
  const haveClosed = closings.every(({ job }) => closedAt.has(job.id));
  const settled = haveClosed
    ? logOnly(tx, closings, closedAt)
    : await follow(tx, { tried: closings, closedAt, plan: noStatePlan });
  return { ...settled, claimed: await claimCandidates(tx, request, view), isLatest };
}

function settleNothing(): SettleResult {
  return { verdicts: new Map(), enqueued: [], news: noNews };
}

/** Writes the log rows of ends without consequences. */
function logOnly(tx: Transaction, closed: readonly Closing[], closedAt: ClosedAt): SettleResult {
  insertAttempts(tx, closed, closedAt);
  const settled = settleNothing();
  for (const { job } of closed) settled.verdicts.set(job.id, 'settled');
  return settled;
}

/**
 * Returns whether more than the attempt's own rows must be written. That takes further locks. The
 * locks of keys and state must be taken before the lock of claims, or two hosts could deadlock.
 */
function hasConsequences(closing: Closing): boolean {
  const { job, state, signals, jobs } = closing;
  const isKeyed = job.dedupeKey !== null || job.scheduleId !== null;
  const isMore = state !== undefined || signals.length > 0 || jobs.length > 0 || isKeyed;
  return isMore || movesRun(closing);
}

/** Closes attempts. Returns when each closed. */
async function close(tx: Transaction, closings: readonly Closing[]): Promise<ClosedAt> {
  // A fixed order of locks: a firing with `if_running: cancel` locks jobs by their numbers, too.
  const ordered = closings.toSorted((a, b) => a.job.seq - b.job.seq);
  const rows = await tx.each(closeUnderFence, ordered.map(toCloseRow));
  const byId = new Map(closings.map((closing) => [closing.job.id, closing]));
  if (tx.ends !== undefined) noteEnds(tx.ends, rows, byId);
  return new Map(rows.map((row) => [text(row, 'id'), closedAtOf(row, byId.get(text(row, 'id')))]));
}

/** Uses the time in the row: the clock has moved on since. */
function closedAtOf(row: Row, closing: Closing | undefined): Timestamp {
  const until = text(row, 'until');
  const delayMs = row['completed_at'] === null ? (closing?.ending.delayMs ?? 0) : 0;
  return delayMs > 0 ? toTimestamp(fromTimestamp(until) - delayMs) : until;
}

function noteEnds(ends: NotedEnds, rows: readonly Row[], byId: ReadonlyMap<string, Closing>): void {
  for (const row of rows) {
    if (row['completed_at'] === null) continue;
    const id = text(row, 'id');
    const how = byId.get(id);
    ends.note(
      { id, awaitedBy: textOrNull(row, 'awaited_by') },
      how && { status: how.ending.status, result: how.report.result },
    );
  }
}

interface Closed {
  readonly tried: readonly Closing[];
  readonly closedAt: ClosedAt;
  readonly plan: StatePlan;
}

/**
 * Hides reports on a job from everybody but administrators if its cause is hidden: reports quote
 * errors.
 */
async function hideReports(tx: Transaction, closed: readonly Closing[]): Promise<SignalDraft[]> {
  const all: SignalDraft[] = [];
  for (const { job, signals } of closed) {
    const isReported = signals.some(({ source }) => source === RUNTIME_SOURCE);
    const isHidden = isReported && (await isAdminOnly(tx, job));
    for (const signal of signals) {
      const isReport = isHidden && signal.source === RUNTIME_SOURCE;
      all.push(isReport ? { ...signal, visibility: 'admin_only' } : signal);
    }
  }
  return all;
}

/** Writes what belongs to the closings that closed, and finds out why others did not. */
async function follow(tx: Transaction, { tried, closedAt, plan }: Closed): Promise<SettleResult> {
  const verdicts = new Map<string, SettleVerdict>();
  for (const id of plan.oversize) verdicts.set(id, 'oversize');
  const closed = tried.filter(({ job }) => closedAt.has(job.id));
  for (const { job } of closed) verdicts.set(job.id, 'settled');
  const refused = tried.filter(({ job }) => !closedAt.has(job.id));
  const told = await explainRefusals(tx, refused, verdicts);
  for (const { job } of told) tx.ends?.note(job);
  insertAttempts(tx, closed, closedAt);
  await recordDedupe(tx, closed);
  const signals = await hideReports(tx, closed);
  const enqueued = await enqueueJobs(tx, {
    signals,
    jobs: closed.flatMap(({ jobs }) => jobs),
  });
  const moves = await recordBreakerEnds(tx, closed);
  const advancing = await hasWaitingBranch(tx, [...signals, ...moves.signals]);
  // Last, because the facts of all plugins share one counter. A transaction that waits for a dedupe
  // key must not hold it.
  await applyState(tx, plan, closed);
  const before = await findEnqueued(
    tx,
    told.flatMap(({ jobs }) => jobs),
  );
  const runs = [...closed.flatMap((closing) => closing.runs ?? []), ...moves.runs];
  const moved = await moveRuns(tx, { closed, told, runs });
  const news = { ...moved, advancing: moved.advancing || advancing };
  return { verdicts, enqueued: [...enqueued, ...moves.enqueued, ...before], news };
}

/** Starts runs, advances runs, and reads the news of closings that were settled before. */
async function moveRuns(
  tx: Transaction,
  {
    closed,
    told,
    runs,
  }: {
    readonly closed: readonly Closing[];
    readonly told: readonly Closing[];
    readonly runs: readonly RunDraft[];
  },
): Promise<RunNews> {
  const { news: begun } = await beginRuns(tx, runs);
  return joinNews([begun, await arrive(tx, closed), await recallMoves(tx, told)]);
}

/** Reads what earlier settled closings led to. */
async function recallMoves(tx: Transaction, told: readonly Closing[]): Promise<RunNews> {
  const moving = told.filter(movesRun);
  if (moving.length === 0) return noNews;
  return await recallNews(
    tx,
    moving.flatMap(({ job, runs = [] }) => [job.runId ?? [], runs.map(({ id }) => id)].flat()),
  );
}

const closeUnderFence = defineRows({
  columns: {
    ...fenceColumns,
    terminal: 'int',
    delay_ms: 'int',
    error: 'text',
    reason: 'text',
    retry_count: 'int',
    crash_count: 'int',
    interrupt_count: 'int',
    suspect: 'int',
  },
  key: 'seq',
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
    where ${fence(r, 'job_queue')}
    returning job_queue.id, job_queue.completed_at, job_queue.awaited_by,
      coalesce(job_queue.completed_at, job_queue.next_retry_at, job_queue.ready_at) as until`,
});

function toCloseRow(closing: Closing): Row {
  const { report, ending } = closing;
  return {
    ...toFenceRow(closing),
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

/**
 * Finds out why closings did not close: settled equally by a try whose response was lost, asked to
 * stop, or lost the claim. Returns those that were settled before.
 */
async function explainRefusals(
  tx: Transaction,
  refused: readonly Closing[],
  verdicts: Map<string, SettleVerdict>,
): Promise<Closing[]> {
  if (refused.length === 0) return [];
  const settled = await findSettledBefore(tx, refused);
  const stopping = new Set(
    (await tx.each(selectStopping, refused.map(toFenceRow))).map((row) => text(row, 'id')),
  );
  for (const { job } of refused) {
    const verdict = stopping.has(job.id) ? 'cancelled' : 'fenced';
    verdicts.set(job.id, settled.has(job.id) ? 'settled' : verdict);
  }
  return refused.filter(({ job }) => settled.has(job.id));
}

const selectStopping = defineRows({
  columns: fenceColumns,
  key: 'seq',
  sql: (r, d) =>
    `select q.id from ${r.lateral(
      `select j.id from ${d.table('job_queue')} j where j.seq ${r.isKey()} and j.status = 'running'
      and j.claim_token = ${r('token')} and j.attempt = ${r('attempt')}
      and j.cancel_requested_at is not null`,
    )}`,
});
