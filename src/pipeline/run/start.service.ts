import { DuctileError, messageOf } from '../../base/errors.ts';
import { makeBatcher } from '../../base/batch.ts';
import { makeId } from '../../base/ids.ts';
import { toStoredJson, type JsonObject } from '../../base/json.ts';
import type { ContextDraft, EnqueueResult } from '../../job/types.ts';
import type { RunDraft, RunStart } from './types.ts';
import { toPipelineStart, type Pipeline, type PipelineStart } from '../language/pipeline.ts';
import { suggest } from '../../config/nearest.ts';
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
  /** Made by the caller when the same request may come again; a new one otherwise. */
  readonly id?: string;
  readonly pipeline: string;
  readonly payload: JsonObject;
  readonly submittedBy: SubmittedBy;
  readonly actor: string;
  /** Baggage that it begins with. */
  readonly context?: JsonObject;
  /** A run of the pipeline that has the key is under way, or succeeded: nothing is started. */
  readonly dedupeKey?: string;
  /** How long its success blocks others with the same key; the configuration's time otherwise. */
  readonly dedupeTtlMs?: number;
  readonly due?: NonNullable<JobDraft['due']>;
  /** Whoever submits it will wait for its end. */
  readonly isAwaited?: boolean;
  /** The running job that asks for it. */
  readonly cause?: JobCause;
}

export interface StartedRun {
  readonly runId: string;
  /** As it was committed; of the run that has its key, when it is a duplicate. */
  readonly status: RunStatus;
  /** The job of its first step; undefined when that is none. */
  readonly jobId: string | undefined;
  /** The run that has its key: nothing was started. */
  readonly duplicateOf?: string;
}

/** A job and runs that are accepted together. */
export interface TriggerSubmission {
  readonly job: JobSubmission | undefined;
  readonly runs: readonly RunSubmission[];
}

export interface Triggered {
  readonly job: EnqueueResult | undefined;
  /** In the order in which they were asked for. */
  readonly runs: readonly StartedRun[];
}

/** Where runs come in that somebody asks for by name. */
export interface RunStarter {
  start(submission: RunSubmission): Promise<StartedRun>;
  /** With a job beside them, in one commit. */
  trigger(submission: TriggerSubmission): Promise<Triggered>;
}

interface Wanted {
  readonly job: SubmissionDraft | undefined;
  readonly runs: readonly DraftedRun[];
}

interface Given {
  readonly job: EnqueueResult | undefined;
  readonly runs: readonly RunStart[];
}

export interface DraftedRun {
  readonly run: RunDraft;
  readonly context: ContextDraft | undefined;
  readonly hasFirstJob: boolean;
}

export function makeRunStarter(context: LedgerContext): RunStarter {
  const begin = makeBatcher<Wanted, Given>((batch) => write(batch, context));

  const trigger = async ({ job, runs }: TriggerSubmission): Promise<Triggered> => {
    const { catalog, config, generation } = context;
    const { dedupeTtlMs } = config.service;
    const draftedJob = job === undefined ? undefined : await draftJob(job, catalog, dedupeTtlMs);
    const draftedRuns = await Promise.all(runs.map((run) => draftRun(run, generation)));
    const given = await begin({ job: draftedJob, runs: draftedRuns });
    return {
      job: given.job,
      runs: given.runs.flatMap((one, at) => toStarted(one, draftedRuns[at])),
    };
  };

  return {
    trigger,
    async start(submission) {
      const { runs } = await trigger({ job: undefined, runs: [submission] });
      const [started] = runs;
      if (started === undefined) throw new Error('the ledger told nothing of a run');
      return started;
    },
  };
}

/** Refuses what there is no such pipeline for, or what its first step could not take. */
export async function draftRun(
  submission: RunSubmission,
  { pipelines, catalog, config }: Pick<Generation, 'pipelines' | 'catalog' | 'config'>,
): Promise<DraftedRun> {
  const pipeline = findPipeline(submission.pipeline, pipelines);
  const draft = toDraft(submission, pipeline, config.service.dedupeTtlMs);
  await checkFirst(pipeline, submission, catalog);
  return draft;
}

async function write(batch: readonly Wanted[], context: LedgerContext): Promise<Given[]> {
  const { ledger, quota, commits } = context;
  const drafts = batch.flatMap(({ job, runs }) => [...(job === undefined ? [] : [job]), ...runs]);
  const jobs = batch.flatMap(({ job }) => job?.job ?? []);
  const runs = batch.flatMap((one) => one.runs.map(({ run }) => run));
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
  return batch.map((one) => ({
    job: one.job === undefined ? undefined : jobsLeft.shift(),
    runs: runsLeft.splice(0, one.runs.length),
  }));
}

/** Lists the runs that were dropped because their dedupe key is taken. */
function findSuppressedRuns(
  drafts: readonly RunDraft[],
  started: readonly RunStart[],
): SuppressedWork[] {
  return started.flatMap(({ duplicateOf }, at): SuppressedWork[] => {
    const draft = drafts[at];
    if (duplicateOf === undefined || draft?.dedupe === undefined) return [];
    const { pipeline: target, payload, dedupe } = draft;
    return [{ target, dedupeKey: dedupe.key, payload, holderKind: 'run', holderId: duplicateOf }];
  });
}

function toStarted(
  { runId, status, duplicateOf }: RunStart,
  draft: DraftedRun | undefined,
): StartedRun {
  const jobId = draft?.hasFirstJob === true ? draft.run.firstJobId : undefined;
  return { runId, status, jobId, ...(duplicateOf === undefined ? {} : { duplicateOf }) };
}

export function findPipeline(name: string, pipelines: readonly Pipeline[]): Pipeline {
  const found = pipelines.find((pipeline) => pipeline.name === name);
  if (found !== undefined) return found;
  const known = pipelines.map((pipeline) => pipeline.name);
  throw new DuctileError('PIPELINE_NOT_FOUND', `there is no pipeline ${name}`, {
    hint: suggest(name, known, 'pipelines'),
  });
}

function toDraft(submission: RunSubmission, pipeline: Pipeline, usualTtlMs: number): DraftedRun {
  const { id = makeId(), payload, context, submittedBy, actor, due, isAwaited } = submission;
  const baggage = toContext(context);
  const dedupe = toDedupe(submission, usualTtlMs);
  return {
    context: baggage,
    hasFirstJob: firstTask(pipeline) !== undefined,
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
    const message = `the concurrency key of ${pipeline.name}: ${messageOf(thrown)}`;
    throw new DuctileError('INPUT_INVALID', message, { place: 'payload', cause: thrown });
  }
}

/** Whoever asks is told at once that the first step could not take the payload as it is. */
async function checkFirst(
  pipeline: Pipeline,
  { payload }: RunSubmission,
  catalog: Catalog,
): Promise<void> {
  const first = firstTask(pipeline);
  if (first === undefined || first.with !== undefined) return;
  const plugin = catalog.plugins.get(first.plugin);
  if (plugin?.manifest.commands[first.command]?.inputSchema === undefined) return;
  await checkPayload(plugin, first.command, payload);
}

function firstTask({ graph }: Pipeline) {
  const first = graph.nodes[graph.first];
  return first?.kind === 'task' && first.when === undefined ? first : undefined;
}
