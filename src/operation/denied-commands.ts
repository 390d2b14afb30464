import { DuctileError } from '../base/errors.ts';
import { compact, type JsonObject } from '../base/json.ts';
import { parseJson } from '../base/parse-json.ts';
import type { Config } from '../config/config.ts';
import { resolveTarget } from '../pipeline/check-routes.service.ts';
import { findEndpoint } from '../webhook/store.service.ts';
import { webhookSource, DELIVERY_SIGNAL } from '../signal/signal.ts';
import type { Graph } from '../pipeline/language/graph.ts';
import { isPipelineFor, ANY_EVENT, matchRoutes } from '../pipeline/language/pipeline.ts';
import { webhookDefaults } from '../webhook/target.ts';
import type { Context } from './context.ts';
import { listDeniedCommands, type DeniedCommand } from '../access/scopes.ts';

/** The commands that a directive would start; an absent field means any. */
type CommandFilter = Partial<DeniedCommand>;

/** Refuses a directive that would run a command that is denied to the token. */
export async function refuseDenied(context: Context, type: string, params: object): Promise<void> {
  const denied = listDeniedCommands(context.principal.scopes);
  if (denied.length === 0) return;
  if (continuesRun.has(type)) return await refuseDeniedRun(context, params);
  if (type.startsWith('webhook.')) return await refuseDeniedWebhook(context, type, params);
  const started = await findCommands(context, type, params);
  if (started === undefined) return;
  const match = denied.find(
    ({ plugin, command }) =>
      (started.plugin ?? plugin) === plugin && (started.command ?? command) === command,
  );
  if (match === undefined) return;
  throw new DuctileError('FORBIDDEN', `the token denies ${match.plugin} ${match.command}`, {
    hint: 'Name a plugin and a command that are not denied, or use another token.',
  });
}

/** Refuses steps that would run a command that is denied to the token. */
export function refuseDeniedSteps(
  { principal }: Pick<Context, 'principal'>,
  { name, graph }: { readonly name: string; readonly graph: Graph },
): void {
  const nodes = Object.values(graph.nodes);
  for (const { plugin, command } of listDeniedCommands(principal.scopes)) {
    const isPart = nodes.some(
      (node) => node.kind === 'task' && node.plugin === plugin && node.command === command,
    );
    if (!isPart) continue;
    throw new DuctileError('FORBIDDEN', `the token denies ${plugin} ${command}, a step of ${name}`);
  }
}

interface StartedWork {
  readonly jobs: readonly DeniedCommand[];
  readonly runs: readonly { readonly pipeline: string }[];
}

/** Refuses signals whose followers would run a denied command. */
export function refuseDeniedFollowers(
  context: Pick<Context, 'engine' | 'principal'>,
  { jobs, runs }: StartedWork,
): void {
  for (const { plugin, command } of listDeniedCommands(context.principal.scopes)) {
    if (!jobs.some((job) => job.plugin === plugin && job.command === command)) continue;
    throw new DuctileError('FORBIDDEN', `the token denies ${plugin} ${command}, a handler of it`);
  }
  for (const { pipeline: name } of runs) {
    const pipeline = context.engine.pipelines.find((one) => one.name === name);
    if (pipeline !== undefined) refuseDeniedSteps(context, pipeline);
  }
}

/** Directives that continue a run. */
const continuesRun: ReadonlySet<string> = new Set(['run.approve', 'run.retry_from', 'run.revive']);

async function refuseDeniedRun(
  context: Context,
  { run_id: runId }: { readonly run_id?: unknown },
): Promise<void> {
  const { ledger } = context.engine;
  const run = typeof runId === 'string' ? await ledger.runs.find(runId) : undefined;
  const graph =
    run === undefined ? undefined : await ledger.runs.findDefinition(run.definitionHash);
  if (run !== undefined && graph !== undefined) {
    refuseDeniedSteps(context, { name: run.pipeline, graph });
  }
}

interface WebhookParams {
  readonly id?: string;
  readonly delivery_id?: string;
  /** The settings of a new webhook. */
  readonly settings?: JsonObject;
  readonly changes?: JsonObject;
}

/** Refuses changes of a webhook that would run a denied command. */
async function refuseDeniedWebhook(
  context: Context,
  type: string,
  { id: named = '', delivery_id: deliveryId, settings, changes }: WebhookParams,
): Promise<void> {
  if (type === 'webhook.delete') return;
  const { ledger } = context.engine;
  const [delivery] =
    deliveryId === undefined ? [] : await ledger.deliveries.list({ id: deliveryId, limit: 1 });
  const id = delivery?.webhookId ?? named;
  const row = await ledger.webhooks.find(id);
  const current =
    row === undefined ? readEndpoint(context, id) : (parseJson(row.settings) as JsonObject);
  refuseDeniedDelivery(context, id, { ...current, ...settings, ...changes });
}

function readEndpoint({ engine: { config } }: Pick<Context, 'engine'>, path: string): JsonObject {
  const target = findEndpoint(config.webhooks, path)?.target;
  return target?.kind === 'command' ? { plugin: target.plugin, command: target.command } : {};
}

/** Refuses a delivery whose webhook would run a denied command. */
function refuseDeniedDelivery(
  context: Pick<Context, 'engine' | 'principal'>,
  id: string,
  { plugin, command, pipeline, signal, mode }: JsonObject,
): void {
  const { config, catalog, pipelines } = context.engine;
  const event = {
    source: webhookSource(id),
    type: typeof signal === 'string' ? signal : DELIVERY_SIGNAL,
    event: ANY_EVENT,
  } as const;
  const handle = typeof command === 'string' ? command : webhookDefaults.command;
  const routed = matchRoutes(config.routes, event).map((route) => resolveTarget(route, catalog));
  refuseDeniedFollowers(context, {
    jobs: [
      ...(typeof plugin === 'string' ? [{ plugin, command: handle }] : []),
      ...(typeof mode === 'string' ? [agentCommand(mode, config)] : []),
      ...routed.flatMap((target) => ('plugin' in target ? [target] : [])),
    ],
    runs: pipelines
      .filter((one) => one.name === pipeline || isPipelineFor(one, event))
      .map(({ name }) => ({ pipeline: name })),
  });
}

function agentCommand(mode: string, { webhooks }: Config): DeniedCommand {
  return { plugin: webhooks.agent, command: mode === 'wake' ? 'turn' : 'task' };
}

async function findCommands(
  { engine }: Context,
  type: string,
  params: CommandFilter & { readonly job_id?: unknown },
): Promise<CommandFilter | undefined> {
  const { plugin, command, job_id: jobId } = params;
  if (type === 'plugin.init' && plugin !== undefined) return { plugin, command: 'init' };
  // The commands that follow are only known when it is replayed.
  if (type === 'signal.replay') return {};
  if (type !== 'job.retry') return undefined;
  if (typeof jobId === 'string') return await engine.ledger.jobs.find(jobId);
  return {
    ...compact({ plugin, command }),
  };
}
