import * as z from 'zod';
import { fromTimestamp } from '../base/clock.ts';
import { DuctileError } from '../base/errors.ts';
import { parseStoredJson } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import { pluginName } from '../config/fields.ts';
import { isTerminal, type Job } from '../job/job.ts';
import type { PluginHealth } from '../job/types.ts';
import type { Ledger } from '../ledger/ledger.ts';
import {
  findPluginCommand,
  requireCommand,
  requireLoadedPlugin,
  type Catalog,
  type Plugin,
} from './catalog.ts';
import type { Context } from '../operation/context.ts';
import { defineOperation } from '../operation/define.ts';
import { allows } from '../access/scopes.ts';

const noteShape = z.object({
  status: z.enum(['pending', 'healthy', 'unhealthy']),
  reason: z.string().nullable(),
  job_id: z.string(),
  since: z.string(),
});

export const healthShape = z.object({
  init: noteShape
    .nullable()
    .describe('the result of its init; null if it has none or none was requested yet'),
  check: noteShape
    .nullable()
    .describe('the result of the last `plugin health`; null if there was none'),
});

/** Reads the health of each active plugin, by name; plugins without a result are absent. */
export async function readHealth(
  ledger: Ledger,
  catalog: Catalog,
): Promise<Map<string, z.output<typeof healthShape>>> {
  const found = new Map<string, z.output<typeof healthShape>>();
  for (const row of await ledger.plugins.listHealth()) {
    const plugin = catalog.plugins.get(row.plugin);
    if (plugin === undefined) continue;
    const known = found.get(row.plugin) ?? { init: null, check: null };
    const isCheck = row.kind === 'health';
    if (isCheck) found.set(row.plugin, { ...known, check: showNote(row) });
    else if (row.fingerprint === plugin.identity) {
      found.set(row.plugin, { ...known, init: showNote(row) });
    }
  }
  return found;
}

export const pluginHealth = defineOperation({
  name: 'plugin.health',
  summary: "Run a plugin's health check. Health checks never run automatically.",
  effect: 'read',
  scope: (_context, { plugin }) => ({ plugin, command: 'health', type: 'read' }),
  offeredWith: 'plugin',
  needs: 'server',
  input: z.strictObject({ plugin: pluginName().describe('the name of the plugin') }),
  output: healthShape.extend({
    plugin: z.string(),
    status: z
      .enum(['healthy', 'unhealthy', 'unknown'])
      .describe('`unknown` if the check has not finished: the service is busy or paused'),
    reason: z.string().nullable(),
    result: z.unknown().describe('the response of the plugin'),
    job_id: z.string(),
    duration_ms: z.int().nullable(),
  }),
  errors: ['COMMAND_NOT_FOUND', 'INPUT_INVALID', 'LEDGER_UNAVAILABLE', 'PLUGIN_NOT_FOUND'],
  http: { method: 'GET', path: '/plugin/:plugin/health' },
  cli: {
    positionals: ['plugin'],
    examples: ['ductile plugin health mail'],
    exitCode: ({ status }) => (status === 'healthy' ? 0 : 1),
  },
  async run(context, input) {
    const { engine } = context;
    const plugin = requireHealthCommand(context, input.plugin);
    const job = await runHealthCheck(context, plugin);
    const attempt = (await engine.ledger.attempts.listByJob([job.id])).at(-1);
    const status = statusOf(job);
    const known = (await readHealth(engine.ledger, engine.catalog)).get(plugin.name);
    return {
      plugin: plugin.name,
      status,
      reason: status === 'unhealthy' ? (job.lastError ?? job.status) : null,
      result: parseStoredJson(attempt?.result ?? null),
      job_id: job.id,
      duration_ms:
        job.completedAt === null
          ? null
          : fromTimestamp(job.completedAt) - fromTimestamp(job.createdAt),
      init: known?.init ?? null,
      check: known?.check ?? null,
    };
  },
});

/** Runs the health check of every plugin that has one and that the caller may run. */
export async function checkPlugins(context: Context): Promise<void> {
  const { engine, principal } = context;
  if (engine.status().state === 'stopped') {
    const message = 'health checks need a running service, and none runs here';
    throw new DuctileError('SERVER_UNREACHABLE', message, {
      hint: 'Start it with `ductile system start`, or leave out `--health`.',
    });
  }
  const plugins = [...engine.catalog.plugins.values()].filter(
    (plugin) =>
      findPluginCommand(plugin, 'health') !== undefined &&
      allows(principal.scopes, { plugin: plugin.name, command: 'health', type: 'read' }),
  );
  await Promise.all(plugins.map((plugin) => runHealthCheck(context, plugin)));
}

/** Runs the check as a job, so that it is on record. Its result is stored until the next one. */
async function runHealthCheck(
  { engine, principal, submittedBy }: Context,
  plugin: Plugin,
): Promise<Job> {
  const { jobId } = await engine.submit({
    plugin: plugin.name,
    command: 'health',
    payload: {},
    submittedBy,
    actor: principal.actor,
    isAwaited: true,
  });
  const patienceMs = plugin.timeoutMs('health') + limits.killGraceMs + limits.drainMs;
  const job = await engine.waitFor(jobId, Math.min(2 * patienceMs, limits.jobWaitMs));
  const status = statusOf(job);
  if (status !== 'unknown') {
    const reason = status === 'healthy' ? null : (job.lastError ?? job.status);
    await engine.ledger.plugins.recordHealth({ plugin: plugin.name, status, reason, jobId });
  }
  return job;
}

function statusOf({ status }: Job): 'healthy' | 'unhealthy' | 'unknown' {
  if (!isTerminal(status)) return 'unknown';
  return status === 'succeeded' ? 'healthy' : 'unhealthy';
}

function requireHealthCommand({ engine: { catalog } }: Context, name: string): Plugin {
  const plugin = requireLoadedPlugin(catalog, name);
  requireCommand(plugin, 'health');
  return plugin;
}

function showNote({ status, reason, jobId, updatedAt }: PluginHealth): z.output<typeof noteShape> {
  return { status, reason, job_id: jobId, since: updatedAt };
}
