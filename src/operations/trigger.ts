import { createHash } from 'node:crypto';
import * as z from 'zod';
import { commandName, pluginName } from '../config/fields.ts';
import type { Pipeline } from '../pipeline/pipeline.ts';
import type { Context } from './context.ts';
import { defineOperation } from './define.ts';
import { refuseDeniedSteps } from './denied.ts';
import { runOutput, startRun, waitOf } from './pipeline-run.ts';
import { needOf, runPlugin } from './run.ts';
import { boundWait, whileWaiting } from './waiting.ts';

const triggerInput = z.strictObject({
  plugin: pluginName().describe('the name of the plugin'),
  command: commandName().describe('what to ask of it'),
  payload: z.record(z.string(), z.unknown()).default({}).describe('a JSON object'),
  async: z.boolean().default(false).describe('answer at once, also for a synchronous pipeline'),
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
    runs: z.array(runOutput),
  }),
  errors: runPlugin.errors,
  http: {
    method: 'POST',
    path: '/trigger/:plugin/:command',
    body: 'payload',
    status: ({ runs }) => (isAnswered(runs) ? 200 : 202),
  },
  cli: { absent: '`plugin run` and `pipeline run` start each of them by its name' },
  async run(context, input) {
    const pipelines = findWanted(context, input);
    for (const pipeline of pipelines) refuseDeniedSteps(context, pipeline);
    const waitFor = (pipeline: Pipeline): number =>
      input.async ? 0 : boundWait(context, waitOf(pipeline));
    const start = async () => {
      const { plugin, command, payload } = input;
      const job = await startJob(context, input, pipelines.length > 0);
      const runs = await Promise.all(
        pipelines.map((pipeline) =>
          startRun(
            contextOf(context, pipeline),
            { pipeline: pipeline.name, payload },
            waitFor(pipeline),
          ),
        ),
      );
      const status = job === undefined ? (runs[0]?.status ?? '') : String(job['status']);
      return {
        plugin,
        command,
        job_id: job === undefined ? null : String(job['job_id']),
        status,
        runs,
      };
    };
    const waits = pipelines.some((pipeline) => waitFor(pipeline) > 0);
    return await (waits ? whileWaiting(context, start) : start());
  },
  async plan(context, input) {
    const pipelines = findWanted(context, input);
    const { plugin, command, payload } = input;
    const job = hasCommand(context, input) || pipelines.length === 0;
    return [
      ...(job ? ((await runPlugin.plan?.(context, { plugin, command, payload })) ?? []) : []),
      ...pipelines.map(({ name }) => `A run of ${name} would begin.`),
    ];
  },
});

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

/** Where a pipeline answers to the name, there need not be such a command. */
async function startJob(context: Context, input: Triggered, isOptional: boolean) {
  if (isOptional && !hasCommand(context, input)) return undefined;
  const { plugin, command, payload } = input;
  return await runPlugin.run(context, { plugin, command, payload, async: true, wait: false });
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

function isAnswered(runs: unknown): boolean {
  if (!Array.isArray(runs) || runs.length === 0) return false;
  return runs.every((run: { completed_at?: unknown }) => typeof run.completed_at === 'string');
}
