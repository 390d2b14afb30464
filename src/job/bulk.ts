import * as z from 'zod';
import { limits } from '../base/limits.ts';
import type { DirectiveType } from '../directive/directive.ts';
import { jobStatuses, isTerminal, type Job, type JobDraft, type JobStatus } from './job.ts';

const open: readonly JobStatus[] = jobStatuses.filter((status) => !isTerminal(status));
const ended: readonly JobStatus[] = jobStatuses.filter(isTerminal);
/** The default of a bulk retry: jobs that ended without success and weren't cancelled. */
const unsuccessful: readonly JobStatus[] = ['failed', 'timed_out', 'dead'];

/** The jobs that a directive is about: one by its id, or all that match a filter. */
export interface JobChoice {
  readonly job_id?: string | undefined;
  readonly plugin?: string | undefined;
  readonly command?: string | undefined;
  readonly status?: readonly JobStatus[] | undefined;
  readonly older_than_ms?: number | undefined;
  readonly limit: number;
}

export const cancelType: DirectiveType<JobChoice> = {
  type: 'job.cancel',
  lasting: 'A cancelled job stays cancelled; `ductile job retry` does its work as a new one.',
  summary: 'Stop jobs: queued ones never start, running ones are stopped.',
  scope: 'jobs:rw',
  params: choiceOf(open),
  isRepeatable: true,
  isResumable: true,
  sameness: ({ job_id: id }) => (id === undefined ? 'each' : 'toggle'),
  target: targetOf,
};

export const retryType: DirectiveType<JobChoice> = {
  type: 'job.retry',
  lasting: 'What the jobs do cannot be undone.',
  summary: 'Do the work of ended jobs again, as new jobs.',
  scope: 'jobs:rw',
  params: choiceOf(ended),
  isRepeatable: true,
  isResumable: true,
  // The job itself shows whether it is being retried, so an earlier request doesn't matter.
  sameness: () => 'each',
  target: targetOf,
};

/** The progress of a directive over many jobs, with the counts of outcomes. */
export interface BulkProgress {
  /**
   * The last job that was processed, and the newest one that existed when the directive started.
   */
  readonly cursor: number;
  readonly upTo: number;
  /** The number of jobs that count toward the limit. */
  readonly jobs: number;
  readonly counts: Readonly<Record<string, number>>;
}

/** The reasons to skip a job in a retry. A skipped job would match again, so it doesn't count. */
const retrySkips = ['unknown_plugin', 'init', 'run_step'] as const;
export type RetrySkip = (typeof retrySkips)[number];

export function createBulkProgress(upTo: number): BulkProgress {
  return { cursor: 0, upTo, jobs: 0, counts: {} };
}

/** Adds the outcomes of one step. */
export function advanceBulk(
  { upTo, jobs, counts }: BulkProgress,
  cursor: number,
  outcomes: readonly string[],
): BulkProgress {
  const sums: Record<string, number> = { ...counts };
  for (const outcome of outcomes) sums[outcome] = (sums[outcome] ?? 0) + 1;
  const counted = outcomes.filter((outcome) => !retrySkips.some((skip) => skip === outcome));
  return { cursor, upTo, jobs: jobs + counted.length, counts: sums };
}

/** Returns the statuses that a choice selects, or the default of the verb. */
export function listChosenStatuses(
  verb: 'cancel' | 'retry',
  { status }: JobChoice,
): readonly JobStatus[] {
  return status ?? (verb === 'cancel' ? open : unsuccessful);
}

interface RetryDraft {
  readonly id: string;
  readonly actor: string;
  readonly maxAttempts: number;
  /** The minimum number of hops from its first cause. */
  readonly hops?: number;
}

/** Drafts a new job that repeats the work of another: same lineage, same idempotency key. */
export function draftRetry(job: Job, { id, actor, maxAttempts, hops = 0 }: RetryDraft): JobDraft {
  return {
    id,
    plugin: job.plugin,
    command: job.command,
    payload: job.payload,
    submittedBy: 'directive',
    actor,
    maxAttempts,
    rootJobId: job.rootJobId,
    retryOf: job.id,
    idempotencyKey: job.idempotencyKey,
    hops: Math.max(job.hops, hops),
    runtimeCaused: job.runtimeCaused,
    ...(job.parentJobId === null ? {} : { parentJobId: job.parentJobId }),
    ...(job.sourceEventId === null ? {} : { sourceEventId: job.sourceEventId }),
    ...(job.eventContextId === null ? {} : { eventContextId: job.eventContextId }),
    ...(job.dependencyKey === null ? {} : { dependencyKey: job.dependencyKey }),
    ...(job.dedupeKey === null
      ? {}
      : { dedupe: { key: job.dedupeKey, ttlMs: job.dedupeTtlMs ?? 0, blockInFlight: true } }),
  };
}

function choiceOf(statuses: readonly JobStatus[]): z.ZodType<JobChoice> {
  return z
    .strictObject({
      job_id: z.string().min(1).optional().describe('one job by its id'),
      plugin: z.string().min(1).optional().describe('all jobs of this plugin'),
      command: z.string().min(1).optional().describe('all jobs of this command'),
      status: z
        .array(z.enum([...statuses] as [JobStatus, ...JobStatus[]]))
        .min(1)
        .optional()
        .describe('all jobs in one of these states'),
      older_than_ms: z
        .int()
        .min(0)
        .max(limits.delayMsMax)
        .optional()
        .describe('all jobs created longer ago than this'),
      limit: z
        .int()
        .min(1)
        .max(limits.bulkJobsMax)
        .default(limits.bulkJobsDefault)
        .describe('how many jobs at most'),
    })
    .refine(isOneOrFiltered, {
      error:
        'must name either one job by its id, or a filter: plugin, command, status or older_than_ms',
    });
}

function isOneOrFiltered({
  job_id: id,
  plugin,
  command,
  status,
  older_than_ms: age,
}: {
  readonly job_id?: unknown;
  readonly plugin?: unknown;
  readonly command?: unknown;
  readonly status?: unknown;
  readonly older_than_ms?: unknown;
}): boolean {
  const isFiltered = [plugin, command, status, age].some((part) => part !== undefined);
  return (id !== undefined) !== isFiltered;
}

function targetOf({ job_id: id, plugin, command }: JobChoice): string {
  return id ?? `*:${plugin ?? '*'}:${command ?? '*'}`;
}

/** The kinds of rows that are history and are deleted after their retention. */
export const historyKinds = [
  'jobs',
  'attempts',
  'signals',
  'facts',
  'contexts',
  'directives',
  'transitions',
  'tokens',
  'snapshots',
  'health',
  'schedules',
  'runs',
  'definitions',
  'deliveries',
  'incidents',
] as const;
export type HistoryKind = (typeof historyKinds)[number];

export interface PruneChoice {
  /** All kinds if undefined. */
  readonly what?: readonly HistoryKind[] | undefined;
  /** Overrides the configured retention. */
  readonly older_than_ms?: number | undefined;
}

export const pruneType: DirectiveType<PruneChoice> = {
  type: 'system.prune',
  summary: 'Delete history that is past its retention, or older than told.',
  lasting: 'What is deleted cannot be brought back but from a backup.',
  scope: 'system:rw',
  // A second run deletes only what is left.
  isRepeatable: true,
  isResumable: true,
  params: z
    .strictObject({
      what: z.array(z.enum(historyKinds)).min(1).optional().describe('only these kinds of rows'),
      older_than_ms: z.int().min(0).max(limits.delayMsMax).optional(),
    })
    .refine(({ what, older_than_ms: age }) => age === undefined || what !== undefined, {
      path: ['what'],
      error: 'must be named when it is not the retention of the configuration that counts',
    }),
  sameness: () => 'each',
  target: ({ what = ['*'] }) => what.join(','),
};

/** Ductile's own pruning, by the configuration alone. It needs no approval. */
export const retentionType: DirectiveType<object> = {
  type: 'system.retention',
  summary: 'Delete history that is past its retention, as configured.',
  scope: 'system:rw',
  isRepeatable: true,
  isResumable: true,
  isImmediate: true,
  params: z.strictObject({}),
  sameness: () => 'each',
  target: () => 'retention',
};

export interface PluginChoice {
  readonly plugin: string;
}

export const pauseType = systemType('system.pause', 'Start no more jobs; accept them still.');
export const resumeType = systemType('system.resume', 'Start jobs again after a pause.');

export const enablePluginType = pluginType('plugin.enable', 'Start jobs of a plugin again.');
export const disablePluginType = pluginType(
  'plugin.disable',
  'Start no more jobs of a plugin and schedule none; accept them still.',
);

function systemType(type: string, summary: string): DirectiveType<object> {
  return {
    type,
    summary,
    scope: 'system:rw',
    params: z.strictObject({}),
    sameness: () => 'toggle',
    target: () => '',
  };
}

function pluginType(type: string, summary: string): DirectiveType<PluginChoice> {
  return {
    type,
    summary,
    scope: 'plugin:rw',
    // Members have the scope too: it lets them run commands.
    role: 'admin',
    params: z.strictObject({ plugin: z.string().min(1) }),
    sameness: () => 'toggle',
    target: ({ plugin }) => plugin,
  };
}

/** A step of a directive over many jobs. */
export interface BulkStep {
  readonly directiveId: string;
  readonly processId: string;
  readonly before: BulkProgress;
  /** The last job of this step. */
  readonly cursor: number;
  /** The reasons why jobs of this step were skipped, one for each. */
  readonly skipped: readonly string[];
}

export interface BulkResult<Result> {
  /** In the order of the request. Empty if the step was committed before. */
  readonly results: readonly Result[];
  readonly progress: BulkProgress;
}

/** A job to retry, and the draft of the job that repeats its work. */
export interface Retry {
  readonly of: string;
  readonly job: JobDraft;
  /** Refuses the retry if the job was ever retried before. */
  readonly isFirst?: boolean;
}

/** The result of one retry. `under_way` names the job that already repeats the work. */
export type RetryResult =
  | { readonly kind: 'queued'; readonly jobId: string }
  | { readonly kind: 'under_way'; readonly jobId: string }
  | { readonly kind: 'open' }
  | { readonly kind: 'unknown' };
