import { DuctileError } from '../base/errors.ts';
import type { Followers } from '../ledger/runs.ts';
import type { Graph } from '../pipeline/graph.ts';
import type { Context } from './context.ts';
import { listDenied, type Denied } from './scopes.ts';

/** What a directive would run; what is left out may be anything. */
type Reach = Partial<Denied>;

/** A command that was denied to a token is not run for it by way of a directive either. */
export async function refuseDenied(context: Context, type: string, params: object): Promise<void> {
  const denied = listDenied(context.principal.scopes);
  if (denied.length === 0) return;
  if (goesOn.has(type)) return await refuseDeniedRun(context, params);
  const reach = await reachOf(context, type, params);
  if (reach === undefined) return;
  const hit = denied.find(
    ({ plugin, command }) =>
      (reach.plugin ?? plugin) === plugin && (reach.command ?? command) === command,
  );
  if (hit === undefined) return;
  throw new DuctileError('FORBIDDEN', `the token denies ${hit.plugin} ${hit.command}`, {
    hint: 'Name a plugin and a command that are not denied, or use another token.',
  });
}

/** A command that was denied to a token is not run for it as a step either. */
export function refuseDeniedSteps(
  { principal }: Pick<Context, 'principal'>,
  { name, graph }: { readonly name: string; readonly graph: Graph },
): void {
  const nodes = Object.values(graph.nodes);
  for (const { plugin, command } of listDenied(principal.scopes)) {
    const isPart = nodes.some(
      (node) => node.kind === 'task' && node.plugin === plugin && node.command === command,
    );
    if (!isPart) continue;
    throw new DuctileError('FORBIDDEN', `the token denies ${plugin} ${command}, a step of ${name}`);
  }
}

/** Nor when it follows from a signal that the token reports. */
export function refuseDeniedFollowers(
  context: Pick<Context, 'engine' | 'principal'>,
  { jobs, runs }: Followers,
): void {
  for (const { plugin, command } of listDenied(context.principal.scopes)) {
    if (!jobs.some((job) => job.plugin === plugin && job.command === command)) continue;
    throw new DuctileError('FORBIDDEN', `the token denies ${plugin} ${command}, a handler of it`);
  }
  for (const { pipeline: name } of runs) {
    const pipeline = context.engine.pipelines.find((one) => one.name === name);
    if (pipeline !== undefined) refuseDeniedSteps(context, pipeline);
  }
}

/** Directives after which steps of a run are done. */
const goesOn: ReadonlySet<string> = new Set(['run.approve', 'run.retry_from', 'run.revive']);

async function refuseDeniedRun(
  context: Context,
  { run_id: runId }: { readonly run_id?: unknown },
): Promise<void> {
  const { ledger } = context.engine;
  const run = typeof runId === 'string' ? await ledger.run(runId) : undefined;
  const graph = run === undefined ? undefined : await ledger.definition(run.definitionHash);
  if (run !== undefined && graph !== undefined) {
    refuseDeniedSteps(context, { name: run.pipeline, graph });
  }
}

async function reachOf(
  { engine }: Context,
  type: string,
  params: Reach & { readonly job_id?: unknown },
): Promise<Reach | undefined> {
  const { plugin, command, job_id: jobId } = params;
  if (type === 'plugin.init' && plugin !== undefined) return { plugin, command: 'init' };
  // Whatever handles them is run, and which that will be is seen only then.
  if (type === 'signal.replay') return {};
  if (type !== 'job.retry') return undefined;
  if (typeof jobId === 'string') return await engine.ledger.job(jobId);
  return {
    ...(plugin === undefined ? {} : { plugin }),
    ...(command === undefined ? {} : { command }),
  };
}
