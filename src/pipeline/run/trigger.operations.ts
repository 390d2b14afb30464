import { createHash } from 'node:crypto';
import * as z from 'zod';
import { commandName, pluginName } from '../../config/fields.ts';
import { isObject } from '../../base/json.ts';
import type { RunSubmission } from './start.service.ts';
import type { JobSubmission } from '../../job/enqueue.service.ts';
import type { Pipeline } from '../language/pipeline.ts';
import type { Context } from '../../operation/context.ts';
import { defineOperation } from '../../operation/define.ts';
import { refuseDeniedPipeline } from '../../operation/denied-commands.ts';
import {
  leafShape,
  describeTimeout,
  runOutput,
  runPipeline,
  toRunSubmission,
  toRunWaitMs,
  showStartedRun,
} from './start.operations.ts';
import {
  dependencyField,
  jobOutput,
  toJobWaitMs,
  findCommandNeed,
  runPlugin,
  toJobSubmission,
  showStartedJob,
} from '../../job/start.operations.ts';
import {
  isDelayed,
  startFields,
  limitWait,
  waitField,
  withWaiterSlot,
} from '../../job/start-options.operations.ts';

const triggerInput = z.strictObject({
  plugin: pluginName().describe('the name of the plugin'),
  command: commandName().describe('the command to run'),
  payload: z.record(z.string(), z.unknown()).default({}).describe('a JSON object'),
  async: z.boolean().default(false).describe('return immediately, even for a synchronous pipeline'),
  wait: waitField()
    .optional()
    .describe(
      'longest wait for the job and all runs (default: the timeouts of synchronous pipelines)',
    ),
  ...startFields,
  dependency: dependencyField,
});

type TriggerInput = z.output<typeof triggerInput>;

export const triggerPlugin = defineOperation({
  name: 'plugin.trigger',
  summary: 'Start a job of a plugin, and the pipelines whose `on` is `<plugin>.<command>`.',
  effect: 'write',
  offeredWith: 'plugin',
  scope: (context, input) => {
    const need = findCommandNeed(context, input);
    return typeof need === 'string' || findPipelines(context, input).length === 0
      ? need
      : { ...need, type: 'write' };
  },
  scopeIn: 'url',
  input: triggerInput,
  output: z.object({
    plugin: z.string(),
    command: z.string(),
    job_id: z
      .string()
      .nullable()
      .describe('the job; if the plugin has no such command, the job of the first run'),
    run_id: z.string().nullable().describe('the first run; null if no pipeline was started'),
    status: z
      .string()
      .describe(
        'of the job, or else of the first run; after a wait, the first that is not `succeeded`',
      ),
    duration_ms: z
      .int()
      .nullable()
      .optional()
      .describe('after a wait: the longest duration of all'),
    timeout_exceeded: z
      .boolean()
      .optional()
      .describe('true if the job or a run did not finish in time'),
    message: z.string().optional().describe('after a timeout: where to find the result'),
    result: z.unknown().optional().describe('result of the plugin, or of the first run'),
    tree: z.array(leafShape).optional().describe('the job and every step of the runs'),
    job: jobOutput.nullable().describe('as in the response of `POST /plugin`'),
    runs: z
      .array(runOutput)
      .describe('as in the response of `POST /pipeline`, in order of definition'),
  }),
  errors: [...new Set([...runPlugin.errors, ...runPipeline.errors])],
  http: {
    method: 'POST',
    path: '/trigger/:plugin/:command',
    body: 'payload',
    status: (output) => (hasEnded(output) ? 200 : 202),
    location: '/job/:job_id',
  },
  cli: { absent: '`plugin run` and `pipeline run` start each of them by name' },
  mcp: { absent: '`plugin_run` and `pipeline_run` start each of them by name' },
  async run(context, input) {
    const planned = toTriggerPlan(context, input);
    const waits = [planned.jobWaitMs, ...planned.runs.map(({ waitMs }) => waitMs)];
    const begin = () => trigger(context, input, planned);
    return await (waits.some((ms) => ms > 0) ? withWaiterSlot(context, begin) : begin());
  },
  async plan(context, input) {
    const { job, runs } = toTriggerPlan(context, input);
    const { plugin, command, payload } = input;
    const options = { plugin, command, payload };
    return [
      ...(job === undefined ? [] : ((await runPlugin.plan?.(context, options)) ?? [])),
      ...runs.map(({ submission }) => `A run of ${submission.pipeline} will start.`),
    ];
  },
});

/** The job and runs to start, and how long to wait for each. */
interface TriggerPlan {
  readonly job: JobSubmission | undefined;
  readonly jobWaitMs: number;
  readonly runs: readonly PlannedRun[];
}

interface PlannedRun {
  readonly context: Context;
  readonly submission: RunSubmission;
  readonly waitMs: number;
}

/**
 * Checks a request, and returns the work to start. Without `wait`, each pipeline decides how long to
 * wait, and the job is awaited as long as the longest of them.
 */
function toTriggerPlan(context: Context, input: TriggerInput): TriggerPlan {
  const { plugin, command, async: isAsync, wait, dependency, ...options } = input;
  const pipelines = findPipelines(context, input);
  for (const pipeline of pipelines) refuseDeniedPipeline(context, pipeline);
  const bound = (ms: number): number => (isAsync ? 0 : limitWait(context, ms));
  const requested = wait ?? (isDelayed(options) ? false : undefined);
  const runs = pipelines.map((pipeline) => {
    const own = contextOf(context, pipeline);
    const waitMs = bound(toRunWaitMs(pipeline, requested));
    const run = { pipeline: pipeline.name, ...options };
    return { context: own, waitMs, submission: toRunSubmission(own, run, waitMs > 0) };
  });
  const jobWaitMs =
    requested === undefined
      ? Math.max(0, ...runs.map(({ waitMs }) => waitMs))
      : bound(toJobWaitMs(requested));
  // If a pipeline has this name in `on`, the command doesn't have to exist.
  if (pipelines.length > 0 && !hasCommand(context, input))
    return { job: undefined, jobWaitMs: 0, runs };
  const asJob = { plugin, command, dependency, ...options };
  const submission = toJobSubmission(context, asJob, jobWaitMs > 0);
  // A running job with the same dedupe key blocks too, as it does for runs.
  return { job: { ...submission, blockInFlight: true }, jobWaitMs, runs };
}

async function trigger(context: Context, { plugin, command }: TriggerInput, planned: TriggerPlan) {
  const accepted = await context.engine.trigger({
    job: planned.job,
    runs: planned.runs.map(({ submission }) => submission),
  });
  const showJob = async () =>
    planned.job === undefined || accepted.job === undefined
      ? null
      : await showStartedJob(context, planned.job, accepted.job, planned.jobWaitMs);
  const [job, ...runs] = await Promise.all([
    showJob(),
    ...accepted.runs.flatMap((started, index) => {
      const run = planned.runs[index];
      return run === undefined
        ? []
        : [showStartedRun(run.context, run.submission, started, run.waitMs)];
    }),
  ] as const);
  const [first] = [job, ...runs].filter((one) => one !== null);
  const jobId = first?.job_id ?? null;
  const runId = runs[0]?.run_id ?? null;
  const ids = { plugin, command, job_id: jobId, run_id: runId };
  const result = { ...ids, status: first?.status ?? '', job, runs };
  return { ...result, ...summarize(result) };
}

type StartedWork = z.output<typeof jobOutput> | z.output<typeof runOutput>;

/** Summarizes all work that was awaited: status, duration, and the result of each job. */
function summarize({
  job_id: jobId,
  job,
  runs,
}: {
  readonly job_id: string | null;
  readonly job: z.output<typeof jobOutput> | null;
  readonly runs: readonly z.output<typeof runOutput>[];
}) {
  const waited = [job, ...runs].filter(
    (one): one is StartedWork => one?.timeout_exceeded !== undefined,
  );
  if (waited.length === 0) return {};
  if (waited.some(({ timeout_exceeded: isLate }) => isLate)) {
    return {
      status: 'running',
      timeout_exceeded: true,
      message: describeTimeout(jobId, runs[0]?.run_id),
    };
  }
  const steps = runs.flatMap(({ tree = [] }) => tree);
  return {
    status: waited.find(({ status }) => status !== 'succeeded')?.status ?? 'succeeded',
    timeout_exceeded: false,
    duration_ms: Math.max(...waited.map(({ duration_ms: ms }) => ms ?? 0)),
    result: waited[0]?.result,
    tree: [...(job === null ? [] : [job]), ...steps].map((leaf) => ({
      job_id: leaf.job_id,
      plugin: leaf.plugin,
      command: leaf.command,
      status: leaf.status,
      result: leaf.result,
    })),
  };
}

function findPipelines(
  { engine }: Context,
  { plugin, command }: Pick<TriggerInput, 'plugin' | 'command'>,
): Pipeline[] {
  return engine.pipelines.filter(({ on }) => on === `${plugin}.${command}`);
}

function hasCommand({ engine }: Context, { plugin, command }: TriggerInput): boolean {
  const { commands = {} } = engine.catalog.plugins.get(plugin)?.manifest ?? {};
  return Object.hasOwn(commands, command);
}

/** Derives the id of each run from the request, so that a repeated request has the same ids. */
function contextOf(context: Context, { name }: Pipeline): Context {
  const { subjectId } = context;
  if (subjectId === undefined) return context;
  const digest = createHash('sha256').update(`${subjectId} ${name}`).digest('hex');
  const kept = subjectId.lastIndexOf('-') + 1;
  return {
    ...context,
    subjectId: `${subjectId.slice(0, kept)}${digest.slice(kept - subjectId.length)}`,
  };
}

/** Returns true if all awaited work has ended. A job that wasn't awaited is shown without its times. */
function hasEnded({ job, runs }: { readonly job?: unknown; readonly runs?: unknown }): boolean {
  const awaited = [isObject(job) && 'created_at' in job ? [job] : [], runs].flat();
  return (
    awaited.length > 0 &&
    awaited.every((work) => isObject(work) && typeof work['completed_at'] === 'string')
  );
}
