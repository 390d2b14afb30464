import { suggest } from '../base/text.ts';
import { makeProblem, type Problem } from '../config/problem.ts';
import { findLookalikes, type CompileFault, type PipelineLibrary } from './language/check.ts';
import { compilePipeline } from './language/compile.ts';
import type { PipelineEntry } from './language/entry.ts';
import { checkFlow, type CommandContract } from './language/flow.ts';
import type { Graph } from './language/graph.ts';
import type { Pipeline } from './language/pipeline.ts';
import { findPluginCommand, type Catalog } from '../plugin/catalog.ts';
import { resolveTarget } from './check-routes.service.ts';

export interface CheckedPipelines {
  /** The compiled pipelines that are active. */
  readonly pipelines: readonly Pipeline[];
  readonly problems: readonly Problem[];
  readonly warnings: readonly Problem[];
}

/** Compiles the configured pipelines with the loaded plugins. */
export function checkPipelines(
  configured: readonly PipelineEntry[],
  catalog: Catalog,
): CheckedPipelines {
  const library = makeLibrary(configured, catalog);
  const pipelines: Pipeline[] = [];
  const problems: Problem[] = [];
  const warnings: Problem[] = [];
  for (const entry of configured) {
    const { graph, faults } = compilePipeline(entry, library);
    warnings.push(...findLookalikes(entry).map((fault) => toProblem(entry, fault)));
    const all = [...faults, ...(graph === undefined ? [] : checkFlow(entry, library))];
    problems.push(...all.map((fault) => toProblem(entry, fault)));
    const unknown = findUnknownSource(entry, catalog);
    if (unknown !== undefined) problems.push(unknown);
    if (graph === undefined || all.length > 0) continue;
    const disabled = findDisabled(graph, catalog);
    if (disabled === undefined) pipelines.push(toPipeline(entry, graph));
    else {
      const message = `uses ${disabled}, which is disabled; the pipeline is inactive`;
      warnings.push(toProblem(entry, { path: ['name'], message }));
    }
  }
  return { pipelines, problems, warnings };
}

type LibraryWithContracts = PipelineLibrary & {
  readonly contractOf: (uses: string) => CommandContract | undefined;
};

function makeLibrary(configured: readonly PipelineEntry[], catalog: Catalog): LibraryWithContracts {
  const find = (uses: string) => resolveTarget({ to: uses, command: undefined }, catalog);
  return {
    pipelines: new Map(configured.map((entry) => [entry.name, entry])),
    suggest,
    resolve(uses) {
      const target = find(uses);
      if ('fault' in target) return target;
      const maxAttempts = catalog.plugins.get(target.plugin)?.retry.maxAttempts;
      return { ...target, maxAttempts };
    },
    contractOf(uses) {
      const target = find(uses);
      const plugin = 'fault' in target ? undefined : catalog.plugins.get(target.plugin);
      if ('fault' in target || plugin === undefined) return undefined;
      const command = findPluginCommand(plugin, target.command);
      if (command === undefined) return undefined;
      return { inputSchema: command.inputSchema, emits: keysOf(command.values.emit) };
    },
  };
}

/** Returns undefined if an event can have any keys, or if no event is declared. */
function keysOf(
  emit: readonly { readonly values: readonly string[] }[],
): ReadonlySet<string> | undefined {
  if (emit.length === 0 || emit.some(({ values }) => values.length === 0)) return undefined;
  const keys = emit.flatMap(({ values }) => values.map((value) => value.split('.')[1] ?? '*'));
  return keys.includes('*') ? undefined : new Set(keys);
}

function findUnknownSource(entry: PipelineEntry, catalog: Catalog): Problem | undefined {
  const { plugins, disabled, unloaded } = catalog;
  const { fromPlugin: name } = entry;
  if (name === undefined || plugins.has(name)) return undefined;
  if (disabled.has(name) || unloaded.has(name)) return undefined;
  const hint = suggest(name, [...plugins.keys()], 'plugins');
  const message = `names ${name}, which is not a plugin`;
  return toProblem(entry, { path: ['from_plugin'], message, hint });
}

function findDisabled({ nodes, onHalt }: Graph, { disabled }: Catalog): string | undefined {
  const used = Object.values(nodes).flatMap((node) => (node.kind === 'task' ? [node.plugin] : []));
  if (onHalt !== undefined) used.push(onHalt.plugin);
  return used.find((plugin) => disabled.has(plugin));
}

function toPipeline(entry: PipelineEntry, graph: Graph): Pipeline {
  const { name, on, fromPlugin, when, mode, timeoutMs, concurrency } = entry;
  const { place } = entry.locate([]);
  return { name, on, fromPlugin, when, mode, timeoutMs, concurrency, graph, place, entry };
}

function toProblem(entry: PipelineEntry, { path, message, hint }: CompileFault): Problem {
  const { place, key } = entry.locate(path);
  return makeProblem(place, key, message, hint);
}
