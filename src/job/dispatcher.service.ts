import type { LedgerContext } from '../engine/context.ts';
import { type Execute, HOST_FULL_DELAY_MS } from './executor.service.ts';
import { findSuppressedJobs } from './enqueue.service.ts';
import {
  logAttemptEnd,
  type WrittenSettlement,
  type Settler,
  releaseUnstarted,
} from './settle.service.ts';
import { DuctileError, messageOf } from '../base/errors.ts';
import { makeToken } from '../base/ids.ts';
import type { Log } from '../base/log.ts';
import type { ClaimablePlugin, ClaimedJob, ClaimRequest } from './types.ts';
import type { Closing } from '../ledger/commit.ts';
import type { Generation } from '../engine/generation.ts';
import { Slots, type SlotPool } from './slots.service.ts';

const RETRY_MS_MIN = 100;
const RETRY_MS_MAX = 5000;

/** An end that waits to be settled, and since when. */
interface Ended {
  readonly closing: Closing;
  readonly sinceMs: number;
}

/** A claim of this process: its attempt is under way, or waits for a slot. */
interface Held {
  readonly job: ClaimedJob;
  readonly generation: Generation;
  readonly abort: AbortController;
  started: boolean;
}

/** The rules for what a dispatcher claims. */
export interface ClaimRules {
  plugins(generation: Generation): readonly ClaimablePlugin[];
  /** Returns whether a claimed job could start now. `wakeSurely` is called when it can again. */
  mayStart(): boolean;
}

/**
 * Free slots become claims, claims become attempts, ended attempts are settled. Everything that
 * waits at one moment goes through one transaction: the ends first, then claims for the slots that
 * they freed. While it is under way, the next batch gathers.
 */
export class Dispatcher {
  readonly #context: LedgerContext;
  readonly #settler: Settler;
  readonly #rules: ClaimRules;
  readonly #execute: Execute;
  readonly #log: Log;
  readonly #jobLog: Log;
  /** By claim: a job that was lost and claimed again is here twice until its first attempt has ended. */
  readonly #held = new Map<string, Held>();
  readonly #slots: Slots<Held>;
  #ended: Ended[] = [];
  #claiming = false;
  #wanted = false;
  #hasArrived = false;
  /** Returns whether the last claim left nothing, and nothing was written since. */
  #hasSeenAll: () => boolean = unknown;
  #turning = false;
  #abandoned = false;
  #exchanging: Promise<void> = Promise.resolve();
  #failures = 0;
  /** Ends the wait for a ledger that could not be written. */
  #retry: () => void = () => undefined;
  #trouble: string | undefined;
  #pendingTokens = new Set<string>();
  #pausedUntil = 0;
  #idle: (() => void)[] = [];

  constructor(
    context: LedgerContext,
    settler: Settler,
    turns: SlotPool,
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
      turns,
      most: () => context.quota.workers(),
      run: (held, waitedMs) => this.#attempt(held, waitedMs),
      giveBack: (held) => this.#giveBack(held),
      onSpare: () => this.#lookAgain(),
    });
  }

  get running(): readonly ClaimedJob[] {
    return [...this.#held.values()].flatMap(({ job, started }) => (started ? [job] : []));
  }

  /** Why the ledger cannot be written at the moment. */
  get trouble(): string | undefined {
    return this.#trouble;
  }

  /** Lets claims begin, or go on. */
  open(): void {
    this.#claiming = true;
    this.wake();
  }

  /** Claims nothing more; what runs goes on. Resolves when no claim is under way either. */
  async shut(): Promise<void> {
    this.#claiming = false;
    this.#giveWaitingBack();
    await this.#exchanging.catch(() => undefined);
  }

  /**
   * These may not be claimed any more: what waits for a slot is given back, what runs goes on.
   * Resolves when no claim is under way that was asked for before.
   */
  async withhold(isMeant: (plugin: string, command: string) => boolean): Promise<void> {
    const giveBack = (): void => {
      this.#giveBack(this.#slots.withdraw(({ job }) => isMeant(job.plugin, job.command)));
    };
    giveBack();
    await this.#exchanging.catch(() => undefined);
    giveBack();
  }

  /** There may be something to do, or more room to do it. */
  wake(): void {
    this.#slots.fill();
    this.#lookAgain();
  }

  /** Work was written: looked for, unless the last look came after it and found all. */
  arrived(): void {
    this.#slots.fill();
    this.#hasArrived = true;
    this.#schedule();
  }

  /** `wake`, from somebody whom the ledger has just answered: it need not be waited for any longer. */
  wakeSurely(): void {
    this.#retry();
    this.wake();
  }

  /** No claim is held and no end waits to be written. */
  get isIdle(): boolean {
    return this.#held.size === 0 && this.#ended.length === 0 && !this.#turning;
  }

  /** Leaves its places to others; nothing runs any more. */
  leave(): void {
    this.#slots.leave();
  }

  /** The host is short of processes or memory: claims wait, and nobody is charged. */
  rest(ms: number): void {
    this.#pausedUntil = Math.max(this.#pausedUntil, performance.now() + ms);
    this.#giveWaitingBack();
    setTimeout(() => this.wake(), ms).unref();
  }

  stopJob(jobId: string, reason: 'cancelled' | 'shutdown'): void {
    this.#stop(reason, ({ job }) => job.id === jobId);
  }

  stopAll(reason: 'cancelled' | 'shutdown'): void {
    this.#stop(reason, () => true);
  }

  /** Returns whether this process holds the claim, or may be about to learn that it does. */
  holds(jobId: string, claimToken: string): boolean {
    return this.#held.has(claimKey(jobId, claimToken)) || this.#pendingTokens.has(claimToken);
  }

  /** Closes claims that nobody here holds, through the same door as every other end. */
  close(closings: readonly Closing[]): void {
    const sinceMs = performance.now();
    this.#ended.push(...closings.map((closing) => ({ closing, sinceMs })));
    this.#schedule();
  }

  /** Resolves when nothing runs and nothing waits to be settled. */
  async drained(): Promise<void> {
    if (this.isIdle) return;
    await new Promise<void>((resolve) => this.#idle.push(resolve));
  }

  /** Gives up on a ledger that does not answer; whoever comes next recovers what waited for it. */
  abandon(): void {
    this.#abandoned = true;
  }

  #lookAgain(): void {
    this.#wanted = true;
    this.#schedule();
  }

  #schedule(): void {
    if (this.#turning || this.#abandoned) return;
    this.#turning = true;
    setImmediate(() => void this.#turn());
  }

  async #turn(): Promise<void> {
    while (!this.#abandoned && (this.#ended.length > 0 || this.#mustLook)) {
      const [ended, later] = splitByJob(this.#ended);
      this.#ended = later;
      this.#wanted = false;
      this.#hasArrived = false;
      try {
        this.#exchanging = this.#exchange(ended.map(stampSettle));
        await this.#exchanging;
        this.#failures = 0;
        this.#trouble = undefined;
      } catch (error) {
        this.#ended = [...ended, ...this.#ended];
        await this.#endure(error);
      }
    }
    this.#turning = false;
    if (this.#held.size === 0) for (const resolve of this.#idle.splice(0)) resolve();
  }

  get #mustLook(): boolean {
    return this.#wanted || (this.#hasArrived && !this.#hasSeenAll());
  }

  async #exchange(closings: Closing[]): Promise<void> {
    const free = this.#freeSlots(closings);
    const { generation } = this.#context;
    const claim = free > 0 ? this.#toClaim(free, generation) : undefined;
    if (claim === undefined) this.#waitForTurn();
    if (claim === undefined && closings.length === 0) return;
    if (claim !== undefined) this.#pendingTokens.add(claim.token);
    let settled: WrittenSettlement;
    const began = performance.now();
    try {
      settled = await this.#settler.settle(closings, claim);
    } finally {
      if (claim !== undefined) this.#pendingTokens.delete(claim.token);
    }
    for (const { job, claimToken } of closings) this.#held.delete(claimKey(job.id, claimToken));
    for (const job of settled.claimed) this.#begin(job, generation);
    if (!this.#claiming) this.#giveWaitingBack();
    this.#publish(settled, performance.now() - began);
    // A full answer may mean that more is ready than was asked for.
    const mayBeMore = free > 0 && settled.claimed.length === free;
    this.#hasSeenAll = (free > 0 && !mayBeMore && settled.isLatest) || unknown;
    if (mayBeMore && this.#freeSlots([]) > 0) this.#wanted = true;
    else if (mayBeMore) this.#waitForTurn();
    if (!this.#wanted) this.#slots.pass();
  }

  #publish({ enqueued, written, news }: WrittenSettlement, settleMs: number): void {
    for (const closing of written) logAttemptEnd(closing, this.#jobLog);
    const delays = written.flatMap(({ ending }) => (ending.delayMs > 0 ? [ending.delayMs] : []));
    const drafts = enqueued.length === 0 ? [] : written.flatMap(({ jobs }) => jobs);
    this.#context.commits.publish({
      ...news,
      enqueued,
      endedJobs: written,
      signals: written.flatMap(({ signals }) => signals),
      jobDueInMs: delays.length === 0 ? undefined : Math.min(...delays),
      suppressed: findSuppressedJobs(drafts, enqueued),
      settleMs,
    });
  }

  #waitForTurn(): void {
    if (this.#mayClaim) this.#slots.want();
    else this.#slots.pass();
  }

  get #mayClaim(): boolean {
    return this.#claiming && performance.now() >= this.#pausedUntil && this.#rules.mayStart();
  }

  #toClaim(slots: number, generation: Generation): ClaimRequest {
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

  #freeSlots(closings: readonly Closing[]): number {
    if (!this.#mayClaim) return 0;
    const ending = closings.filter(({ job, claimToken }) =>
      this.#held.has(claimKey(job.id, claimToken)),
    );
    return this.#slots.capacity - this.#held.size + ending.length;
  }

  #begin(job: ClaimedJob, generation: Generation): void {
    const held = { job, generation, abort: new AbortController(), started: false };
    this.#held.set(claimKey(job.id, job.claimToken), held);
    this.#slots.enter(held);
  }

  async #attempt(held: Held, waitedMs: number): Promise<void> {
    held.started = true;
    const job = { ...held.job, queueMs: held.job.queueMs + Math.round(waitedMs) };
    const closing = await this.#execute(job, held.abort.signal, held.generation);
    const { cause } = closing.report;
    // The host is full, or its spawner is fenced: the next attempts would end in the same way.
    if (cause === 'host_full' || cause === 'fenced') this.rest(HOST_FULL_DELAY_MS);
    this.close([closing]);
  }

  /** A claim that waits for a slot is stopped without one. */
  #stop(reason: 'cancelled' | 'shutdown', isMeant: (held: Held) => boolean): void {
    for (const held of this.#held.values()) if (isMeant(held)) held.abort.abort(reason);
    for (const held of this.#slots.withdraw(isMeant)) void this.#attempt(held, 0);
  }

  #giveWaitingBack(): void {
    this.#giveBack(this.#slots.withdraw(() => true));
  }

  #giveBack(held: readonly Held[]): void {
    if (held.length > 0) this.close(held.map(({ job }) => releaseUnstarted(job)));
  }

  /** The ledger cannot be written: nothing is lost, everything waits, more and more patiently. */
  async #endure(error: unknown): Promise<void> {
    const known = error instanceof DuctileError;
    this.#trouble = messageOf(error);
    this.#failures += 1;
    const ms = Math.min(RETRY_MS_MIN * 2 ** (this.#failures - 1), RETRY_MS_MAX);
    this.#log.error('the ledger did not take a write; trying again', {
      error: messageOf(error),
      ...(known ? { code: error.code } : {}),
      waiting: this.#ended.length,
      retry_in_ms: ms,
    });
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.#retry = () => {
        clearTimeout(timer);
        resolve();
      };
    });
    this.#wanted = true;
  }
}

/** The ledger's verdicts are by job, so of one job only one end at a time can be settled. */
function splitByJob(ended: readonly Ended[]): [now: Ended[], later: Ended[]] {
  const jobs = new Set<string>();
  const now: Ended[] = [];
  const later: Ended[] = [];
  for (const end of ended) {
    const { id } = end.closing.job;
    (jobs.has(id) ? later : now).push(end);
    jobs.add(id);
  }
  return [now, later];
}

function unknown(): boolean {
  return false;
}

/** A token is of a whole batch of claims. */
function claimKey(jobId: string, claimToken: string | null): string {
  return `${jobId} ${claimToken}`;
}

/** How long the end has waited for this commit is the last part of the attempt's story. */
function stampSettle({ closing, sinceMs }: Ended): Closing {
  const settleMs = Math.round(performance.now() - sinceMs);
  return { ...closing, report: { ...closing.report, settleMs } };
}
