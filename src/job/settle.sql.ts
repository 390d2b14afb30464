import { fromTimestamp, toTimestamp, type Timestamp } from '../base/clock.ts';
import type { Closing, Settlement } from '../ledger/commit.ts';
import {
  defineRows,
  awaitBoth,
  type EndCollector,
  type Row,
  type Transaction,
} from '../ledger/dialect.ts';
import { text, textOrNull } from '../ledger/row.ts';
import { mergeRunEvents, noRunEvents } from '../pipeline/run/changes.ts';
import { advanceAfterJobs, createRuns, recallEvents } from '../pipeline/run/advance.sql.ts';
import type { RunDraft, RunCommitEvents } from '../pipeline/run/types.ts';
import { noBreakerEffects, recordBreakerEnds } from '../schedule/breaker.sql.ts';
import { hasWaitingBranch, isAdminOnly } from '../signal/signal.sql.ts';
import { RUNTIME_SOURCE, type SignalDraft } from '../signal/signal.ts';
import {
  insertAttempts,
  findSettledBefore,
  type ClosedAt,
  fence,
  fenceColumns,
  toFenceRow,
} from './attempt.sql.ts';
import { claimJobs, readCandidates, claimCandidates } from './claim.sql.ts';
import { recordDedupe } from './dedupe.sql.ts';
import { enqueueJobs, findEnqueued } from './enqueue.sql.ts';
import { isTerminal } from './job.ts';
import { applyState, noStatePlan, planState, type StatePlan } from './plugin-state.sql.ts';
import type { ClaimRequest, EnqueueResult, SettleVerdict } from './types.ts';

interface SettleResult {
  readonly verdicts: Map<string, SettleVerdict>;
  readonly enqueued: EnqueueResult[];
  readonly runEvents: RunCommitEvents;
}

/**
 * Closes attempts under their fence. For each attempt that closes, it writes the log row, the state,
 * facts, signals and the jobs and runs that follow, in one transaction. All attempts end here.
 */
export async function settleClosings(
  tx: Transaction,
  closings: readonly Closing[],
): Promise<SettleResult> {
  const hasState = closings.some(({ state }) => state !== undefined);
  const plan = hasState ? await planState(tx, closings) : noStatePlan;
  const tried = closings.filter(({ job }) => !plan.oversize.has(job.id));
  return await writeConsequences(tx, { tried, closedAt: await closeAttempts(tx, tried), plan });
}

/**
 * Settles attempts and then claims jobs. If no attempt has consequences, the claim is sent without
 * waiting for the result of the closing.
 */
export async function settleClosingsAndClaim(
  tx: Transaction,
  closings: readonly Closing[],
  request: ClaimRequest,
): Promise<Settlement> {
  const { isLatest } = tx;
  if (closings.length === 0) {
    return { ...createEmptyResult(), claimed: await claimJobs(tx, request), isLatest };
  }
  if (closings.some(hasConsequences)) {
    const settled = await settleClosings(tx, closings);
    return { ...settled, claimed: await claimJobs(tx, request), isLatest };
  }
  const [closedAt, candidates] = await awaitBoth(
    closeAttempts(tx, closings),
    readCandidates(tx, request),
  );
  const haveAllClosed = closings.every(({ job }) => closedAt.has(job.id));
  const settled = haveAllClosed
    ? writeLogOnly(tx, closings, closedAt)
    : await writeConsequences(tx, { tried: closings, closedAt, plan: noStatePlan });
  return { ...settled, claimed: await claimCandidates(tx, request, candidates), isLatest };
}

function createEmptyResult(): SettleResult {
  return { verdicts: new Map(), enqueued: [], runEvents: noRunEvents };
}

/** Writes the log rows of attempts without consequences. */
function writeLogOnly(
  tx: Transaction,
  closed: readonly Closing[],
  closedAt: ClosedAt,
): SettleResult {
  insertAttempts(tx, closed, closedAt);
  const settled = createEmptyResult();
  for (const { job } of closed) settled.verdicts.set(job.id, 'settled');
  return settled;
}

/**
 * Returns whether more than the attempt's own rows must be written, which takes further locks. The
 * locks of keys and state come before the lock of claims; otherwise two hosts could deadlock.
 */
function hasConsequences(closing: Closing): boolean {
  const { job, state, signals, jobs } = closing;
  const isKeyed = job.dedupeKey !== null || job.scheduleId !== null;
  const isMore = state !== undefined || signals.length > 0 || jobs.length > 0 || isKeyed;
  return isMore || affectsRuns(closing);
}

/** True if the end of the job starts runs or advances a branch. */
function affectsRuns(closing: Closing): boolean {
  return (closing.runs ?? []).length > 0 || endsStep(closing);
}

/** True if a branch waits for the job, and the job ended for good. */
function endsStep({ job, ending }: Closing): boolean {
  return job.branchId !== null && isTerminal(ending.status);
}

/** Closes attempts. Returns the times at which those that matched their fence closed. */
async function closeAttempts(tx: Transaction, closings: readonly Closing[]): Promise<ClosedAt> {
  // A fixed order of locks: a firing with `if_running: cancel` locks jobs by their numbers, too.
  const ordered = closings.toSorted((a, b) => a.job.seq - b.job.seq);
  const rows = await tx.each(closeUnderFence, ordered.map(toCloseRow));
  const byId = new Map(closings.map((closing) => [closing.job.id, closing]));
  if (tx.ends !== undefined) noteEnds(tx.ends, rows, byId);
  return new Map(rows.map((row) => [text(row, 'id'), closedAtOf(row, byId.get(text(row, 'id')))]));
}

/** Computes the time of the close from the row: the database's clock has moved on since. */
function closedAtOf(row: Row, closing: Closing | undefined): Timestamp {
  const until = text(row, 'until');
  const delayMs = row['completed_at'] === null ? (closing?.ending.delayMs ?? 0) : 0;
  return delayMs > 0 ? toTimestamp(fromTimestamp(until) - delayMs) : until;
}

/** Notes the jobs that ended, so that waiting callers are notified after the commit. */
function noteEnds(
  ends: EndCollector,
  rows: readonly Row[],
  byId: ReadonlyMap<string, Closing>,
): void {
  for (const row of rows) {
    if (row['completed_at'] === null) continue;
    const id = text(row, 'id');
    const closing = byId.get(id);
    ends.note(
      { id, awaitedBy: textOrNull(row, 'awaited_by') },
      closing && { status: closing.ending.status, result: closing.report.result },
    );
  }
}

interface CloseResult {
  readonly tried: readonly Closing[];
  readonly closedAt: ClosedAt;
  readonly plan: StatePlan;
}

/** Writes everything that belongs to the attempts that closed, and finds out why others did not. */
async function writeConsequences(
  tx: Transaction,
  { tried, closedAt, plan }: CloseResult,
): Promise<SettleResult> {
  const verdicts = new Map<string, SettleVerdict>();
  for (const id of plan.oversize) verdicts.set(id, 'oversize');
  const closed = tried.filter(({ job }) => closedAt.has(job.id));
  for (const { job } of closed) verdicts.set(job.id, 'settled');
  const refused = tried.filter(({ job }) => !closedAt.has(job.id));
  const repeated = await explainRefusals(tx, refused, verdicts);
  for (const { job } of repeated) tx.ends?.note(job);
  insertAttempts(tx, closed, closedAt);
  const keyed = closed.filter(({ job }) => job.dedupeKey !== null);
  if (keyed.length > 0) await recordDedupe(tx, keyed);
  const signals = await hideReports(tx, closed);
  const enqueued = await enqueueJobs(tx, {
    signals,
    jobs: closed.flatMap(({ jobs }) => jobs),
  });
  const scheduled = closed.filter(({ job }) => job.scheduleId !== null);
  const breakers =
    scheduled.length === 0 ? noBreakerEffects : await recordBreakerEnds(tx, scheduled);
  const emitted = [...signals, ...breakers.signals];
  const advancing = emitted.length > 0 && (await hasWaitingBranch(tx, emitted));
  // After the dedupe keys, because the facts of all plugins share one counter. A transaction that
  // waits for a dedupe key must not hold it.
  if (plan.after.size > 0) await applyState(tx, plan, closed);
  const enqueuedBefore = await findEnqueued(
    tx,
    repeated.flatMap(({ jobs }) => jobs),
  );
  const runs = [...closed.flatMap((closing) => closing.runs ?? []), ...breakers.runs];
  const moved = await moveRuns(tx, { closed, repeated, runs });
  const runEvents = { ...moved, advancing: moved.advancing || advancing };
  return { verdicts, enqueued: [...enqueued, ...breakers.enqueued, ...enqueuedBefore], runEvents };
}

/**
 * Returns the signals of the closings. Reports on a job quote its errors, so they are visible to
 * administrators only if the job's cause is.
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

interface RunMoves {
  readonly closed: readonly Closing[];
  readonly repeated: readonly Closing[];
  readonly runs: readonly RunDraft[];
}

/** Starts runs, advances runs, and reads the events of closings that were settled before. */
async function moveRuns(
  tx: Transaction,
  { closed, repeated, runs }: RunMoves,
): Promise<RunCommitEvents> {
  const events: RunCommitEvents[] = [];
  if (runs.length > 0) events.push((await createRuns(tx, runs)).events);
  const moving = closed.filter(endsStep);
  if (moving.length > 0) events.push(await advanceAfterJobs(tx, moving));
  const recalled = repeated.filter(affectsRuns).flatMap(({ job, runs: started = [] }) => {
    return [job.runId ?? [], started.map(({ id }) => id)].flat();
  });
  if (recalled.length > 0) events.push(await recallEvents(tx, recalled));
  return events.length === 0 ? noRunEvents : mergeRunEvents(events);
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
 * Finds out why attempts did not close. Either an earlier try, whose response was lost, settled them
 * in the same way, or their cancellation was requested, or the claim was lost. Returns those that were
 * settled before.
 */
async function explainRefusals(
  tx: Transaction,
  refused: readonly Closing[],
  verdicts: Map<string, SettleVerdict>,
): Promise<Closing[]> {
  if (refused.length === 0) return [];
  const settled = await findSettledBefore(tx, refused);
  const cancelling = new Set(
    (await tx.each(selectCancelRequested, refused.map(toFenceRow))).map((row) => text(row, 'id')),
  );
  for (const { job } of refused) {
    const verdict = cancelling.has(job.id) ? 'cancelled' : 'fenced';
    verdicts.set(job.id, settled.has(job.id) ? 'settled' : verdict);
  }
  return refused.filter(({ job }) => settled.has(job.id));
}

const selectCancelRequested = defineRows({
  columns: fenceColumns,
  key: 'seq',
  sql: (r, d) =>
    `select q.id from ${r.lateral(
      `select j.id from ${d.table('job_queue')} j where j.seq ${r.isKey()} and j.status = 'running'
      and j.claim_token = ${r('token')} and j.attempt = ${r('attempt')}
      and j.cancel_requested_at is not null`,
    )}`,
});
