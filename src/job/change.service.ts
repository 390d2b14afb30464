import { DuctileError } from '../base/errors.ts';
import { makeId } from '../base/ids.ts';
import { compact, type JsonObject } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import type { DirectiveExecution, BoundDirective } from '../directive/define.service.ts';
import type { LedgerContext } from '../engine/context.ts';
import type { Ledger } from '../ledger/ledger.ts';
import {
  createBulkProgress,
  cancelType,
  draftRetry,
  retryType,
  listChosenStatuses,
  type BulkProgress,
  type JobChoice,
  type RetrySkip,
  type BulkStep,
  type Retry,
} from './bulk.ts';
import { cancelOneJob, retryOneJob } from './change.sql.ts';
import { findChildHops } from './enqueue.service.ts';
import { isTerminal, type Job } from './job.ts';
import type { JobFilter } from './types.ts';

export function cancelJobsDirective(context: LedgerContext): BoundDirective<JobChoice> {
  const { ledger, commits } = context;
  return {
    ...cancelType,
    async plan(choice) {
      if (choice.job_id === undefined) return planBulk(context, 'cancel', choice);
      const job = await requireKnown(ledger, choice.job_id);
      if (isTerminal(job.status)) {
        return [`${nameOf(job)} is ${job.status} already; nothing would change.`];
      }
      if (job.status === 'queued') return [`${nameOf(job)} would be cancelled before it starts.`];
      return [`${nameOf(job)} is running; its process would be stopped.`];
    },
    prepare: ({ job_id: jobId }) =>
      jobId === undefined ? {} : { work: (tx) => cancelOneJob(tx, jobId) },
    execute: (choice, request) =>
      inSteps(context, 'cancel', choice, request, async (jobs, step) => {
        const ids = jobs.map(({ id }) => id);
        const { results, progress } = await ledger.jobs.cancelMany(ids, step);
        const cancelling = ids.filter((_, index) => results[index] === 'requested');
        commits.publish({ cancelling });
        return progress;
      }),
    after({ job_id: jobId }, { outcome }) {
      if (jobId === undefined || outcome !== 'requested') return;
      commits.publish({ cancelling: [jobId] });
    },
  };
}

export function retryJobsDirective(context: LedgerContext): BoundDirective<JobChoice> {
  const { ledger, commits, quota } = context;
  return {
    ...retryType,
    async plan(choice) {
      if (choice.job_id === undefined) return planBulk(context, 'retry', choice);
      const job = await requireKnown(ledger, choice.job_id);
      if (!isTerminal(job.status)) {
        throw new DuctileError('JOB_OPEN', `job ${job.id} is ${job.status}`, { place: job.id });
      }
      refuseUnknown(context, job);
      refuseInit(job);
      refuseStep(job);
      return [`${nameOf(job)}, which is ${job.status}, would be done again as a new job.`];
    },
    async prepare({ job_id: jobId }, request) {
      if (jobId === undefined) return {};
      const job = await requireKnown(ledger, jobId);
      const hops = await findChildHops(request.actor, ledger);
      const retry = toRetry(context, job, request, hops);
      return { work: (tx) => retryOneJob(tx, retry), jobs: 1 };
    },
    async execute(choice, request) {
      const hops = await findChildHops(request.actor, ledger);
      return await inSteps(context, 'retry', choice, request, async (jobs, step) => {
        const { plugins } = context.catalog;
        const inits = jobs.filter(isInit);
        const wanted = jobs.filter((job) => !isInit(job) && !isStep(job));
        const known = wanted.filter(({ plugin }) => plugins.has(plugin));
        // A concurrent directive may have selected the same jobs, so only the first retry counts.
        const retries = known.map((job) => ({
          ...toRetry(context, job, request, hops),
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
  };
}

function toRetry(
  { catalog }: LedgerContext,
  job: Job,
  { actor }: DirectiveExecution,
  hops: number,
): Retry {
  const maxAttempts = catalog.plugins.get(job.plugin)?.retry.maxAttempts ?? job.maxAttempts;
  return { of: job.id, job: draftRetry(job, { id: makeId(), actor, maxAttempts, hops }) };
}

function refuseUnknown({ catalog }: LedgerContext, { plugin }: Job): void {
  if (catalog.plugins.has(plugin) || catalog.unloaded.has(plugin)) return;
  throw new DuctileError('PLUGIN_NOT_FOUND', `there is no plugin ${plugin} any more`);
}

function isInit({ command }: Job): boolean {
  return command === 'init';
}

/** A retry would not record that the plugin is set up. Only `plugin init` does. */
function refuseInit(job: Job): void {
  if (!isInit(job)) return;
  throw new DuctileError('INPUT_INVALID', `job ${job.id} is the init of ${job.plugin}`, {
    place: job.id,
    hint: `Ask for a new one with \`ductile plugin init ${job.plugin}\`.`,
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
    hint: `Go on with \`ductile run revive ${job.runId}\`, or \`run retry-from\`.`,
  });
}

async function planBulk(
  { ledger }: LedgerContext,
  verb: 'cancel' | 'retry',
  choice: JobChoice,
): Promise<string[]> {
  const found = await ledger.jobs.count({ ...filterOf(verb, choice), limit: choice.limit + 1 });
  const what = verb === 'cancel' ? 'would be cancelled' : 'would be done again';
  const besides =
    verb === 'cancel'
      ? []
      : ['Those of plugins that are gone, inits and steps of runs would be passed over.'];
  if (found <= choice.limit) {
    return [`${found} ${found === 1 ? 'job' : 'jobs'} ${what}.`, ...besides];
  }
  return [
    `${choice.limit} jobs, the oldest, ${what}.`,
    'More fit the filter; raise the limit, or ask again for the next ones.',
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
  { ledger, processId }: LedgerContext,
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
