import { showRow } from '../base/show-row.ts';
import { serviceStateShape, showServiceState } from './system.directives.ts';
import { setTimeout as sleep } from 'node:timers/promises';
import { limits } from '../base/limits.ts';
import type { GenerationStatus } from './engine.ts';
import { defineOperation } from '../operation/define.ts';
import { readSummary, summaryShape } from '../insight/ledger-findings.operations.ts';
import { figuresOf, type QueueFigures } from '../job/figures.operations.ts';
import { checkPlugins, readHealth, type healthShape } from '../plugin/health.operations.ts';
import {
  pluginProblemsShape,
  showPluginProblems,
  readPluginStates,
  pluginStateShape,
} from '../plugin/operations.ts';
import { queueShape, showQueue } from '../job/operations.ts';
import { allows } from '../access/scopes.ts';
import { jobShape, showJob } from '../job/shapes.service.ts';
import * as z from 'zod';

const lastJobShape = jobShape.pick({
  job_id: true,
  plugin: true,
  command: true,
  status: true,
  attempt: true,
  created_at: true,
  completed_at: true,
  last_error: true,
});

const LAST_JOBS = 5;

const processShape = z.object({
  process_id: z.string(),
  host: z.string(),
  pid: z.int(),
  version: z.string(),
  slots: z.int(),
  spawner: z.string(),
  started_at: z.string(),
  last_heartbeat_at: z.string(),
});

export const systemStatus = defineOperation({
  name: 'system.status',
  summary: 'Show the service, its queue, its plugins and the latest jobs.',
  effect: 'read',
  scope: 'system:ro',
  input: z.strictObject({
    health: z
      .boolean()
      .default(false)
      .describe('run the health check of each plugin that you may run, and wait for the results'),
  }),
  output: serviceStateShape.extend({
    uptime_seconds: z.int(),
    slots: z.int().describe('attempts that this process may run at once'),
    spawner: z.enum(['native', 'node']),
    running: z.array(z.object({ job_id: z.string(), plugin: z.string(), command: z.string() })),
    ledger: z.enum(['sqlite', 'postgres']),
    api: z.string().nullable().describe('address of its API on its own host; null if none listens'),
    generation: z.object({
      number: z.int().describe('1 when the process starts; each reload adds 1'),
      config_snapshot_id: z.string(),
      loaded_at: z.string(),
      last_reload: z
        .object({ at: z.string(), by: z.string(), refused: z.string().nullable() })
        .nullable()
        .describe('the last requested reload; `refused` is the reason if it changed nothing'),
    }),
    findings: summaryShape,
    queue: queueShape,
    counts: z
      .object({
        signals_emitted: z.int(),
        directives_requested: z.int(),
        directives_completed: z.int(),
        directives_failed: z.int(),
        directives_cancelled: z.int(),
      })
      .describe('counts of this process since it started'),
    plugins: z.object({
      loaded: z.int(),
      unhealthy: z
        .record(z.string(), z.string())
        .describe('plugins whose init failed, with the reason; their jobs wait'),
      last_checks: z
        .record(z.string(), z.string())
        .describe('plugins with the result of their last `plugin health`'),
      problems: pluginProblemsShape,
      warnings: pluginProblemsShape,
      views: z
        .array(pluginStateShape)
        .describe('the state of plugins; empty without the scope plugin:ro'),
    }),
    last_jobs: z.array(lastJobShape).describe('newest first; empty without the scope jobs:ro'),
    processes: z.array(processShape),
  }),
  errors: ['INPUT_INVALID', 'LEDGER_UNAVAILABLE', 'SERVER_UNREACHABLE'],
  http: { method: 'GET', path: '/system/status' },
  cli: {
    examples: ['ductile system status', 'ductile status --health', 'ductile status --json'],
    alias: { name: 'status' },
    watch: true,
    exitCode: ({ state }) => (state === 'degraded' ? 1 : 0),
  },
  async run(context, { health: isCheckRequested }) {
    const { ledger, catalog } = context.engine;
    const { scopes } = context.principal;
    if (isCheckRequested) await checkPlugins(context);
    const { running, uptimeMs, slots, spawner, plugins } = context.engine.status();
    const { generation, counts: done } = context.engine.status();
    const [findings, queue, processes, health, jobs, views] = await Promise.all([
      readSummary(context),
      figuresOf(ledger).queue.get(),
      ledger.processes.list(),
      readHealth(ledger, catalog),
      allows(scopes, 'jobs:ro') ? ledger.jobs.list({ limit: LAST_JOBS }) : [],
      allows(scopes, 'plugin:ro') ? readPluginStates(ledger, catalog) : [],
    ]);
    return {
      ...showServiceState(context),
      uptime_seconds: Math.floor(uptimeMs / 1000),
      slots,
      spawner,
      running: running.map(({ jobId, plugin, command }) => ({ job_id: jobId, plugin, command })),
      ledger: ledger.kind,
      api: context.engine.reach.api ?? null,
      findings,
      queue: showQueue(queue),
      counts: {
        signals_emitted: done.signalsEmitted,
        directives_requested: done.directivesRequested,
        directives_completed: done.directivesCompleted,
        directives_failed: done.directivesFailed,
        directives_cancelled: done.directivesCancelled,
      },
      generation: showGeneration(generation),
      plugins: { loaded: plugins, ...showHealth(health), ...showPluginProblems(catalog), views },
      last_jobs: jobs.map((job) => lastJobShape.parse(showJob(job))),
      processes: processes.map((row) => showRow(processShape, row, { process_id: row.id })),
    };
  },
});

export const systemHealth = defineOperation({
  name: 'system.health',
  summary: 'Report to monitors whether the process is ready.',
  effect: 'read',
  scope: undefined,
  input: z.strictObject({}),
  output: z.object({
    status: z.enum(['ok', 'degraded', 'starting']),
    uptime_seconds: z.int(),
    queue_depth: z.int().nullable().describe('queued and running jobs; null when unknown'),
    plugins_loaded: z.int(),
    plugins_circuit_open: z.int().nullable().describe('null when unknown'),
    as_of: z
      .string()
      .nullable()
      .describe('when the figures were read; they are kept in memory and renewed every 2 seconds'),
  }),
  errors: [],
  http: {
    method: 'GET',
    path: '/healthz',
    openTo: 'monitors',
    status: ({ status }) => (status === 'ok' ? 200 : 503),
    statuses: [200, 503],
  },
  cli: { absent: '`system status` shows the same and more' },
  mcp: { absent: '`system_status` shows the same and more' },
  async run({ engine }) {
    const { state, uptimeMs, plugins } = engine.status();
    const { watched } = figuresOf(engine.ledger);
    await waitBriefly(watched.prime());
    const known = watched.peek();
    const isHealthy = known !== undefined && state !== 'degraded' && state !== 'stopping';
    const health = isHealthy ? ('ok' as const) : ('degraded' as const);
    return {
      status: state === 'starting' || state === 'stopped' ? ('starting' as const) : health,
      uptime_seconds: Math.floor(uptimeMs / 1000),
      queue_depth: known === undefined ? null : countOpen(known.value.queue),
      plugins_loaded: plugins,
      plugins_circuit_open: known?.value.openBreakers ?? null,
      as_of: known?.at ?? null,
    };
  },
});

export const systemCheck = defineOperation({
  name: 'system.check',
  summary: 'Check the database for damage and contradictions.',
  effect: 'read',
  scope: 'system:ro',
  input: z.strictObject({}),
  output: z.object({ ok: z.boolean(), problems: z.array(z.string()) }),
  errors: ['LEDGER_UNAVAILABLE'],
  http: { method: 'GET', path: '/system/check' },
  cli: { examples: ['ductile system check'], exitCode: ({ ok }) => (ok === true ? 0 : 1) },
  async run({ engine: { ledger } }) {
    const problems = await ledger.check();
    return { ok: problems.length === 0, problems };
  },
});

function showGeneration({ number, snapshotId, loadedAt, lastReload }: GenerationStatus) {
  return {
    number,
    config_snapshot_id: snapshotId,
    loaded_at: loadedAt,
    last_reload:
      lastReload === undefined ? null : { ...lastReload, refused: lastReload.refused ?? null },
  };
}

function showHealth(known: ReadonlyMap<string, z.output<typeof healthShape>>) {
  const unhealthy: Record<string, string> = {};
  const lastChecks: Record<string, string> = {};
  for (const [name, { init, check }] of known) {
    if (init?.status === 'unhealthy') unhealthy[name] = init.reason ?? 'its init failed';
    if (check !== null) lastChecks[name] = check.reason ?? check.status;
  }
  return { unhealthy, last_checks: lastChecks };
}

function countOpen({ ready, delayed, running }: QueueFigures): number {
  return ready + delayed + running;
}

/** Waits for a short time only, because a monitor needs a response even if the database gives none. */
async function waitBriefly<T>(work: Promise<T>): Promise<T | undefined> {
  const controller = new AbortController();
  const late = sleep(limits.healthMs, undefined, { signal: controller.signal, ref: false });
  try {
    return await Promise.race([work.catch(() => undefined), late]);
  } finally {
    controller.abort();
    await late.catch(() => undefined);
  }
}
