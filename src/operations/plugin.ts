import * as z from 'zod';
import { fromTimestamp } from '../base/clock.ts';
import { DuctileError, toDuctileError } from '../base/errors.ts';
import { limits } from '../base/limits.ts';
import { commandName, duration, pluginName, text } from '../config/fields.ts';
import { suggest } from '../config/nearest.ts';
import type { Problem } from '../config/problem.ts';
import type { Attempt } from '../job/attempt.ts';
import type { Job } from '../job/job.ts';
import { isTerminal } from '../job/state.ts';
import type { Catalog, Plugin } from '../plugin/catalog.ts';
import type { Context } from './context.ts';
import { defineOperation } from './define.ts';
import { jobShape, parseStored, showJob } from './shapes.ts';

const problemShape = z.object({
  plugin: z.string().nullable(),
  place: z.string(),
  message: z.string(),
  hint: z.string().nullable(),
});

export const problemsShape = z.array(problemShape);

export const listPlugins = defineOperation({
  name: 'plugin.list',
  summary: 'List the plugins, and those that did not load with the reason.',
  effect: 'read',
  scope: undefined,
  input: z.strictObject({}),
  output: z.object({
    plugins: z.array(
      z.object({
        name: z.string(),
        uses: z.string().nullable().describe('the plugin whose code runs under this name'),
        version: z.string(),
        description: z.string().nullable(),
        commands: z.array(z.string()),
        types: z.record(z.string(), z.enum(['read', 'write'])).describe('by command'),
        parallelism: z.int(),
      }),
    ),
    dormant: z
      .record(z.string(), z.array(z.string()))
      .describe('by name, the keys it must be given'),
    disabled: z.array(z.string()),
    problems: problemsShape,
    warnings: problemsShape,
  }),
  errors: [],
  http: { method: 'GET', path: '/plugins' },
  cli: {
    examples: ['ductile plugin list', 'ductile plugin list --json'],
    alias: { name: 'plugins' },
  },
  run({ engine: { catalog } }) {
    return Promise.resolve({
      plugins: [...catalog.plugins.values()].map(showPlugin),
      dormant: Object.fromEntries([...catalog.dormant].map(([name, keys]) => [name, [...keys]])),
      disabled: [...catalog.disabled],
      ...showProblems(catalog),
    });
  },
});

export const runPlugin = defineOperation({
  name: 'plugin.run',
  summary: 'Start a job of a plugin and, if asked, wait for its end.',
  effect: 'write',
  scope: 'plugin:rw',
  input: z.strictObject({
    plugin: pluginName().describe('the name of the plugin'),
    command: commandName()
      .optional()
      .describe('what to ask of it (poll if it has that, else handle)'),
    payload: z.record(z.string(), z.json()).default({}).describe('a JSON object'),
    wait: z
      .union([z.boolean(), duration({ minMs: 0, maxMs: limits.jobWaitMs })])
      .default(false)
      .describe('how long to wait for the end of the job'),
    context: z
      .record(z.string(), z.json())
      .optional()
      .describe('baggage for the chain, a JSON object'),
    dedupe_key: text().optional().describe('jobs with the same key are done once'),
  }),
  output: jobShape.extend({
    duplicate: z.boolean().describe('this job had been asked for before; nothing was added'),
    timeout_exceeded: z.boolean().describe('it had not ended when the wait was over'),
    duration_ms: z.int().nullable(),
    result: z.unknown(),
    stderr: z.string().nullable(),
  }),
  errors: [
    'COMMAND_NOT_FOUND',
    'INPUT_INVALID',
    'LEDGER_UNAVAILABLE',
    'LEDGER_UNCERTAIN',
    'PAYLOAD_TOO_LARGE',
    'PLUGIN_INVALID',
    'PLUGIN_NOT_FOUND',
    'STOPPING',
  ],
  http: {
    method: 'POST',
    path: '/plugin/:plugin/:command?',
    body: 'payload',
    status: ({ completed_at }) => (completed_at === null ? 202 : 200),
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
    exitCode: ({ status, completed_at, timeout_exceeded }) =>
      status === 'succeeded' || (completed_at === null && timeout_exceeded === false) ? 0 : 1,
  },
  async run(context, { wait, payload, dedupe_key: dedupeKey, context: baggage, ...wanted }) {
    const { engine, actor, submittedBy } = context;
    const { name: plugin, command } = choose(context, wanted);
    const { jobId, duplicateOf } = await engine.submit({
      plugin,
      command,
      payload,
      submittedBy,
      actor,
      ...(baggage === undefined ? {} : { context: baggage }),
      ...(dedupeKey === undefined ? {} : { dedupeKey }),
    });
    const waitMs = typeof wait === 'number' ? wait : wait ? limits.jobWaitMs : 0;
    const { job, attempt } = await readAccepted(context, duplicateOf ?? jobId, waitMs);
    return {
      ...showJob(job),
      duplicate: duplicateOf !== undefined,
      timeout_exceeded: waitMs > 0 && !isTerminal(job.status),
      duration_ms: durationOf(job),
      result: parseStored(attempt?.result ?? null),
      stderr: attempt?.stderr ?? null,
    };
  },
  plan(context, input) {
    const { name, command, type } = choose(context, input);
    return Promise.resolve([`A job of ${name} ${command} (a ${type} command) would be queued.`]);
  },
});

/** From its commit on, no failure may sound as if nothing had been accepted. */
async function readAccepted(
  { engine }: Context,
  jobId: string,
  waitMs: number,
): Promise<{ job: Job; attempt: Attempt | undefined }> {
  try {
    const job = await engine.waitFor(jobId, waitMs);
    const attempts = await engine.ledger.attempts([jobId]);
    return { job, attempt: attempts.at(-1) };
  } catch (thrown) {
    const error = toDuctileError(thrown);
    if (error.code !== 'LEDGER_UNAVAILABLE') throw error;
    const message = `job ${jobId} was accepted, but what became of it cannot be read: ${error.message}`;
    throw new DuctileError('LEDGER_UNCERTAIN', message, {
      hint: 'Ask for that job when the database is back, instead of starting it again.',
      details: { job_id: jobId },
      cause: thrown,
    });
  }
}

export function showProblems({ problems, warnings }: Catalog): {
  problems: z.output<typeof problemsShape>;
  warnings: z.output<typeof problemsShape>;
} {
  return {
    problems: problems.map((problem) => ({ ...showProblem(problem), plugin: problem.plugin })),
    warnings: warnings.map(showProblem),
  };
}

function showProblem({ place, key, message, hint }: Problem): z.output<typeof problemShape> {
  return { plugin: null, place, message: `${key} ${message}`.trim(), hint: hint ?? null };
}

function showPlugin({ name, uses, manifest, parallelism }: Plugin) {
  const commands = Object.values(manifest.commands);
  return {
    name,
    uses: uses ?? null,
    version: manifest.version,
    description: manifest.description ?? null,
    commands: commands.map((command) => command.name),
    types: Object.fromEntries(commands.map((command) => [command.name, command.type])),
    parallelism,
  };
}

interface Wanted {
  readonly plugin: string;
  readonly command?: string | undefined;
}

interface Chosen {
  readonly name: string;
  readonly command: string;
  readonly type: string;
}

/** Refuses with the reason what cannot run; a caller who names no command means the usual one. */
function choose({ engine: { catalog } }: Context, { plugin: name, command }: Wanted): Chosen {
  const plugin = catalog.plugins.get(name) ?? refuse(catalog, name);
  const { commands } = plugin.manifest;
  const chosen = command ?? ('poll' in commands ? 'poll' : 'handle');
  const declared = commands[chosen];
  if (declared !== undefined) return { name, command: chosen, type: declared.type };
  throw new DuctileError('COMMAND_NOT_FOUND', `the plugin ${name} has no command ${chosen}`, {
    hint: suggest(chosen, Object.keys(commands), 'commands'),
  });
}

function refuse(catalog: Catalog, name: string): never {
  const problem = catalog.problems.find(({ plugin }) => plugin === name);
  if (problem !== undefined) {
    const { message, place, hint } = showProblem(problem);
    throw new DuctileError('PLUGIN_INVALID', `the plugin ${name} did not load: ${message}`, {
      place,
      ...(hint === null ? {} : { hint }),
    });
  }
  const needed = catalog.dormant.get(name);
  if (needed !== undefined) {
    const keys = needed.map((key) => `plugins.${name}.config.${key}`).join(', ');
    const hint = `Set ${keys}.`;
    throw new DuctileError('PLUGIN_INVALID', `the plugin ${name} is not set up yet`, { hint });
  }
  if (catalog.disabled.has(name)) {
    const hint = `Set plugins.${name}.enabled to true.`;
    throw new DuctileError('PLUGIN_NOT_FOUND', `the plugin ${name} is disabled`, { hint });
  }
  const hint = suggest(name, [...catalog.plugins.keys()], 'plugins');
  throw new DuctileError('PLUGIN_NOT_FOUND', `there is no plugin ${name}`, { hint });
}

function durationOf({ createdAt, completedAt }: Job): number | null {
  return completedAt === null ? null : fromTimestamp(completedAt) - fromTimestamp(createdAt);
}
