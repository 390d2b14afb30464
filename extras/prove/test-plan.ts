import { isObject, parseStoredJson, type JsonObject } from '../../src/base/json.ts';
import type { LedgerEngine } from '../../src/engine/ledger-engine.ts';
import type { Ledger } from '../../src/ledger/ledger.ts';
import type { Node } from '../../src/pipeline/language/graph.ts';
import { matchRoutes, type Pipeline } from '../../src/pipeline/language/pipeline.ts';
import { findPluginCommand, type Catalog } from '../../src/plugin/catalog.ts';
import {
  breakLoops,
  readStubResponses,
  type FindFollowers,
  type StubResponse,
} from './stub-responses.ts';
import { sampleOf } from './sample.ts';

/** Pipeline or command that is started repeatedly. */
export interface TestUnit {
  readonly name: string;
  readonly kind: 'pipeline' | 'command';
  /** Undefined for a pipeline. */
  readonly target: { readonly plugin: string; readonly command: string } | undefined;
  readonly operation: 'pipeline.run' | 'plugin.run';
  readonly input: JsonObject;
  /** Source of its payload. */
  readonly payloadFrom: 'an earlier run' | 'the input schema' | 'the schedule' | 'nothing';
}

/** Plan of a rehearsal, and how it differs from the real configuration. */
export interface TestPlan {
  readonly units: readonly TestUnit[];
  /** Responses of the commands that may run. */
  readonly responses: readonly StubResponse[];
  /** Plugins that can be killed and retried. */
  readonly killable: ReadonlySet<string>;
  readonly untried: readonly UntriedItem[];
  readonly changes: readonly string[];
}

export interface UntriedItem {
  readonly what: string;
  readonly why: string;
}

/** Reads from the copied ledger and the definitions what can be tried. */
export async function createTestPlan(
  engine: LedgerEngine,
  ledger: Ledger,
  only: string | undefined,
): Promise<TestPlan> {
  const { pipelines, catalog, blueprint } = engine;
  const findFollowers: FindFollowers = ({ plugin }, type) => [
    ...matchRoutes(blueprint.routes, { source: plugin, type }).map(
      (route) => `${route.plugin}.${route.command}`,
    ),
    ...pipelines
      .filter(({ on, fromPlugin }) => on === type && (fromPlugin ?? plugin) === plugin)
      .flatMap((pipeline) => listTasks(pipeline).map((task) => `${task.plugin}.${task.command}`)),
  ];
  const responses = breakLoops(
    await readStubResponses(ledger, catalog.plugins, pipelines),
    findFollowers,
  );
  const chosen = pipelines.filter(({ name }) => only === undefined || name === only);
  const units: TestUnit[] = [];
  for (const pipeline of chosen) units.push(await createPipelineUnit(ledger, catalog, pipeline));
  if (only === undefined) units.push(...listScheduledUnits(engine));
  return {
    units,
    responses,
    killable: findKillable(engine),
    untried: listUntried(engine, only),
    changes: listChanges(chosen),
  };
}

type Task = Extract<Node, { kind: 'task' }>;

function listTasks({ graph }: Pipeline): Task[] {
  return Object.values(graph.nodes).filter((node) => node.kind === 'task');
}

async function createPipelineUnit(
  ledger: Ledger,
  catalog: Catalog,
  pipeline: Pipeline,
): Promise<TestUnit> {
  const { name, graph } = pipeline;
  const [earlier] = await ledger.runs.list({ pipeline: name, limit: 1 });
  const recorded = earlier === undefined ? undefined : parseStoredJson(earlier.payload);
  const first = graph.nodes[graph.first];
  const plugin = first?.kind === 'task' ? catalog.plugins.get(first.plugin) : undefined;
  const command = first?.kind === 'task' && plugin && findPluginCommand(plugin, first.command);
  const schema = command ? command.inputSchema : undefined;
  const sampled = schema === undefined ? ('nothing' as const) : ('the input schema' as const);
  const isRecorded = isObject(recorded);
  return {
    name,
    kind: 'pipeline',
    target: undefined,
    operation: 'pipeline.run',
    input: { pipeline: name, payload: isRecorded ? recorded : sampleOf(schema), async: true },
    payloadFrom: isRecorded ? 'an earlier run' : sampled,
  };
}

/** Scheduled commands, which the rehearsal starts by hand. */
function listScheduledUnits({ config, catalog }: LedgerEngine): TestUnit[] {
  const units = new Map<string, TestUnit>();
  for (const [plugin, { schedules, enabled }] of Object.entries(config.plugins)) {
    if (!enabled || !catalog.plugins.has(plugin)) continue;
    for (const { command, payload } of schedules) {
      const name = `${plugin}.${command}`;
      units.set(name, {
        name,
        kind: 'command',
        target: { plugin, command },
        operation: 'plugin.run',
        input: { plugin, command, payload, async: true },
        payloadFrom: 'the schedule',
      });
    }
  }
  return [...units.values()];
}

/** A killed plugin has failed once, so only plugins with another attempt are killed. */
function findKillable({ catalog, pipelines }: LedgerEngine): Set<string> {
  const withoutRetry = pipelines
    .flatMap(listTasks)
    .filter(({ maxAttempts }) => maxAttempts !== undefined && maxAttempts < 2)
    .map(({ plugin }) => plugin);
  const withRetry = [...catalog.plugins.values()].filter(({ retry }) => retry.maxAttempts >= 2);
  return new Set(withRetry.map(({ name }) => name).filter((name) => !withoutRetry.includes(name)));
}

function listUntried(engine: LedgerEngine, only: string | undefined): UntriedItem[] {
  const { config, catalog, refused } = engine;
  const untried: UntriedItem[] = [
    { what: 'the effects of plugins', why: 'a stub replaced each of them' },
  ];
  if (config.webhooks.endpoints.length > 0 || config.webhooks.enabled)
    untried.push({ what: 'webhooks', why: 'a rehearsal accepts no deliveries' });
  if (config.state.kind === 'postgres') {
    const why = 'the copy is a SQLite file with one host, without leases between hosts';
    untried.push({ what: 'several hosts on PostgreSQL', why });
  }
  for (const { plugin, message } of catalog.problems)
    untried.push({ what: `plugin ${plugin}`, why: `it did not load: ${message}` });
  for (const { slug, reason } of refused)
    untried.push({ what: `package ${slug}`, why: `it is not active: ${reason}` });
  if (only !== undefined)
    untried.push({ what: 'other pipelines', why: `only ${only} was requested` });
  return untried;
}

function listChanges(pipelines: readonly Pipeline[]): string[] {
  const nodes = pipelines.flatMap(({ name, graph }) =>
    Object.values(graph.nodes).map((node) => ({ name, node })),
  );
  const waits = nodes.filter(({ node }) => node.kind === 'wait');
  const approvals = nodes.filter(({ node }) => node.kind === 'approve');
  const list = (found: typeof nodes): string =>
    found.map(({ name, node }) => `${name}/${node.id}`).join(', ');
  return [
    'Retries waited 200ms at most.',
    ...(waits.length === 0
      ? []
      : [`These steps waited 200ms, and not for a signal: ${list(waits)}.`]),
    ...(approvals.length === 0
      ? []
      : [`These steps were approved automatically: ${list(approvals)}.`]),
  ];
}
