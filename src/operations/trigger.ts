import { createHash } from 'node:crypto';
import * as z from 'zod';
import { commandName, pluginName } from '../config/fields.ts';
import { isObject } from '../base/json.ts';
import type { RunSubmission, Submission } from '../engine/engine.ts';
import type { Pipeline } from '../pipeline/pipeline.ts';
import type { Context } from './context.ts';
import { defineOperation } from './define.ts';
import { refuseDeniedSteps } from './denied.ts';
import { runOutput, runPipeline, runSubmissionOf, runWaitOf, tellRun } from './pipeline-run.ts';
import {
  dependencyField,
  jobOutput,
  jobWaitOf,
  needOf,
  runPlugin,
  submissionOf,
  tellJob,
} from './run.ts';
import { isForLater, startFields } from './start.ts';
import { boundWait, waitField, whileWaiting } from './waiting.ts';

const triggerInput = z.strictObject({
  plugin: pluginName().describe('the name of the plugin'),
  command: commandName().describe('what to ask of it'),
  payload: z.record(z.string(), z.unknown()).default({}).describe('a JSON object'),
  async: z.boolean().default(false).describe('answer at once, also for a synchronous pipeline'),
  wait: waitField().optional().describe('how long to wait for the ends of the job and of all runs'),
  ...startFields,
  dependency: dependencyField,
});

type Triggered = z.output<typeof triggerInput>;

export const triggerPlugin = defineOperation({
  name: 'plugin.trigger',
  summary: 'Start a job of a plugin, and the pipelines whose `on` is `<plugin>.<command>`.',
  effect: 'write',
  scope: (context, input) => {
    const need = needOf(context, input);
    return typeof need === 'string' || findWanted(context, input).length === 0
      ? need
      : { ...need, type: 'write' };
  },
  input: triggerInput,
  output: z.object({
    plugin: z.string(),
    command: z.string(),
    job_id: z.string().nullable().describe('null when only pipelines know this name'),
    status: z.string().describe('of the job, or of the first run where there is no job'),
    job: jobOutput.nullable().describe('as `POST /plugin` answers'),
    runs: z.array(runOutput).describe('as `POST /pipeline` answers, in order of definition'),
  }),
  errors: [...new Set([...runPlugin.errors, ...runPipeline.errors])],
  http: {
    method: 'POST',
    path: '/trigger/:plugin/:command',
    body: 'payload',
    status: (answer) => (isAnswered(answer) ? 200 : 202),
  },
  cli: { absent: '`plugin run` and `pipeline run` start each of them by its name' },
  mcp: { absent: '`plugin_run` and `pipeline_run` start each of them by its name' },
  async run(context, input) {
    const wanted = toWanted(context, input);
    const waits = [wanted.jobWaitMs, ...wanted.runs.map(({ waitMs }) => waitMs)];
    const begin = () => trigger(context, input, wanted);
    return await (waits.some((ms) => ms > 0) ? whileWaiting(context, begin) : begin());
  },
  async plan(context, input) {
    const { job, runs } = toWanted(context, input);
    const { plugin, command, payload } = input;
    const wish = { plugin, command, payload };
    return [
      ...(job === undefined ? [] : ((await runPlugin.plan?.(context, wish)) ?? [])),
      ...runs.map(({ submission }) => `A run of ${submission.pipeline} would begin.`),
    ];
  },
});

interface Wanted {
  readonly job: Submission | undefined;
  readonly jobWaitMs: number;
  readonly runs: readonly WantedRun[];
}

interface WantedRun {
  readonly context: Context;
  readonly submission: RunSubmission;
  readonly waitMs: number;
}

/**
 * What a request asks for; refuses what may not be. Who says nothing about waiting gets what each
 * pipeline says, and does not wait for the job.
 */
function toWanted(context: Context, input: Triggered): Wanted {
  const { plugin, command, async: atOnce, wait, dependency, ...wish } = input;
  const pipelines = findWanted(context, input);
  for (const pipeline of pipelines) refuseDeniedSteps(context, pipeline);
  const bound = (ms: number): number => (atOnce ? 0 : boundWait(context, ms));
  const asked = wait ?? (isForLater(wish) ? false : undefined);
  const runs = pipelines.map((pipeline) => {
    const own = contextOf(context, pipeline);
    const waitMs = bound(runWaitOf(pipeline, asked));
    const run = { pipeline: pipeline.name, ...wish };
    return { context: own, waitMs, submission: runSubmissionOf(own, run, waitMs > 0) };
  });
  const jobWaitMs = bound(jobWaitOf(asked ?? false));
  // Where a pipeline answers to the name, there need not be such a command.
  if (pipelines.length > 0 && !hasCommand(context, input))
    return { job: undefined, jobWaitMs: 0, runs };
  const asJob = { plugin, command, dependency, ...wish };
  const submission = submissionOf(context, asJob, jobWaitMs > 0);
  // As the runs do, and as the jobs and runs of an event: one that is under way blocks too.
  return { job: { ...submission, blockInFlight: true }, jobWaitMs, runs };
}

async function trigger(context: Context, { plugin, command }: Triggered, wanted: Wanted) {
  const begun = await context.engine.trigger({
    job: wanted.job,
    runs: wanted.runs.map(({ submission }) => submission),
  });
  const tellOwn = async () =>
    wanted.job === undefined || begun.job === undefined
      ? null
      : await tellJob(context, wanted.job, begun.job, wanted.jobWaitMs);
  const [job, ...runs] = await Promise.all([
    tellOwn(),
    ...begun.runs.flatMap((started, index) => {
      const run = wanted.runs[index];
      return run === undefined ? [] : [tellRun(run.context, run.submission, started, run.waitMs)];
    }),
  ] as const);
  const status = job === null ? (runs[0]?.status ?? '') : job.status;
  return { plugin, command, job_id: job?.job_id ?? null, status, job, runs };
}

function findWanted(
  { engine }: Context,
  { plugin, command }: Pick<Triggered, 'plugin' | 'command'>,
): Pipeline[] {
  return engine.pipelines.filter(({ on }) => on === `${plugin}.${command}`);
}

function hasCommand({ engine }: Context, { plugin, command }: Triggered): boolean {
  const { commands = {} } = engine.catalog.plugins.get(plugin)?.manifest ?? {};
  return Object.hasOwn(commands, command);
}

/** Each run has an id of its own, which is the same when the request comes again. */
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

/** Whether all that was waited for has ended; a job that was not is shown without its times. */
function isAnswered({ job, runs }: { readonly job?: unknown; readonly runs?: unknown }): boolean {
  const told = [isObject(job) && 'created_at' in job ? [job] : [], runs].flat();
  return (
    told.length > 0 && told.every((one) => isObject(one) && typeof one['completed_at'] === 'string')
  );
}
