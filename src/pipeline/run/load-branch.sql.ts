import type { JsonObject } from '../../base/json.ts';
import { parseJson } from '../../base/parse-json.ts';
import { basePayloadFor } from './walk.ts';
import type { Graph } from '../language/graph.ts';
import { defineRows, together, type Row, type Session } from '../../ledger/dialect.ts';
import { int, text, textOrNull, intOrNull } from '../../ledger/row.ts';
import type { BlockKind } from './transition.ts';
import type { Branch, BranchStatus, HaltReason, Run, RunStatus, Step, StepStatus } from './run.ts';
import type { Advancement } from './types.ts';

/** All that is needed to say what follows for a branch. */
export interface Stand {
  readonly run: RunRow;
  readonly graph: Graph;
  readonly branch: BranchRow;
  readonly own: JsonObject;
  readonly base: JsonObject;
  readonly context: JsonObject;
}

const GRAPHS_MAX = 256;
const BASES_MAX = 64;
const CONTEXTS_MAX = 256;

// What is kept here never changes under its name: a hash, a branch with an open block, a row that is
// only ever inserted.
const graphs = new Map<string, Graph>();
const bases = new Map<string, JsonObject>();
const contexts = new Map<string, JsonObject>();

function keep<T>(kept: Map<string, T>, key: string, value: T, entriesMax: number): T {
  kept.delete(key);
  kept.set(key, value);
  for (const oldest of kept.keys()) {
    if (kept.size <= entriesMax) break;
    kept.delete(oldest);
  }
  return value;
}

export async function toStands(
  session: Session,
  pairs: readonly { readonly run: RunRow; readonly branch: BranchRow }[],
): Promise<Stand[]> {
  const [ofRuns, [beneath, baggage]] = await together(
    loadGraphs(
      session,
      pairs.map(({ run }) => run.definitionHash),
    ),
    together(
      loadBases(
        session,
        pairs.flatMap(({ branch }) => baseKeyOf(branch) ?? []),
      ),
      loadContexts(
        session,
        pairs.flatMap(({ branch }) => branch.eventContextId ?? []),
      ),
    ),
  );
  return pairs.map(({ run, branch }) => {
    const graph = ofRuns.get(run.definitionHash);
    if (graph === undefined) throw new Error(`the definition of run ${run.id} is gone`);
    return {
      run,
      graph,
      branch,
      own: parseJson(branch.payload) as JsonObject,
      base: beneath.get(baseKeyOf(branch) ?? '') ?? {},
      context: baggage.get(branch.eventContextId ?? '') ?? {},
    };
  });
}

/** Names what lies beneath a branch's payload. */
export function baseKeyOf(
  branch: Pick<BranchRow, 'parentId' | 'parentMoves' | 'isWhole'>,
): string | undefined {
  if (branch.isWhole || branch.parentId === null) return undefined;
  return `${branch.parentId}:${branch.parentMoves}`;
}

export async function findGraph(session: Session, hash: string): Promise<Graph | undefined> {
  const known = graphs.get(hash);
  if (known !== undefined) return known;
  const graph = await readGraph(session, hash);
  return graph === undefined ? undefined : keep(graphs, hash, graph, GRAPHS_MAX);
}

async function readGraph(session: Session, hash: string): Promise<Graph | undefined> {
  const [row] = await session.run(
    `select graph from ${session.dialect.table('pipeline_definitions')} where hash = ?`,
    [hash],
  );
  return row === undefined ? undefined : (parseJson(text(row, 'graph')) as Graph);
}

async function loadGraphs(
  session: Session,
  hashes: readonly string[],
): Promise<Map<string, Graph>> {
  const found = new Map<string, Graph>();
  for (const hash of new Set(hashes)) {
    const graph = await findGraph(session, hash);
    if (graph !== undefined) found.set(hash, graph);
  }
  return found;
}

/** What the plugins of a block's branches get from before it. */
export async function readBase(session: Session, key: string): Promise<string> {
  return JSON.stringify(await composeBase(session, key));
}

async function composeBase(session: Session, key: string): Promise<JsonObject> {
  const [row] = await session.each(selectOwn, [toKeyRow(key)]);
  if (row === undefined) throw new Error(`there is no branch for ${key}`);
  const above = keyAbove(row);
  const payload = {
    ...(above === undefined ? {} : await composeBase(session, above)),
    ...(parseJson(text(row, 'payload')) as JsonObject),
  };
  const graph = await findGraph(session, text(row, 'definition_hash'));
  const node = graph?.nodes[text(row, 'node')];
  return node === undefined ? payload : basePayloadFor(node, payload);
}

function toKeyRow(key: string): Row {
  return { key, id: key.slice(0, key.lastIndexOf(':')) };
}

/** What the branches of a block have from before it: all that their parent had, level upon level. */
async function loadBases(
  session: Session,
  keys: readonly string[],
): Promise<Map<string, JsonObject>> {
  const found = new Map<string, JsonObject>();
  const missing = new Set<string>();
  for (const key of keys) {
    const known = bases.get(key);
    if (known === undefined) missing.add(key);
    else found.set(key, known);
  }
  if (missing.size === 0) return found;
  const rows = await session.each(selectOwn, [...missing].map(toKeyRow));
  const above = await loadBases(
    session,
    rows.flatMap((row) => keyAbove(row) ?? []),
  );
  for (const row of rows) {
    const key = text(row, 'key');
    const own = parseJson(text(row, 'payload')) as JsonObject;
    const base = { ...above.get(keyAbove(row) ?? ''), ...own };
    found.set(key, base);
    // A branch that has moved on may still be asked about, but not in the name of what it was.
    if (key.endsWith(`:${int(row, 'moves')}`)) keep(bases, key, base, BASES_MAX);
  }
  return found;
}

function keyAbove(row: Row): string | undefined {
  return baseKeyOf({
    parentId: textOrNull(row, 'parent_id'),
    parentMoves: row['parent_moves'] === null ? null : int(row, 'parent_moves'),
    isWhole: row['is_whole'] === 1,
  });
}

const selectOwn = defineRows({
  columns: { key: 'text', id: 'text' },
  sql: (r, d) =>
    `select ${r('key')} as key, q.* from ${r.lateral(
      `select b.moves, b.is_whole, b.parent_id, b.parent_moves, b.node, p.definition_hash,
        coalesce((select l.payload from ${d.table('run_payloads')} l where l.id = b.payload_ref),
          b.payload) as payload
      from ${d.table('run_branches')} b join ${d.table('pipeline_runs')} p on p.id = b.run_id
      where b.id = ${r('id')}`,
    )}`,
});

export async function readContext(session: Session, id: string): Promise<JsonObject> {
  return (await loadContexts(session, [id])).get(id) ?? {};
}

async function loadContexts(
  session: Session,
  ids: readonly string[],
): Promise<Map<string, JsonObject>> {
  const missing = [...new Set(ids)].filter((id) => !contexts.has(id));
  const rows = await session.each(
    selectContext,
    missing.map((id) => ({ id })),
  );
  const found = new Map<string, JsonObject>();
  for (const row of rows) {
    const context = parseJson(text(row, 'accumulated_json')) as JsonObject;
    found.set(text(row, 'id'), keep(contexts, text(row, 'id'), context, CONTEXTS_MAX));
  }
  for (const id of ids) {
    const known = contexts.get(id);
    if (known !== undefined) found.set(id, known);
  }
  return found;
}

const selectContext = defineRows({
  columns: { id: 'text' },
  sql: (r, d) =>
    `select q.* from ${r.lateral(
      `select c.id, c.accumulated_json from ${d.table('event_context')} c where c.id = ${r('id')}`,
    )}`,
});

/** A run as the ledger keeps it. */
export interface RunRow extends Run {
  readonly firstJobId: string;
  readonly concurrencyLimit: number | null;
}

/** A branch as the ledger keeps it, with what only moving it on needs. */
export interface BranchRow extends Branch {
  /** The kind of its open block. */
  readonly block: BlockKind | null;
  /** How many branches of that did not end well. */
  readonly halted: number;
  readonly concurrency: number | null;
  /** Where its payload is kept while a wide block is open. */
  readonly payloadRef: string | null;
  /** JSON text of what it brings to the join. */
  readonly output: string | null;
  /** JSON text of what is left to be done with it. */
  readonly outcome: string | null;
  /** The end of its wait, while `dueAt` says when to look at it. */
  readonly deadlineAt: string | null;
  /** The first signal that may end its wait. */
  readonly wakeFrom: number | null;
  readonly claimToken: string | null;
  readonly tries: number;
  readonly crashes: number;
}

export function toRun(row: Row): RunRow {
  return {
    seq: int(row, 'seq'),
    id: text(row, 'id'),
    pipeline: text(row, 'pipeline'),
    definitionHash: text(row, 'definition_hash'),
    status: text(row, 'status') as RunStatus,
    payload: text(row, 'payload'),
    output: textOrNull(row, 'output'),
    haltReason: textOrNull(row, 'halt_reason') as HaltReason | null,
    haltMessage: textOrNull(row, 'halt_message'),
    haltedAtStep: textOrNull(row, 'halted_at_step'),
    submittedBy: text(row, 'submitted_by'),
    actor: text(row, 'actor'),
    sourceEventId: textOrNull(row, 'source_event_id'),
    parentJobId: textOrNull(row, 'parent_job_id'),
    firstJobId: text(row, 'first_job_id'),
    rootJobId: text(row, 'root_job_id'),
    lineage: text(row, 'lineage'),
    hops: int(row, 'hops'),
    runtimeCaused: row['runtime_caused'] === 1,
    eventContextId: textOrNull(row, 'event_context_id'),
    concurrencyKey: textOrNull(row, 'concurrency_key'),
    concurrencyLimit: intOrNull(row, 'concurrency_limit'),
    revivedFrom: textOrNull(row, 'revived_from'),
    awaitedBy: textOrNull(row, 'awaited_by'),
    dueAt: textOrNull(row, 'due_at'),
    dedupeKey: textOrNull(row, 'dedupe_key'),
    createdAt: text(row, 'created_at'),
    startedAt: textOrNull(row, 'started_at'),
    completedAt: textOrNull(row, 'completed_at'),
  };
}

export function toBranch(row: Row): BranchRow {
  return {
    id: text(row, 'id'),
    runId: text(row, 'run_id'),
    parentId: textOrNull(row, 'parent_id'),
    parentMoves: intOrNull(row, 'parent_moves'),
    index: int(row, 'idx'),
    label: textOrNull(row, 'label'),
    path: text(row, 'path'),
    node: text(row, 'node'),
    stop: textOrNull(row, 'stop'),
    status: text(row, 'status') as BranchStatus,
    payload: text(row, 'payload'),
    payloadRef: textOrNull(row, 'payload_ref'),
    isWhole: row['is_whole'] === 1,
    eventContextId: textOrNull(row, 'event_context_id'),
    jobId: textOrNull(row, 'job_id'),
    moves: int(row, 'moves'),
    block: textOrNull(row, 'block') as BlockKind | null,
    width: int(row, 'width'),
    cursor: int(row, 'cursor'),
    pending: int(row, 'pending'),
    halted: int(row, 'halted'),
    concurrency: intOrNull(row, 'concurrency'),
    output: textOrNull(row, 'output'),
    outcome: textOrNull(row, 'outcome'),
    dueAt: textOrNull(row, 'due_at'),
    deadlineAt: textOrNull(row, 'deadline_at'),
    waitsFor: textOrNull(row, 'waits_for'),
    wakeFrom: intOrNull(row, 'wake_from'),
    claimToken: textOrNull(row, 'claim_token'),
    claimedBy: textOrNull(row, 'claimed_by'),
    tries: int(row, 'tries'),
    crashes: int(row, 'crashes'),
    haltReason: textOrNull(row, 'halt_reason') as HaltReason | null,
    haltMessage: textOrNull(row, 'halt_message'),
    lastStepId: textOrNull(row, 'last_step_id'),
    createdAt: text(row, 'created_at'),
    completedAt: textOrNull(row, 'completed_at'),
  };
}

export function toStep(row: Row): Step {
  return {
    id: text(row, 'id'),
    runId: text(row, 'run_id'),
    branchId: text(row, 'branch_id'),
    node: text(row, 'node'),
    kind: text(row, 'kind'),
    status: text(row, 'status') as StepStatus,
    jobId: textOrNull(row, 'job_id'),
    output: textOrNull(row, 'output'),
    error: textOrNull(row, 'error'),
    note: textOrNull(row, 'note'),
    nextNode: textOrNull(row, 'next_node'),
    sourceStepId: textOrNull(row, 'source_step_id'),
    startedAt: text(row, 'started_at'),
    dueAt: textOrNull(row, 'due_at'),
    completedAt: textOrNull(row, 'completed_at'),
  };
}

export function toAdvancement(row: Row): Advancement {
  return {
    id: text(row, 'id'),
    runId: text(row, 'run_id'),
    branchId: text(row, 'branch_id'),
    node: text(row, 'node'),
    processId: text(row, 'process_id'),
    startedAt: text(row, 'started_at'),
    completedAt: textOrNull(row, 'completed_at'),
    error: textOrNull(row, 'error'),
    crashed: row['crashed'] === 1,
  };
}
