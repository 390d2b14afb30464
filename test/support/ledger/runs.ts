/** Drafts of runs for tests of a ledger, and a small engine that advances them. */
import { makeId, makeToken } from '../../../src/base/ids.ts';
import type { Json, JsonObject } from '../../../src/base/json.ts';
import type { ClaimedJob } from '../../../src/job/types.ts';
import type { Closing } from '../../../src/ledger/commit.ts';
import type { Ledger } from '../../../src/ledger/ledger.ts';
import type { RunDraft, AdvanceResult } from '../../../src/pipeline/run/types.ts';
import type { Graph, Node } from '../../../src/pipeline/language/graph.ts';
import type { Branch, Run } from '../../../src/pipeline/run/run.ts';
import { graph as makeGraph } from '../../pipeline/graphs.ts';
import { beat, claimable, request, succeed } from './drafts.ts';

/** Creates and stores a definition. */
export async function define(
  ledger: Ledger,
  nodes: Node[],
  more: Partial<Graph> = {},
): Promise<Graph> {
  const graph = { ...makeGraph(nodes), hash: makeToken(), ...more };
  await ledger.runs.saveDefinitions([graph]);
  return graph;
}

export function runOf(
  graph: Graph,
  payload: JsonObject = {},
  more: Partial<RunDraft> = {},
): RunDraft {
  return {
    id: makeId(),
    pipeline: graph.name,
    definitionHash: graph.hash,
    payload: JSON.stringify(payload),
    submittedBy: 'api',
    actor: 'api:test',
    firstJobId: makeId(),
    ...more,
  };
}

export async function start(
  ledger: Ledger,
  graph: Graph,
  payload: JsonObject = {},
  more: Partial<RunDraft> = {},
): Promise<RunDraft> {
  const run = runOf(graph, payload, more);
  await ledger.runs.start({ jobs: [], runs: [run] });
  return run;
}

/** Closes an attempt as succeeded, with a result or events for its branch. */
export function done(job: ClaimedJob, result: Json = null, events: readonly Json[] = []): Closing {
  return { ...succeed(job), output: { events, result } };
}

/** Claims all ready jobs of a graph's plugins. */
export async function claimSteps(
  ledger: Ledger,
  graph: Graph,
  slots = 1000,
  processId = 'p1',
): Promise<ClaimedJob[]> {
  const plugins = Object.values(graph.nodes).flatMap((node) =>
    node.kind === 'task' ? [node.plugin] : [],
  );
  if (graph.onHalt !== undefined) plugins.push(graph.onHalt.plugin);
  await ledger.processes.heartbeat(beat(processId));
  const claim = request(processId, {
    slots,
    plugins: [...new Set(plugins)].map((name) => claimable(name, { parallelism: 100_000 })),
  });
  return ledger.jobs.claim(claim);
}

/** Claims and advances branches until none is left. */
export async function advanceAll(ledger: Ledger, processId = 'p1'): Promise<AdvanceResult[]> {
  await ledger.processes.heartbeat(beat(processId));
  const results: AdvanceResult[] = [];
  for (;;) {
    const token = makeToken();
    const { branchIds } = await ledger.runs.claimBranches({ processId, token, limit: 10 });
    if (branchIds.length === 0) return results;
    for (const branchId of branchIds) {
      let result: AdvanceResult;
      do {
        result = await ledger.runs.advance({ branchId, token });
        results.push(result);
      } while (result.verdict === 'more');
    }
  }
}

/** Runs all jobs and advances all branches until nothing is left; returns the number of jobs. */
export async function carryOn(
  ledger: Ledger,
  graph: Graph,
  conclude: (job: ClaimedJob) => Closing = (job) => done(job),
): Promise<number> {
  for (let jobs = 0; ;) {
    await advanceAll(ledger);
    const claimed = await claimSteps(ledger, graph);
    if (claimed.length === 0) return jobs;
    jobs += claimed.length;
    await ledger.jobs.settle(claimed.map(conclude));
  }
}

export async function findRun(ledger: Ledger, id: string): Promise<Run> {
  const run = await ledger.runs.find(id);
  if (run === undefined) throw new Error(`there is no run ${id}`);
  return run;
}

export async function outputOf(ledger: Ledger, id: string): Promise<unknown> {
  const { output } = await findRun(ledger, id);
  return output === null ? null : JSON.parse(output);
}

export function branchesOf(ledger: Ledger, runId: string): Promise<Branch[]> {
  return ledger.runs.listBranches({ runId, limit: 1000 });
}

/** Lists steps as `node status`, in the order of their records. */
export async function stepsOf(ledger: Ledger, runId: string): Promise<string[]> {
  const steps = await ledger.runs.listSteps({ runId, limit: 1000 });
  return steps.map(({ node, status }) => `${node} ${status}`);
}
