import * as z from 'zod';
import type { Need } from '../access/scopes.ts';
import { fromTimestamp } from '../base/clock.ts';
import { DuctileError, toDuctileError } from '../base/errors.ts';
import { dependencyKey, toDue } from '../base/fields.ts';
import { compact, parseStoredJson } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import { commandName, pluginName } from '../config/fields.ts';
import type { Context } from '../operation/context.ts';
import { defineOperation } from '../operation/define.ts';
import { readVisibility, maskAttempt, maskJob } from '../operation/visibility.ts';
import { unfinishedFields } from '../pipeline/run/waits.service.ts';
import { requireCommand, requirePlugin, type Plugin } from '../plugin/catalog.ts';
import type { Attempt } from './attempt.ts';
import type { JobSubmission } from './enqueue.service.ts';
import { type Job, isTerminal } from './job.ts';
import { requireJob, jobIdField } from './operations.ts';
import { jobShape, showJob } from './shapes.service.ts';
import {
  startFields,
  toStartRequest,
  limitWait,
  waitField,
  awaitEnd,
  withWaiterSlot,
} from './start-options.operations.ts';
import type { EnqueueResult } from './types.ts';

export const dependencyField = dependencyKey()
  .optional()
  .describe('a key; jobs with the same key run one at a time, first come, first served');

const runInput = z.strictObject({
  plugin: pluginName().describe('the name of the plugin'),
  command: commandName()
    .optional()
    .describe('the command to run (default: `poll` if the plugin has it, otherwise `handle`)'),
  payload: z.record(z.string(), z.unknown()).default({}).describe('a JSON object'),
  async: z
    .boolean()
    .default(false)
    .describe('return immediately, even if `wait` is set (default: false)'),
  wait: waitField().default(false).describe('longest wait for the end of the job, such as 30s'),
  ...startFields,
  dependency: dependencyField,
});

export const jobOutput = jobShape.partial().extend({
  ...jobShape.pick({ job_id: true, status: true, plugin: true, command: true }).shape,
  duplicate: z.boolean().optional().describe('true if this job already existed; no job was added'),
  timeout_exceeded: z
    .boolean()
    .optional()
    .describe('true if the job had not ended when the wait was over'),
  ...unfinishedFields,
  duration_ms: z.int().nullable().optional(),
  result: z.unknown().optional(),
  stderr: z.string().nullable().optional(),
});

export const runPlugin = defineOperation({
  name: 'plugin.run',
  summary: 'Start a job of a plugin, and optionally wait for its end.',
  effect: 'write',
  scope: findCommandNeed,
  offeredWith: 'plugin',
  scopeIn: 'url',
  input: runInput,
  output: jobOutput,
  errors: [
    'BUSY',
    'COMMAND_NOT_FOUND',
    'HOPS_EXCEEDED',
    'INPUT_INVALID',
    'LEDGER_UNAVAILABLE',
    'LEDGER_UNCERTAIN',
    'PAYLOAD_TOO_LARGE',
    'PLUGIN_INVALID',
    'PLUGIN_NOT_FOUND',
    'STOPPING',
    'TENANT_LIMIT',
    'TENANT_SUSPENDED',
  ],
  http: {
    method: 'POST',
    path: '/plugin/:plugin/:command?',
    body: 'payload',
    status: ({ completed_at }) => (typeof completed_at === 'string' ? 200 : 202),
    location: '/job/:job_id',
  },
  cli: {
    positionals: ['plugin'],
    flags: { command: '-c, --command <name>', wait: '--wait <duration>' },
    defaults: { wait: '5m' },
    examples: [
      'ductile plugin run mail',
      'ductile plugin run echo --command handle --payload \'{"message":"hello"}\'',
      'ductile plugin run import --payload-file - --no-wait < request.json',
    ],
    alias: { name: 'run', positionals: ['plugin'] },
    // A timeout while waiting counts as a failure.
    exitCode: ({ status, completed_at, timeout_exceeded }) =>
      status === 'succeeded' || (typeof completed_at !== 'string' && timeout_exceeded === undefined)
        ? 0
        : 1,
  },
  async run(context, { wait, async: atOnce, ...input }) {
    const waitMs = atOnce ? 0 : limitWait(context, toJobWaitMs(wait));
    const start = async () => {
      const submission = toJobSubmission(context, input, waitMs > 0);
      return await showStartedJob(
        context,
        submission,
        await context.engine.submit(submission),
        waitMs,
      );
    };
    return await (waitMs === 0 ? start() : withWaiterSlot(context, start));
  },
  plan(context, input) {
    const { name, command, type } = chooseCommand(context, input);
    toDue(input);
    return Promise.resolve([`A job of ${name} ${command} (a ${type} command) will be queued.`]);
  },
});

export const waitForJob = defineOperation({
  name: 'job.wait',
  summary: 'Wait for the end of a job, and return what `plugin run` returns.',
  effect: 'read',
  needs: 'server',
  scope: 'jobs:ro',
  input: z.strictObject({
    id: jobIdField,
    wait: waitField().default(true).describe('longest wait for the end of the job, such as 30s'),
  }),
  output: jobOutput,
  errors: ['BUSY', 'INPUT_INVALID', 'JOB_NOT_FOUND', 'LEDGER_UNAVAILABLE', 'LEDGER_UNCERTAIN'],
  http: { method: 'GET', path: '/job/:id/wait' },
  cli: {
    positionals: ['id'],
    flags: { wait: '--wait <duration>' },
    defaults: { wait: '5m' },
    examples: ['ductile job wait 0199a1b2-c3d4-7e5f', 'ductile job wait 0199a1b2 --wait 1h'],
    exitCode: ({ status }) => (status === 'succeeded' ? 0 : 1),
  },
  async run(context, { id, wait }) {
    const job = await requireJob(context, id);
    const waitMs = Math.max(1, limitWait(context, toJobWaitMs(wait)));
    return await withWaiterSlot(context, () =>
      showStartedJob(context, job, { jobId: job.id }, waitMs),
    );
  },
});

type RunInput = Omit<z.output<typeof runInput>, 'wait' | 'async'>;
type RunOutput = z.output<typeof jobOutput>;

/**
 * Returns the scope that a command needs: a command that only reads needs less than one that
 * writes.
 */
export function findCommandNeed({ engine }: Context, { plugin, command }: CommandInput): Need {
  const known = engine.catalog.plugins.get(plugin);
  const chosen = known === undefined ? command : (command ?? findDefaultCommand(known));
  const declared = chosen === undefined ? undefined : known?.manifest.commands[chosen];
  return {
    plugin,
    ...compact({ command: chosen }),
    type: declared?.type ?? 'read',
  };
}

/** Translates the `wait` option. `true` means as long as possible. */
export function toJobWaitMs(wait: boolean | number): number {
  if (typeof wait === 'number') return wait;
  return wait ? limits.timerMsMax : 0;
}

export function toJobSubmission(
  context: Context,
  input: RunInput,
  isAwaited: boolean,
): JobSubmission {
  const { name: plugin, command } = chooseCommand(context, input);
  const { dependency } = input;
  return {
    plugin,
    command,
    ...toStartRequest(context, input, isAwaited),
    ...compact({ dependencyKey: dependency }),
  };
}

/**
 * Shows a job that was started. Without waiting, only a duplicate is read back: the rest is known,
 * and most callers don't wait.
 */
export async function showStartedJob(
  context: Context,
  { plugin, command }: Pick<JobSubmission, 'plugin' | 'command'>,
  { jobId, duplicateOf }: EnqueueResult,
  waitMs: number,
): Promise<RunOutput> {
  const isDuplicate = duplicateOf !== undefined;
  if (waitMs === 0 && !isDuplicate) return { job_id: jobId, status: 'queued', plugin, command };
  const read = await readAccepted(context, duplicateOf ?? jobId, waitMs);
  const { isStill } = read;
  const visibility = await readVisibility(context, read.job);
  const job = maskJob(read.job, visibility);
  const attempt = read.attempt && maskAttempt(read.attempt, visibility);
  if (waitMs === 0) return { ...showJob(job), duplicate: true };
  return {
    ...showJob(job),
    duplicate: isDuplicate,
    timeout_exceeded: !isTerminal(job.status) && !isStill,
    duration_ms: durationOf(job),
    result: parseStoredJson(attempt?.result ?? null),
    stderr: attempt?.stderr ?? null,
  };
}

/** Reads an accepted job. After the commit, no error may suggest that it wasn't accepted. */
async function readAccepted(
  context: Context,
  jobId: string,
  waitMs: number,
): Promise<{ job: Job; attempt: Attempt | undefined; isStill: boolean }> {
  const { engine } = context;
  try {
    const { found: job, isStill } = await awaitEnd(
      context,
      () => engine.ledger.jobs.find(jobId),
      (givenUp) => engine.waitFor(jobId, waitMs, givenUp),
    );
    const attempts = await engine.ledger.attempts.listByJob([jobId]);
    return { job, attempt: attempts.at(-1), isStill };
  } catch (thrown) {
    const error = toDuctileError(thrown);
    if (error.code !== 'LEDGER_UNAVAILABLE') throw error;
    const message = `job ${jobId} was accepted, but its status cannot be read: ${error.message}`;
    throw new DuctileError('LEDGER_UNCERTAIN', message, {
      hint: 'Look up that job when the database is available again. Do not start it again.',
      details: { job_id: jobId },
      cause: thrown,
    });
  }
}

/** A plugin and a command, as they are in the input. */
interface CommandInput {
  readonly plugin: string;
  readonly command?: string | undefined;
}

/** A command that exists. */
interface CommandChoice {
  readonly name: string;
  readonly command: string;
  readonly type: string;
}

/** Chooses the command, or throws why it can't run. Without a command, it is the default one. */
function chooseCommand(
  { engine: { catalog } }: Context,
  { plugin: name, command }: CommandInput,
): CommandChoice {
  const plugin = requirePlugin(catalog, name);
  const chosen = command ?? findDefaultCommand(plugin);
  return { name, command: chosen, type: requireCommand(plugin, chosen).type };
}

function findDefaultCommand({ manifest }: Plugin): string {
  return 'poll' in manifest.commands ? 'poll' : 'handle';
}

function durationOf({ createdAt, completedAt }: Job): number | null {
  return completedAt === null ? null : fromTimestamp(completedAt) - fromTimestamp(createdAt);
}
