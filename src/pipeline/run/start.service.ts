import { DuctileError, messageOf } from '../../base/errors.ts';
import { makeBatcher } from '../../base/batch.ts';
import { makeId } from '../../base/ids.ts';
import { toStoredJson, type JsonObject } from '../../base/json.ts';
import type { ContextDraft, EnqueueResult } from '../../job/types.ts';
import type { RunDraft, RunStart } from './types.ts';
import { toPipelineStart, type Pipeline, type PipelineStart } from '../language/pipeline.ts';
import { suggest } from '../../base/text.ts';
import type { Catalog } from '../../plugin/catalog.ts';
import { checkPayload } from '../../plugin/payload.ts';
import { lineageOf, type JobCause, type JobDraft, type SubmittedBy } from '../../job/job.ts';
import {
  draftJob,
  toContext,
  toDedupe,
  type SubmissionDraft,
  type JobSubmission,
  announceWork,
  findFirstDue,
  findSuppressedJobs,
} from '../../job/enqueue.service.ts';
import type { RunStatus } from './run.ts';
import type { LedgerContext } from '../../engine/context.ts';
import type { SuppressedWork } from '../../engine/commit-events.ts';
import type { Generation } from '../../engine/generation.ts';

export interface RunSubmission {
  /** Set if the same request can be repeated (default: a new id). */
  readonly id?: string;
  readonly pipeline: string;
  readonly payload: JsonObject;
  readonly submittedBy: SubmittedBy;
  readonly actor: string;
  /** The initial baggage. */
  readonly context?: JsonObject;
  /** The run isn't started while another run of the pipeline holds this key. */
  readonly dedupeKey?: string;
  /** The time for which a success blocks other runs with the key (default: as configured). */
  readonly dedupeTtlMs?: number;
  readonly due?: NonNullable<JobDraft['due']>;
  /** True if the caller waits for its end. */
  readonly isAwaited?: boolean;
  /** The running job that submits it. */
  readonly cause?: JobCause;
}

export interface StartedRun {
  readonly runId: string;
  /** The committed status. For a duplicate, the status of the run that holds the key. */
  readonly status: RunStatus;
  /** The job of its first step, if that is a task. */
  readonly jobId: string | undefined;
  /** The run that holds the key. No run was started. */
  readonly duplicateOf?: string;
}

/** A job and runs that are accepted together. */
export interface TriggerSubmission {
  readonly job: JobSubmission | undefined;
  readonly runs: readonly RunSubmission[];
}

export interface TriggerResult {
  readonly job: EnqueueResult | undefined;
  /** In the order of the submission. */
  readonly runs: readonly StartedRun[];
}

/** Starts runs that are requested by name. */
export interface RunStarter {
  start(submission: RunSubmission): Promise<StartedRun>;
  /** Starts a job and runs in one commit. */
  trigger(submission: TriggerSubmission): Promise<TriggerResult>;
}

interface StartRequest {
  readonly job: SubmissionDraft | undefined;
  readonly runs: readonly DraftedRun[];
}

interface StartResult {
  readonly job: EnqueueResult | undefined;
  readonly runs: readonly RunStart[];
}

export interface DraftedRun {
  readonly run: RunDraft;
  readonly context: ContextDraft | undefined;
  readonly hasFirstJob: boolean;
}

export function makeRunStarter(context: LedgerContext): RunStarter {
  const start = makeBatcher<StartRequest, StartResult>((batch) => write(batch, context));

  const trigger = async ({ job, runs }: TriggerSubmission): Promise<TriggerResult> => {
    const { catalog, config, generation } = context;
    const { dedupeTtlMs } = config.service;
    const draftedJob = job === undefined ? undefined : await draftJob(job, catalog, dedupeTtlMs);
    const draftedRuns = await Promise.all(runs.map((run) => draftRun(run, generation)));
    const result = await start({ job: draftedJob, runs: draftedRuns });
    return {
      job: result.job,
      runs: result.runs.flatMap((run, index) => toStartedRun(run, draftedRuns[index])),
    };
  };

  return {
    trigger,
    async start(submission) {
      const { runs } = await trigger({ job: undefined, runs: [submission] });
      const [started] = runs;
      if (started === undefined) throw new Error('the ledger returned no result for a run');
      return started;
    },
  };
}

/** Checks a submission: the pipeline exists, and its first step accepts the payload. */
export async function draftRun(
  submission: RunSubmission,
  { pipelines, catalog, config }: Pick<Generation, 'pipelines' | 'catalog' | 'config'>,
): Promise<DraftedRun> {
  const pipeline = requirePipeline(submission.pipeline, pipelines);
  const draft = toDraft(submission, pipeline, config.service.dedupeTtlMs);
  await checkFirstPayload(pipeline, submission, catalog);
  return draft;
}

async function write(
  batch: readonly StartRequest[],
  context: LedgerContext,
): Promise<StartResult[]> {
  const { ledger, quota, commits } = context;
  const drafts = batch.flatMap(({ job, runs }) => [...(job === undefined ? [] : [job]), ...runs]);
  const jobs = batch.flatMap(({ job }) => job?.job ?? []);
  const runs = batch.flatMap((request) => request.runs.map(({ run }) => run));
  announceWork(context, [...jobs, ...runs]);
  const started = await ledger.runs.start({
    jobs,
    runs,
    contexts: drafts.flatMap(({ context: baggage }) => baggage ?? []),
    queueLimit: quota.queueLimit(),
  });
  const { jobs: enqueued, runs: starts, ...news } = started;
  commits.publish({
    ...news,
    enqueued,
    jobDueInMs: findFirstDue(jobs),
    suppressed: [...findSuppressedJobs(jobs, enqueued), ...findSuppressedRuns(runs, starts)],
  });
  const [jobsLeft, runsLeft] = [[...enqueued], [...starts]];
  return batch.map((request) => ({
    job: request.job === undefined ? undefined : jobsLeft.shift(),
    runs: runsLeft.splice(0, request.runs.length),
  }));
}

/** Lists the runs that were not started because another run holds their dedupe key. */
function findSuppressedRuns(
  drafts: readonly RunDraft[],
  started: readonly RunStart[],
): SuppressedWork[] {
  return started.flatMap(({ duplicateOf }, index): SuppressedWork[] => {
    const draft = drafts[index];
    if (duplicateOf === undefined || draft?.dedupe === undefined) return [];
    const { pipeline: target, payload, dedupe } = draft;
    return [{ target, dedupeKey: dedupe.key, payload, holderKind: 'run', holderId: duplicateOf }];
  });
}

function toStartedRun(
  { runId, status, duplicateOf }: RunStart,
  draft: DraftedRun | undefined,
): StartedRun {
  const jobId = draft?.hasFirstJob === true ? draft.run.firstJobId : undefined;
  return { runId, status, jobId, ...(duplicateOf === undefined ? {} : { duplicateOf }) };
}

export function requirePipeline(name: string, pipelines: readonly Pipeline[]): Pipeline {
  const found = pipelines.find((pipeline) => pipeline.name === name);
  if (found !== undefined) return found;
  const known = pipelines.map((pipeline) => pipeline.name);
  throw new DuctileError('PIPELINE_NOT_FOUND', `there is no pipeline ${name}`, {
    hint: suggest(name, known, 'pipelines'),
  });
}

function toDraft(submission: RunSubmission, pipeline: Pipeline, defaultTtlMs: number): DraftedRun {
  const { id = makeId(), payload, context, submittedBy, actor, due, isAwaited } = submission;
  const baggage = toContext(context);
  const dedupe = toDedupe(submission, defaultTtlMs);
  return {
    context: baggage,
    hasFirstJob: findFirstTask(pipeline) !== undefined,
    run: {
      id,
      ...startOf(pipeline, { payload, context: context ?? {} }),
      payload: toStoredJson(payload, 'payload'),
      submittedBy,
      actor,
      firstJobId: makeId(),
      ...(baggage === undefined ? {} : { eventContextId: baggage.id }),
      ...(dedupe === undefined ? {} : { dedupe }),
      ...(due === undefined ? {} : { due }),
      ...(isAwaited === true ? { isAwaited } : {}),
      ...lineageOf(submission.cause),
    },
  };
}

function startOf(pipeline: Pipeline, scope: Parameters<typeof toPipelineStart>[1]): PipelineStart {
  try {
    return toPipelineStart(pipeline, scope);
  } catch (thrown) {
    const reason = messageOf(thrown);
    const message = `the concurrency key of ${pipeline.name} cannot be computed: ${reason}`;
    throw new DuctileError('INPUT_INVALID', message, { place: 'payload', cause: thrown });
  }
}

/** Checks the payload against the input schema of the first step, to refuse it at once. */
async function checkFirstPayload(
  pipeline: Pipeline,
  { payload }: RunSubmission,
  catalog: Catalog,
): Promise<void> {
  const first = findFirstTask(pipeline);
  if (first === undefined || first.with !== undefined) return;
  const plugin = catalog.plugins.get(first.plugin);
  if (plugin?.manifest.commands[first.command]?.inputSchema === undefined) return;
  await checkPayload(plugin, first.command, payload);
}

function findFirstTask({ graph }: Pipeline) {
  const first = graph.nodes[graph.first];
  return first?.kind === 'task' && first.when === undefined ? first : undefined;
}
