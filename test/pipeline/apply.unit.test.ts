/** The pure engine, without a database: its changes give the result of the model, in any order of ends. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { makeId } from '../../src/base/ids.ts';
import type { JsonObject } from '../../src/base/json.ts';
import type { JobDraft } from '../../src/job/job.ts';
import type { Graph } from '../../src/pipeline/language/graph.ts';
import {
  applyArrivals,
  applyEndedBranches,
  applyTransition,
  isParentReady,
  startNext,
} from '../../src/pipeline/run/apply.ts';
import {
  createRoot,
  type LoadedBranch,
  type BranchChanges,
  type BranchDraft,
  type RunEnd,
} from '../../src/pipeline/run/changes.ts';
import type { Arrival, BranchRow, RunRow } from '../../src/pipeline/run/run.ts';
import { basePayloadFor } from '../../src/pipeline/run/walk.ts';
import { cases, makePlay, name } from './arbitrary.ts';
import { graph as makeGraph } from './graphs.ts';
import { firstOf, lay, meaningOf, type Meaning, type Play } from './model.ts';

type StepRequest = Meaning['asked'][number];

const NEVER = '2026-01-01T00:00:00.000Z';

function makeRun(graph: Graph, payload: JsonObject): RunRow {
  const id = makeId();
  return {
    seq: 1,
    id,
    pipeline: graph.name,
    definitionHash: graph.hash,
    status: 'running',
    payload: JSON.stringify(payload),
    output: null,
    haltReason: null,
    haltMessage: null,
    haltedAtStep: null,
    submittedBy: 'api',
    actor: 'api:test',
    sourceEventId: null,
    parentJobId: null,
    firstJobId: makeId(),
    rootJobId: id,
    lineage: id,
    hops: 0,
    runtimeCaused: false,
    eventContextId: null,
    concurrencyKey: null,
    concurrencyLimit: null,
    dedupeTtlMs: null,
    heldKey: null,
    dueAt: null,
    dedupeKey: null,
    revivedFrom: null,
    awaitedBy: null,
    createdAt: NEVER,
    startedAt: NEVER,
    completedAt: null,
  };
}

/** A run whose rows are kept in memory. */
class MemoryRun {
  readonly #run: RunRow;
  readonly #graph: Graph;
  readonly #branches = new Map<string, BranchRow>();
  readonly jobs: JobDraft[] = [];
  end: RunEnd | undefined;

  constructor(graph: Graph, payload: JsonObject) {
    this.#run = makeRun(graph, payload);
    this.#graph = graph;
    const branch = { ...createRoot(this.#run), node: graph.first };
    this.#write(applyArrivals([{ ...this.#load(branch), arrival: { kind: 'start' } }]));
  }

  /** Ends jobs at the same time. */
  settle(ends: readonly { readonly job: JobDraft; readonly arrival: Arrival }[]): void {
    const states = ends.map(({ job, arrival }) => ({
      ...this.#load(this.#find(job.run?.branchId ?? '')),
      arrival,
    }));
    this.#write(applyArrivals(states));
  }

  requestOf({ run, payload }: JobDraft): StepRequest {
    const branch = this.#find(run?.branchId ?? '');
    const input = { ...this.#sentBaseOf(branch), ...(JSON.parse(payload) as JsonObject) };
    return [run?.stepId ?? '', branch.path, input];
  }

  #find(id: string): BranchRow {
    const branch = this.#branches.get(id);
    if (branch === undefined) throw new Error(`there is no branch ${id}`);
    return branch;
  }

  #load(branch: BranchRow): LoadedBranch {
    const own = JSON.parse(branch.payload) as JsonObject;
    return {
      run: this.#run,
      graph: this.#graph,
      branch,
      own,
      base: this.#baseOf(branch),
      context: {},
    };
  }

  #baseOf({ isWhole, parentId }: BranchRow): JsonObject {
    if (isWhole || parentId === null) return {};
    const { own, base } = this.#load(this.#find(parentId));
    return { ...base, ...own };
  }

  #sentBaseOf({ isWhole, parentId }: BranchRow): JsonObject {
    if (isWhole || parentId === null) return {};
    const parent = this.#find(parentId);
    const node = this.#graph.nodes[parent.node];
    const payload = { ...this.#sentBaseOf(parent), ...(JSON.parse(parent.payload) as JsonObject) };
    return node === undefined ? payload : basePayloadFor(node, payload);
  }

  #write(changes: BranchChanges): void {
    this.#flush(changes);
    const parents = changes.drainDeepestParents();
    for (const [id, { count, halted }] of parents) {
      const before = this.#find(id);
      const branch = {
        ...before,
        pending: before.pending - count,
        halted: before.halted + halted,
      };
      this.#branches.set(id, branch);
      if (isParentReady(branch)) this.#advanceParent(changes, this.#load(branch));
    }
    if (parents.length > 0) this.#write(changes);
  }

  #advanceParent(changes: BranchChanges, parent: LoadedBranch): void {
    const need = applyEndedBranches(changes, parent);
    if (need === 'delay') startNext(changes, parent, null);
    if (need === 'join') applyTransition(changes, parent, { arrival: this.#joinOf(parent.branch) });
  }

  #joinOf({ id, moves, block }: BranchRow): Arrival {
    const children = [...this.#branches.values()]
      .filter(({ parentId, parentMoves }) => parentId === id && parentMoves === moves)
      .toSorted((a, b) => a.index - b.index);
    const halted = children.find(({ status }) => status === 'halted');
    if (block === null) throw new Error(`branch ${id} has no block`);
    if (halted === undefined) {
      return { kind: 'joined', block, outputs: children.map(({ output }) => output ?? '') };
    }
    const { haltReason, haltMessage } = halted;
    const error = haltMessage ?? '';
    return { kind: 'failed', reason: haltReason ?? 'cancelled', error, block };
  }

  #flush(changes: BranchChanges): void {
    for (const branches of [changes.started, changes.moved]) {
      for (const draft of branches.values()) this.#branches.set(draft.id, toRow(draft));
      branches.clear();
    }
    this.jobs.push(...changes.jobs.splice(0));
    this.end = changes.runEnds.splice(0)[0] ?? this.end;
  }
}

function toRow({
  due: _due,
  searchInMs: _search,
  stored: _stored,
  ...draft
}: BranchDraft): BranchRow {
  return { ...draft, dueAt: null, createdAt: NEVER, completedAt: null };
}

/** Runs a pipeline. The numbers choose the order in which its jobs end, and the groups. */
function carryOn(run: MemoryRun, play: Play, choices: readonly number[]): StepRequest[] {
  const requests: StepRequest[] = [];
  let turn = 0;
  const choose = (): number => choices[turn++ % choices.length] ?? 0;
  for (let open: JobDraft[] = []; ;) {
    const queued = run.jobs.splice(0);
    requests.push(...queued.map((job) => run.requestOf(job)));
    open.push(...queued);
    if (open.length === 0) return requests;
    const [at, count] = [choose() % open.length, 1 + (choose() % 3)];
    const ending = open.slice(at, at + count);
    open = open.filter((job) => !ending.includes(job));
    run.settle(
      ending.map((job) => {
        const [step, path] = run.requestOf(job);
        return { job, arrival: play(step, path) };
      }),
    );
  }
}

function inOrder(asked: readonly StepRequest[]): StepRequest[] {
  return asked.toSorted((a, b) => (`${a[1]} ${a[0]}` < `${b[1]} ${b[0]}` ? -1 : 1));
}

const choices = fc.array(fc.nat(100), { minLength: 1, maxLength: 20 });

test('the changes of arrivals give the result of the model, in whatever order jobs end', () => {
  fc.assert(
    fc.property(cases, choices, ([list, begin, answers], order) => {
      const trees = name(list);
      const play = makePlay(answers);
      const { outcome, asked } = meaningOf(trees, begin, play);
      const graph = makeGraph(lay(trees, '', null), { first: firstOf(trees) });
      const run = new MemoryRun(graph, begin);
      expect(inOrder(carryOn(run, play, order))).toEqual(inOrder(asked));
      const root = run.end?.root;
      if ('halt' in outcome) {
        expect(root).toMatchObject({ status: 'halted', haltReason: outcome.halt });
      } else {
        expect(root?.status).toBe('succeeded');
        expect(JSON.parse(root?.output ?? 'null')).toEqual(outcome.end);
      }
    }),
    { numRuns: 1000, seed: 1 },
  );
});

test('equal states have equal changes, and the states stay as they were', () => {
  fc.assert(
    fc.property(cases, ([list, begin]) => {
      const trees = name(list);
      const graph = makeGraph(lay(trees, '', null), { first: firstOf(trees) });
      const run = makeRun(graph, begin);
      const branch = { ...createRoot(run), node: graph.first };
      const arrival = { kind: 'start' } as const;
      const state = { run, graph, branch, own: begin, base: {}, context: {}, arrival };
      const before = structuredClone(state);
      const [one, two] = [applyArrivals([state]), applyArrivals([state])];
      expect(state).toEqual(before);
      // Only ids are new each time.
      const shapeOf = ({ started, steps, jobs }: BranchChanges): unknown => [
        [...started.values()].map(({ jobId: _job, lastStepId: _step, ...draft }) => draft),
        steps.map(({ id: _id, ...step }) => step),
        jobs.map(({ id: _id, parentJobId: _parent, ...job }) => job),
      ];
      expect(shapeOf(one)).toEqual(shapeOf(two));
    }),
    { numRuns: 200, seed: 1 },
  );
});
