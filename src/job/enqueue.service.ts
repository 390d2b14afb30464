import { makeBatcher } from '../base/batch.ts';
import { fromTimestamp } from '../base/clock.ts';
import { makeId } from '../base/ids.ts';
import { compact, type JsonObject, toStoredJson } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import type { SuppressedWork } from '../engine/commit-events.ts';
import type { LedgerContext } from '../engine/context.ts';
import type { LedgerSubset } from '../ledger/ledger.ts';
import {
  requireCommand,
  requireLoadedPlugin,
  type Catalog,
  type Plugin,
} from '../plugin/catalog.ts';
import { checkPayload } from '../plugin/payload.ts';
import {
  type Dedupe,
  type JobDraft,
  type SubmittedBy,
  lineageOf,
  JOB_ACTOR,
  type JobCause,
} from './job.ts';
import type { ContextDraft, EnqueueResult } from './types.ts';

export interface JobSubmission {
  /** Set by a caller that may repeat the request. A new id otherwise. */
  readonly id?: string | undefined;
  readonly plugin: string;
  readonly command: string;
  readonly payload: JsonObject;
  readonly submittedBy: SubmittedBy;
  readonly actor: string;
  readonly context?: JsonObject;
  readonly dedupeKey?: string;
  /** How long its success blocks others with the same key (default: `service.dedupe_ttl`). */
  readonly dedupeTtlMs?: number;
  /**
   * Blocks if a job with the same key is queued or running, too (default: true with a
   * `dedupeTtlMs`).
   */
  readonly blockInFlight?: boolean;
  /** At most one job with the same key runs at a time. */
  readonly dependencyKey?: string;
  readonly due?: NonNullable<JobDraft['due']>;
  /** The submitter waits for the end of the job. */
  readonly isAwaited?: boolean;
  /** The running job that submits it. */
  readonly cause?: JobCause;
}

/** Checks and commits the jobs that callers submit. */
export interface Enqueuer {
  /** Resolves after the commit. */
  submit(submission: JobSubmission): Promise<EnqueueResult>;
}

/** The draft of a submitted job, with its initial baggage. */
export interface SubmissionDraft {
  readonly job: JobDraft;
  readonly context: ContextDraft | undefined;
}

export function makeEnqueuer(context: LedgerContext): Enqueuer {
  const { ledger, quota, commits } = context;
  const enqueue = makeBatcher<SubmissionDraft, EnqueueResult>(async (batch) => {
    const jobs = batch.map(({ job }) => job);
    announceWork(context, jobs);
    const enqueued = await ledger.jobs.enqueue({
      jobs,
      contexts: batch.flatMap(({ context: baggage }) => baggage ?? []),
      queueLimit: quota.queueLimit(),
    });
    const suppressed = findSuppressedJobs(jobs, enqueued);
    commits.publish({ enqueued, jobDueInMs: findFirstDue(jobs), suppressed });
    return enqueued;
  });
  return {
    async submit(submission) {
      const { catalog, config } = context;
      return await enqueue(await draftJob(submission, catalog, config.service.dedupeTtlMs));
    },
  };
}

/**
 * Wakes the dispatcher before work is written. On SQLite, concurrent writes share a commit, so the
 * dispatcher claims the work in the same commit. On PostgreSQL the claim would come too early.
 */
export function announceWork(
  { ledger, commits }: Pick<LedgerContext, 'ledger' | 'commits'>,
  work: readonly unknown[],
): void {
  if (ledger.kind === 'sqlite' && work.length > 0) commits.publish({ arriving: true });
}

/** Lists the jobs that were dropped because another job has their dedupe key. */
export function findSuppressedJobs(
  drafts: readonly JobDraft[],
  enqueued: readonly EnqueueResult[],
): SuppressedWork[] {
  if (enqueued.every(({ duplicateOf }) => duplicateOf === undefined)) return [];
  const byId = new Map(drafts.map((draft) => [draft.id, draft]));
  return enqueued.flatMap(({ jobId, duplicateOf }): SuppressedWork[] => {
    const draft = byId.get(jobId);
    if (duplicateOf === undefined || draft?.dedupe === undefined) return [];
    const { plugin, command, payload, dedupe } = draft;
    const target = `${plugin}/${command}`;
    return [{ target, dedupeKey: dedupe.key, payload, holderKind: 'job', holderId: duplicateOf }];
  });
}

/** Returns the milliseconds until the first delayed job is due. Undefined if none is delayed. */
export function findFirstDue(jobs: readonly Pick<JobDraft, 'due'>[]): number | undefined {
  const times = jobs.flatMap(({ due }) => (due === undefined ? [] : [untilDue(due)]));
  return times.length === 0 ? undefined : Math.min(...times);
}

/**
 * Drafts a job. Throws if there is no such plugin or command, or if the payload doesn't match the
 * command's schema. `stored` is the payload as the ledger stores it, if the caller has it. With
 * `mayWait`, a job of a plugin that could not be loaded is accepted and waits: a delivery must not be
 * lost.
 */
export async function draftJob(
  submission: JobSubmission,
  catalog: Catalog,
  dedupeTtlMs: number,
  { stored, mayWait = false }: { readonly stored?: string; readonly mayWait?: boolean } = {},
): Promise<SubmissionDraft> {
  const isUnloaded = mayWait && catalog.unloaded.has(submission.plugin);
  const plugin = isUnloaded ? undefined : requireLoadedPlugin(catalog, submission.plugin);
  if (plugin !== undefined) requireCommand(plugin, submission.command);
  const draft = toDraft(submission, attemptsOf(plugin, submission.command), dedupeTtlMs, stored);
  // Most commands have no schema. Without an await, their jobs join the current batch.
  if (plugin?.manifest.commands[submission.command]?.inputSchema !== undefined) {
    await checkPayload(plugin, submission.command, submission.payload);
  }
  return draft;
}

function toDraft(
  submission: JobSubmission,
  maxAttempts: number,
  dedupeTtlMs: number,
  payload = toStoredJson(submission.payload, 'payload'),
): SubmissionDraft {
  const context = toContext(submission.context);
  const dedupe = toDedupe(submission, dedupeTtlMs);
  const { dependencyKey } = submission;
  return {
    context,
    job: {
      id: submission.id ?? makeId(),
      plugin: submission.plugin,
      command: submission.command,
      payload,
      submittedBy: submission.submittedBy,
      actor: submission.actor,
      maxAttempts,
      ...(dedupe === undefined
        ? {}
        : { dedupe: { ...dedupe, blockInFlight: blocksInFlight(submission) } }),
      ...compact({ dependencyKey, due: submission.due }),
      ...(submission.isAwaited === true ? { isAwaited: true } : {}),
      ...(context === undefined ? {} : { eventContextId: context.id }),
      ...lineageOf(submission.cause),
    },
  };
}

/** A caller that sets a TTL wants the work done once in that time, so running jobs block, too. */
function blocksInFlight({ blockInFlight, dedupeTtlMs }: JobSubmission): boolean {
  return blockInFlight ?? dedupeTtlMs !== undefined;
}

/** Drafts the initial baggage of a job or run. */
export function toContext(baggage: JsonObject | undefined): ContextDraft | undefined {
  if (baggage === undefined) return undefined;
  return { id: makeId(), accumulated: toStoredJson(baggage, 'context') };
}

export function toDedupe(
  { dedupeKey: key, dedupeTtlMs }: Pick<JobSubmission, 'dedupeKey' | 'dedupeTtlMs'>,
  usualTtlMs: number,
): Pick<Dedupe, 'key' | 'ttlMs'> | undefined {
  if (key === undefined) return undefined;
  toStoredJson(key, 'dedupe_key', limits.dedupeKeyBytesMax);
  return { key, ttlMs: dedupeTtlMs ?? usualTtlMs };
}

/** Estimates the delay by this host's clock. The database's clock decides when the job is due. */
export function untilDue(due: NonNullable<JobDraft['due']>): number {
  const ms = 'inMs' in due ? due.inMs : fromTimestamp(due.at) - Date.now();
  return Math.min(ms, limits.timerMsMax);
}

/** Health checks and inits get one attempt: the caller wants the first result. */
function attemptsOf(plugin: Plugin | undefined, command: string): number {
  if (command === 'health' || command === 'init') return 1;
  return plugin?.retry.maxAttempts ?? limits.attemptsMax;
}

/** Returns the hops of a job that this actor starts: one more than its own if it is a running job. */
export async function findChildHops(
  actor: string,
  ledger: LedgerSubset<'jobs.find'>,
): Promise<number> {
  const id = actor.startsWith(JOB_ACTOR) ? actor.slice(JOB_ACTOR.length) : undefined;
  const job = id === undefined ? undefined : await ledger.jobs.find(id);
  return job === undefined ? 0 : job.hops + 1;
}
