import * as z from 'zod';
import { DuctileError } from '../base/errors.ts';
import { makeId } from '../base/ids.ts';
import { compact, type JsonObject } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import type { DirectiveExecution } from '../directive/define.service.ts';
import type { DirectiveContext } from '../engine/directive-context.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { Context } from '../operation/context.ts';
import { defineDirective, directiveIdField } from '../operation/define-directive.ts';
import { textIn } from '../operation/request-directive.ts';
import {
  createBulkProgress,
  draftRetry,
  type BulkProgress,
  type BulkStep,
  type Retry,
  type RetrySkip,
} from './bulk.ts';
import { cancelOneJob, retryOneJob } from './bulk.sql.ts';
import { findChildHops } from './enqueue.service.ts';
import { isTerminal, jobStatuses, type Job, type JobStatus } from './job.ts';
import { jobIdField, requireJob } from './operations.ts';
import { jobShape, showJob } from './shapes.service.ts';
import type { JobFilter } from './types.ts';

const open: readonly JobStatus[] = jobStatuses.filter((status) => !isTerminal(status));
const ended: readonly JobStatus[] = jobStatuses.filter(isTerminal);
/** The default of a bulk retry: jobs that ended without success and weren't cancelled. */
const unsuccessful: readonly JobStatus[] = ['failed', 'timed_out', 'dead'];

export const cancelJobsDirective = defineDirective({
  type: 'job.cancel',
  summary: 'Cancel jobs. Queued jobs never start, and running jobs are stopped.',
  lasting: 'A cancelled job stays cancelled. `ductile job retry` repeats its work as a new job.',
  scope: 'jobs:rw',
  params: choiceOf(open),
  isForHandlers: true,
  isRepeatable: true,
  isResumable: true,
  sameness: ({ job_id: id }) => (id === undefined ? 'each' : 'toggle'),
  target: targetOf,
  async plan(context, choice) {
    if (choice.job_id === undefined) return planBulk(context, 'cancel', choice);
    const job = await requireKnown(context.ledger, choice.job_id);
    if (isTerminal(job.status)) {
      return [`${nameOf(job)} is already ${job.status}; nothing would change.`];
    }
    if (job.status === 'queued') return [`${nameOf(job)} will be cancelled before it starts.`];
    return [`${nameOf(job)} is running; its process will be stopped.`];
  },
  prepare: (_context, { job_id: jobId }) =>
    jobId === undefined ? {} : { work: (tx) => cancelOneJob(tx, jobId) },
  execute: (context, choice, execution) =>
    inSteps(context, 'cancel', choice, execution, async (jobs, step) => {
      const ids = jobs.map(({ id }) => id);
      const { results, progress } = await context.ledger.jobs.cancelMany(ids, step);
      const cancelling = ids.filter((_, index) => results[index] === 'requested');
      context.commits.publish({ cancelling });
      return progress;
    }),
  after({ commits }, { job_id: jobId }, { outcome }) {
    if (jobId === undefined || outcome !== 'requested') return;
    commits.publish({ cancelling: [jobId] });
  },
  operation: {
    summary: 'Cancel a job. A queued job never starts, and a running job is stopped.',
    effect: 'destroy',
    input: z.strictObject({ id: jobIdField }),
    output: jobShape.extend({ directive_id: directiveIdField }),
    errors: ['INPUT_INVALID', 'JOB_NOT_FOUND', 'LEDGER_UNAVAILABLE'],
    http: { method: 'POST', path: '/job/:id/cancel' },
    cli: {
      positionals: ['id'],
      examples: ['ductile job cancel 0199a1b2', 'ductile job cancel 0199a1b2 --dry-run'],
      exitCode: ({ status: state }) => (state === 'cancelled' || state === 'running' ? 0 : 1),
    },
    toParams: toJobParams,
    toOutput: async ({ engine }, { result }) =>
      showJob(await engine.waitFor(textIn(result, 'job_id'), 0)),
  },
});

export const retryJobsDirective = defineDirective({
  type: 'job.retry',
  summary: 'Retry finished jobs as new jobs.',
  lasting: 'The effects of the jobs cannot be undone.',
  scope: 'jobs:rw',
  params: choiceOf(ended),
  startsWork: true,
  isRepeatable: true,
  isResumable: true,
  // The job itself shows whether it is being retried, so an earlier request doesn't matter.
  sameness: () => 'each',
  target: targetOf,
  async plan(context, choice) {
    if (choice.job_id === undefined) return planBulk(context, 'retry', choice);
    const job = await requireKnown(context.ledger, choice.job_id);
    if (!isTerminal(job.status)) {
      throw new DuctileError('JOB_OPEN', `job ${job.id} is ${job.status}`, { place: job.id });
    }
    refuseUnknown(context, job);
    refuseInit(job);
    refuseStep(job);
    return [`${nameOf(job)}, which is ${job.status}, will be retried as a new job.`];
  },
  async findStarted({ ledger }, { job_id: id, plugin, command }) {
    if (id === undefined) return [compact({ plugin, command })];
    const job = await ledger.jobs.find(id);
    return job === undefined ? [] : [{ plugin: job.plugin, command: job.command }];
  },
  async prepare(context, { job_id: jobId }, execution) {
    if (jobId === undefined) return {};
    const job = await requireKnown(context.ledger, jobId);
    const hops = await findChildHops(execution.actor, context.ledger);
    const retry = toRetry(context, job, execution, hops);
    return { work: (tx) => retryOneJob(tx, retry), jobs: 1 };
  },
  async execute(context, choice, execution) {
    const { ledger, commits, quota } = context;
    const hops = await findChildHops(execution.actor, ledger);
    return await inSteps(context, 'retry', choice, execution, async (jobs, step) => {
      const inits = jobs.filter(isInit);
      const wanted = jobs.filter((job) => !isInit(job) && !isStep(job));
      const known = wanted.filter(({ plugin }) => context.catalog.plugins.has(plugin));
      // A concurrent directive may have selected the same jobs, so only the first retry counts.
      const retries = known.map((job) => ({
        ...toRetry(context, job, execution, hops),
        isFirst: true,
      }));
      const brings = { jobs: retries.length, signals: 0 };
      const skipped = [
        ...Array<RetrySkip>(wanted.length - known.length).fill('unknown_plugin'),
        ...Array<RetrySkip>(inits.length).fill('init'),
        ...Array<RetrySkip>(jobs.length - wanted.length - inits.length).fill('run_step'),
      ];
      const { progress } = await quota.within(brings, () =>
        ledger.jobs.retryMany(retries, { ...step, skipped }),
      );
      commits.publish({ claimable: true });
      return progress;
    });
  },
  operation: {
    summary: 'Retry a finished job as a new job.',
    effect: 'write',
    input: z.strictObject({ id: jobIdField }),
    output: jobShape.extend({
      directive_id: directiveIdField,
      outcome: z
        .enum(['queued', 'under_way'])
        .describe('`under_way`: this job already repeats the work'),
    }),
    errors: [
      'INPUT_INVALID',
      'JOB_NOT_FOUND',
      'JOB_OPEN',
      'LEDGER_UNAVAILABLE',
      'PLUGIN_NOT_FOUND',
      'TENANT_LIMIT',
      'TENANT_SUSPENDED',
    ],
    http: {
      method: 'POST',
      path: '/job/:id/retry',
      status: () => 202,
      statuses: [202],
      location: '/job/:job_id',
    },
    cli: {
      positionals: ['id'],
      examples: ['ductile job retry 0199a1b2', 'ductile job retry 0199a1b2 --dry-run'],
    },
    toParams: toJobParams,
    async toOutput({ engine }, { result }) {
      const next = await engine.waitFor(textIn(result, 'job_id'), 0);
      const isQueued = result['outcome'] === 'queued';
      return { ...showJob(next), outcome: isQueued ? ('queued' as const) : ('under_way' as const) };
    },
  },
});

type JobChoice = z.output<ReturnType<typeof choiceOf>>;

/** Creates the schema for one job by its id, or for all jobs that match a filter. */
function choiceOf(statuses: readonly JobStatus[]) {
  return z
    .strictObject({
      job_id: z.string().min(1).optional().describe('the id of a single job'),
      plugin: z.string().min(1).optional().describe('all jobs of this plugin'),
      command: z.string().min(1).optional().describe('all jobs of this command'),
      status: z
        .array(z.enum([...statuses] as [JobStatus, ...JobStatus[]]))
        .min(1)
        .optional()
        .describe('all jobs with one of these statuses'),
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
        .describe(`maximum number of jobs (default: ${limits.bulkJobsDefault})`),
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

/** Returns the statuses that a choice selects, or the default of the verb. */
export function listChosenStatuses(
  verb: 'cancel' | 'retry',
  { status }: JobChoice,
): readonly JobStatus[] {
  return status ?? (verb === 'cancel' ? open : unsuccessful);
}

function toRetry(
  { catalog }: DirectiveContext,
  job: Job,
  { actor }: DirectiveExecution,
  hops: number,
): Retry {
  const maxAttempts = catalog.plugins.get(job.plugin)?.retry.maxAttempts ?? job.maxAttempts;
  return { of: job.id, job: draftRetry(job, { id: makeId(), actor, maxAttempts, hops }) };
}

function refuseUnknown({ catalog }: DirectiveContext, { plugin }: Job): void {
  if (catalog.plugins.has(plugin) || catalog.unloaded.has(plugin)) return;
  throw new DuctileError('PLUGIN_NOT_FOUND', `the plugin ${plugin} no longer exists`);
}

function isInit({ command }: Job): boolean {
  return command === 'init';
}

/** A retry would not record that the plugin is set up. Only `plugin init` does. */
function refuseInit(job: Job): void {
  if (!isInit(job)) return;
  throw new DuctileError('INPUT_INVALID', `job ${job.id} is the init of the plugin ${job.plugin}`, {
    place: job.id,
    hint: `Run \`ductile plugin init ${job.plugin}\` to start a new one.`,
  });
}

function isStep({ runId }: Job): boolean {
  return runId !== null;
}

/** A step alone would continue nothing: its run decides what follows. */
function refuseStep(job: Job): void {
  if (!isStep(job)) return;
  throw new DuctileError('INPUT_INVALID', `job ${job.id} is step ${job.stepId} of a run`, {
    place: job.id,
    hint: `Run \`ductile run revive ${job.runId}\` or \`ductile run retry-from\`.`,
  });
}

async function planBulk(
  { ledger }: DirectiveContext,
  verb: 'cancel' | 'retry',
  choice: JobChoice,
): Promise<string[]> {
  const found = await ledger.jobs.count({ ...filterOf(verb, choice), limit: choice.limit + 1 });
  const what = verb === 'cancel' ? 'will be cancelled' : 'will be retried';
  const besides =
    verb === 'cancel' ? [] : ['Jobs of removed plugins, inits and steps of runs will be skipped.'];
  if (found <= choice.limit) {
    return [`${found} ${found === 1 ? 'job' : 'jobs'} ${what}.`, ...besides];
  }
  return [
    `The oldest ${choice.limit} jobs ${what}.`,
    'More jobs match the filter. Raise the limit, or repeat the request for the next ones.',
    ...besides,
  ];
}

function filterOf(verb: 'cancel' | 'retry', choice: JobChoice): Omit<JobFilter, 'limit'> {
  const { plugin, command, older_than_ms: olderThanMs } = choice;
  return {
    status: listChosenStatuses(verb, choice),
    order: 'oldest',
    ...compact({ plugin, command, olderThanMs }),
    // A job that was retried already is not retried again.
    ...(verb === 'retry' ? { notRetried: true } : {}),
  };
}

/**
 * Works through the jobs from the oldest to the newest one that existed at the start. Each step
 * commits the directive's progress, so another process can continue after the last step.
 */
async function inSteps(
  { ledger, processId }: DirectiveContext,
  verb: 'cancel' | 'retry',
  choice: JobChoice,
  { directiveId, progress: reached, signal }: DirectiveExecution,
  work: (jobs: readonly Job[], step: BulkStep) => Promise<BulkProgress>,
): Promise<JsonObject> {
  let progress = (reached as BulkProgress | null) ?? (await createProgress(ledger));
  while (progress.jobs < choice.limit) {
    if (signal.aborted) throw new DuctileError('STOPPING', `stopped after ${progress.jobs} jobs`);
    const limit = Math.min(limits.bulkStepJobs, choice.limit - progress.jobs);
    const range = { beforeSeq: progress.cursor, upToSeq: progress.upTo };
    const jobs = await ledger.jobs.list({ ...filterOf(verb, choice), ...range, limit });
    const cursor = jobs.at(-1)?.seq;
    if (cursor === undefined) break;
    const step = { directiveId, processId, before: progress, cursor, skipped: [] };
    progress = await work(jobs, step);
  }
  const { terminal, ...counts } = progress.counts;
  const unchanged = terminal === undefined ? {} : { unchanged: terminal };
  return { jobs: progress.jobs, ...counts, ...unchanged };
}

async function createProgress(ledger: Ledger): Promise<BulkProgress> {
  const [newest] = await ledger.jobs.list({ limit: 1 });
  return createBulkProgress(newest?.seq ?? 0);
}

async function requireKnown(ledger: Ledger, id: string): Promise<Job> {
  const job = await ledger.jobs.find(id);
  if (job !== undefined) return job;
  throw new DuctileError('JOB_NOT_FOUND', `there is no job ${id}`, { place: id });
}

function nameOf({ id, plugin, command }: Job): string {
  return `job ${id} (${plugin} ${command})`;
}

async function toJobParams(context: Context, { id }: { readonly id: string }): Promise<object> {
  return { job_id: (await requireJob(context, id)).id };
}
