import { DuctileError, messageOf } from '../base/errors.ts';
import { makeToken } from '../base/ids.ts';
import type { Log } from '../base/log.ts';
import type { LedgerContext } from '../engine/context.ts';
import type { Generation } from '../engine/generation.ts';
import type { Closing } from '../ledger/commit.ts';
import { findSuppressedJobs } from './enqueue.service.ts';
import { type Execute, HOST_FULL_DELAY_MS } from './executor.service.ts';
import {
  logAttemptEnd,
  type WrittenSettlement,
  type Settler,
  closeUnstartedClaim,
} from './settle.service.ts';
import { Slots, type SlotPool } from './slots.service.ts';
import type { ClaimablePlugin, ClaimedJob, ClaimRequest } from './types.ts';

const RETRY_MS_MIN = 100;
const RETRY_MS_MAX = 5000;

/** A closing that waits for its commit. */
interface PendingClosing {
  readonly closing: Closing;
  readonly sinceMs: number;
}

/** A claim of this process. Its attempt is running or waits for a slot. */
interface ClaimState {
  readonly job: ClaimedJob;
  readonly generation: Generation;
  readonly abort: AbortController;
  isStarted: boolean;
}

/** The rules for what a dispatcher claims. */
export interface ClaimRules {
  plugins(generation: Generation): readonly ClaimablePlugin[];
  /** Returns whether a claimed job could start now. When that changes, `retryNow` is called. */
  mayStart(): boolean;
}

/**
 * Claims jobs for free slots, executes them, and settles the attempts that ended. It works in rounds.
 * The transaction of a round settles all ended attempts and then claims jobs for the slots that they
 * freed. Attempts that end during a round are settled by the next round.
 */
export class Dispatcher {
  readonly #context: LedgerContext;
  readonly #settler: Settler;
  readonly #rules: ClaimRules;
  readonly #execute: Execute;
  readonly #log: Log;
  readonly #jobLog: Log;
  /** By claim: a job that was lost and claimed again is in it twice until its first attempt ends. */
  readonly #claims = new Map<string, ClaimState>();
  readonly #slots: Slots<ClaimState>;
  #pending: PendingClosing[] = [];
  #isClaiming = false;
  /** The next round claims. */
  #mustClaim = false;
  /** Work was written. The next round claims, unless the last claim already found that work. */
  #hasNewWork = false;
  /** Returns whether the last claim took all ready jobs and no commit followed it. */
  #hasClaimedAll: () => boolean = isUnknown;
  #isActive = false;
  #isAbandoned = false;
  #round: Promise<void> = Promise.resolve();
  #failures = 0;
  /** Ends the delay after a failed write. */
  #endDelay: () => void = () => undefined;
  #trouble: string | undefined;
  /** The tokens of claims that are in progress. */
  #openTokens = new Set<string>();
  #pausedUntil = 0;
  #onIdle: (() => void)[] = [];

  constructor(
    context: LedgerContext,
    settler: Settler,
    pool: SlotPool,
    rules: ClaimRules,
    execute: Execute,
  ) {
    this.#context = context;
    this.#settler = settler;
    this.#rules = rules;
    this.#execute = execute;
    this.#log = context.log.child('dispatcher');
    this.#jobLog = context.log.child('job');
    this.#slots = new Slots({
      pool,
      slotsMax: () => context.quota.workers(),
      run: (claim, waitedMs) => this.#attempt(claim, waitedMs),
      release: (claims) => this.#release(claims),
      onReserved: () => this.#claimSoon(),
    });
  }

  get running(): readonly ClaimedJob[] {
    return [...this.#claims.values()].flatMap(({ job, isStarted }) => (isStarted ? [job] : []));
  }

  /** The reason why the ledger can't be written at the moment. */
  get trouble(): string | undefined {
    return this.#trouble;
  }

  /** Returns whether no claim is held and no closing waits for its commit. */
  get isIdle(): boolean {
    return this.#claims.size === 0 && this.#pending.length === 0 && !this.#isActive;
  }

  startClaiming(): void {
    this.#isClaiming = true;
    this.wake();
  }

  /** Stops claiming. Running attempts continue. Resolves when no claim is in progress. */
  async stopClaiming(): Promise<void> {
    this.#isClaiming = false;
    this.#releaseAllWaiting();
    await this.#round.catch(() => undefined);
  }

  /**
   * Releases the claims of these commands that wait for a slot. Running attempts continue. Resolves
   * when no claim is in progress that started before the call.
   */
  async releaseWaiting(matches: (plugin: string, command: string) => boolean): Promise<void> {
    const release = (): void =>
      this.#release(this.#slots.remove(({ job }) => matches(job.plugin, job.command)));
    release();
    await this.#round.catch(() => undefined);
    release();
  }

  /** Starts claims that wait for a slot, and claims again. */
  wake(): void {
    this.#slots.startWaiting();
    this.#claimSoon();
  }

  /** Reports that work was written. It is claimed, unless the last claim came later and took all. */
  notifyWork(): void {
    this.#slots.startWaiting();
    this.#hasNewWork = true;
    this.#schedule();
  }

  /** Wakes it and ends the delay after a failed write: the ledger has just responded. */
  retryNow(): void {
    this.#endDelay();
    this.wake();
  }

  /** Leaves its slots to other ledgers. Call it when nothing runs any more. */
  leavePool(): void {
    this.#slots.leave();
  }

  /** Claims nothing for a while, because the host is short of processes or memory. */
  pauseFor(ms: number): void {
    this.#pausedUntil = Math.max(this.#pausedUntil, performance.now() + ms);
    this.#releaseAllWaiting();
    setTimeout(() => this.wake(), ms).unref();
  }

  stopJob(jobId: string, reason: 'cancelled' | 'shutdown'): void {
    this.#stop(reason, ({ job }) => job.id === jobId);
  }

  stopAll(reason: 'cancelled' | 'shutdown'): void {
    this.#stop(reason, () => true);
  }

  /** Returns whether this process holds the claim, or may be about to learn that it does. */
  hasClaim(jobId: string, claimToken: string): boolean {
    return this.#claims.has(claimKey(jobId, claimToken)) || this.#openTokens.has(claimToken);
  }

  /** Settles closings in the next round. */
  close(closings: readonly Closing[]): void {
    const sinceMs = performance.now();
    this.#pending.push(...closings.map((closing) => ({ closing, sinceMs })));
    this.#schedule();
  }

  async awaitIdle(): Promise<void> {
    if (this.isIdle) return;
    await new Promise<void>((resolve) => this.#onIdle.push(resolve));
  }

  /** Gives up on a ledger that doesn't respond. A later process recovers the open claims. */
  abandon(): void {
    this.#isAbandoned = true;
  }

  #claimSoon(): void {
    this.#mustClaim = true;
    this.#schedule();
  }

  #schedule(): void {
    if (this.#isActive || this.#isAbandoned) return;
    this.#isActive = true;
    setImmediate(() => void this.#runRounds());
  }

  async #runRounds(): Promise<void> {
    while (!this.#isAbandoned && (this.#pending.length > 0 || this.#shouldClaim)) {
      const [batch, later] = splitByJob(this.#pending);
      this.#pending = later;
      this.#mustClaim = false;
      this.#hasNewWork = false;
      try {
        this.#round = this.#runRound(batch.map(withSettleMs));
        await this.#round;
        this.#failures = 0;
        this.#trouble = undefined;
      } catch (error) {
        this.#pending = [...batch, ...this.#pending];
        await this.#waitForLedger(error);
      }
    }
    this.#isActive = false;
    if (this.#claims.size === 0) for (const resolve of this.#onIdle.splice(0)) resolve();
  }

  get #shouldClaim(): boolean {
    return this.#mustClaim || (this.#hasNewWork && !this.#hasClaimedAll());
  }

  async #runRound(closings: Closing[]): Promise<void> {
    const free = this.#countFree(closings);
    const { generation } = this.#context;
    const request = free > 0 ? this.#toRequest(free, generation) : undefined;
    if (request === undefined) this.#requestSlot();
    if (request === undefined && closings.length === 0) return;
    if (request !== undefined) this.#openTokens.add(request.token);
    let settled: WrittenSettlement;
    const startedAt = performance.now();
    try {
      settled = await this.#settler.settle(closings, request);
    } finally {
      if (request !== undefined) this.#openTokens.delete(request.token);
    }
    for (const { job, claimToken } of closings) this.#claims.delete(claimKey(job.id, claimToken));
    for (const job of settled.claimed) this.#addClaim(job, generation);
    if (!this.#isClaiming) this.#releaseAllWaiting();
    this.#publish(settled, performance.now() - startedAt);
    // The claim found as many jobs as it asked for, so more may be ready.
    const mayBeMore = free > 0 && settled.claimed.length === free;
    this.#hasClaimedAll = (free > 0 && !mayBeMore && settled.isLatest) || isUnknown;
    if (mayBeMore && this.#countFree([]) > 0) this.#mustClaim = true;
    else if (mayBeMore) this.#requestSlot();
    if (!this.#mustClaim) this.#slots.decline();
  }

  #publish({ enqueued, written, runEvents }: WrittenSettlement, settleMs: number): void {
    for (const closing of written) logAttemptEnd(closing, this.#jobLog);
    const delays = written.flatMap(({ ending }) => (ending.delayMs > 0 ? [ending.delayMs] : []));
    const drafts = enqueued.length === 0 ? [] : written.flatMap(({ jobs }) => jobs);
    this.#context.commits.publish({
      ...runEvents,
      enqueued,
      endedJobs: written,
      signals: written.flatMap(({ signals }) => signals),
      jobDueInMs: delays.length === 0 ? undefined : Math.min(...delays),
      suppressed: findSuppressedJobs(drafts, enqueued),
      settleMs,
    });
  }

  /** Requests a slot that another ledger uses, or declines a reserved one if it can't claim. */
  #requestSlot(): void {
    if (this.#mayClaim) this.#slots.request();
    else this.#slots.decline();
  }

  get #mayClaim(): boolean {
    return this.#isClaiming && performance.now() >= this.#pausedUntil && this.#rules.mayStart();
  }

  #toRequest(slots: number, generation: Generation): ClaimRequest {
    const { processId, quota } = this.#context;
    const { snapshotId } = generation;
    const workersMax = quota.workers();
    return {
      processId,
      token: makeToken(),
      slots,
      plugins: this.#rules.plugins(generation),
      snapshotId,
      ...(workersMax === undefined ? {} : { workersMax }),
    };
  }

  /** Counts the jobs that may be claimed after these closings have freed their slots. */
  #countFree(closings: readonly Closing[]): number {
    if (!this.#mayClaim) return 0;
    const ending = closings.filter(({ job, claimToken }) =>
      this.#claims.has(claimKey(job.id, claimToken)),
    );
    return this.#slots.capacity - this.#claims.size + ending.length;
  }

  #addClaim(job: ClaimedJob, generation: Generation): void {
    const claim = { job, generation, abort: new AbortController(), isStarted: false };
    this.#claims.set(claimKey(job.id, job.claimToken), claim);
    this.#slots.add(claim);
  }

  async #attempt(claim: ClaimState, waitedMs: number): Promise<void> {
    claim.isStarted = true;
    const job = { ...claim.job, queueMs: claim.job.queueMs + Math.round(waitedMs) };
    const closing = await this.#execute(job, claim.abort.signal, claim.generation);
    const { cause } = closing.report;
    // The host is full, or its spawner is fenced: the next attempts would end in the same way.
    if (cause === 'host_full' || cause === 'fenced') this.pauseFor(HOST_FULL_DELAY_MS);
    this.close([closing]);
  }

  /** Aborts attempts. A claim that waits for a slot starts without one, and so ends at once. */
  #stop(reason: 'cancelled' | 'shutdown', matches: (claim: ClaimState) => boolean): void {
    for (const claim of this.#claims.values()) if (matches(claim)) claim.abort.abort(reason);
    for (const claim of this.#slots.remove(matches)) void this.#attempt(claim, 0);
  }

  #releaseAllWaiting(): void {
    this.#release(this.#slots.remove(() => true));
  }

  #release(claims: readonly ClaimState[]): void {
    if (claims.length > 0) this.close(claims.map(({ job }) => closeUnstartedClaim(job)));
  }

  /** Waits before the next try after a failed write. Nothing is lost; the delay doubles each time. */
  async #waitForLedger(error: unknown): Promise<void> {
    const known = error instanceof DuctileError;
    this.#trouble = messageOf(error);
    this.#failures += 1;
    const ms = Math.min(RETRY_MS_MIN * 2 ** (this.#failures - 1), RETRY_MS_MAX);
    this.#log.error('the ledger could not be written; retrying', {
      error: messageOf(error),
      ...(known ? { code: error.code } : {}),
      waiting: this.#pending.length,
      retry_in_ms: ms,
    });
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.#endDelay = () => {
        clearTimeout(timer);
        resolve();
      };
    });
    this.#mustClaim = true;
  }
}

/** Takes one closing per job: the ledger returns its verdicts by job. */
function splitByJob(
  pending: readonly PendingClosing[],
): [batch: PendingClosing[], later: PendingClosing[]] {
  const jobs = new Set<string>();
  const batch: PendingClosing[] = [];
  const later: PendingClosing[] = [];
  for (const one of pending) {
    const { id } = one.closing.job;
    (jobs.has(id) ? later : batch).push(one);
    jobs.add(id);
  }
  return [batch, later];
}

function isUnknown(): boolean {
  return false;
}

/** Identifies a claim. Its token alone doesn't: all jobs of one claim request share it. */
function claimKey(jobId: string, claimToken: string | null): string {
  return `${jobId} ${claimToken}`;
}

/** Adds how long the closing has waited for this commit. */
function withSettleMs({ closing, sinceMs }: PendingClosing): Closing {
  const settleMs = Math.round(performance.now() - sinceMs);
  return { ...closing, report: { ...closing.report, settleMs } };
}
