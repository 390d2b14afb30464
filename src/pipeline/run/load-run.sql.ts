import type { JsonObject } from '../../base/json.ts';
import { parseJson } from '../../base/parse-json.ts';
import { basePayloadFor } from './walk.ts';
import type { Graph } from '../language/graph.ts';
import {
  defineRows,
  awaitBoth,
  type Dialect,
  type Row,
  type RowsStatement,
  type Session,
  type Transaction,
} from '../../ledger/dialect.ts';
import { WhereClause } from '../../ledger/where.ts';
import { int, text, textOrNull } from '../../ledger/row.ts';
import {
  stepTable,
  runTable,
  branchTable,
  type Step,
  type Run,
  type Branch,
  type RunRow,
} from './run.ts';
import type { BranchFilter, StepFilter } from './types.ts';
import { baseKeyOf, type LoadedBranch } from './changes.ts';

const GRAPHS_MAX = 256;
const BASES_MAX = 64;
const CONTEXTS_MAX = 256;

// Caches of values that never change under their key: the hash of a definition, a branch with its open
// block, and the id of a row that is never updated.
const graphs = new Map<string, Graph>();
const bases = new Map<string, JsonObject>();
const contexts = new Map<string, JsonObject>();

function cache<T>(entries: Map<string, T>, key: string, value: T, entriesMax: number): T {
  entries.delete(key);
  entries.set(key, value);
  for (const oldest of entries.keys()) {
    if (entries.size <= entriesMax) break;
    entries.delete(oldest);
  }
  return value;
}

/** Loads the definition, the base payload and the baggage of each branch. */
export async function loadBranches<T extends Pick<LoadedBranch, 'run' | 'branch'>>(
  session: Session,
  pairs: readonly T[],
): Promise<(T & LoadedBranch)[]> {
  const baseKeys = pairs.flatMap(({ branch }) => baseKeyOf(branch) ?? []);
  const contextIds = pairs.flatMap(({ branch }) => branch.eventContextId ?? []);
  const [graphOf, [baseOf, contextOf]] = await awaitBoth(
    loadGraphs(session, pairs),
    awaitBoth(loadBases(session, baseKeys), loadContexts(session, contextIds)),
  );
  return pairs.map((pair) => {
    const { run, branch } = pair;
    const graph = graphOf.get(run.definitionHash);
    if (graph === undefined) throw new Error(`the definition of run ${run.id} is gone`);
    return {
      ...pair,
      graph,
      // A root that has not started yet has no node.
      branch: branch.node === '' ? { ...branch, node: graph.first } : branch,
      own: parseJson(branch.payload) as JsonObject,
      base: baseOf.get(baseKeyOf(branch) ?? '') ?? {},
      context: contextOf.get(branch.eventContextId ?? '') ?? {},
    };
  });
}

/** Loads branches that this transaction has locked already. */
export async function loadLockedBranches(
  tx: Transaction,
  ids: readonly string[],
): Promise<LoadedBranch[]> {
  if (ids.length === 0) return [];
  const rows = await tx.each(
    selectBranches,
    ids.map((id) => ({ id })),
  );
  const branches = rows.map((row) => branchTable.decode(row));
  const runs = await readRuns(tx, [...new Set(branches.map(({ runId }) => runId))]);
  return await loadBranches(
    tx,
    branches.flatMap((branch) => {
      const run = runs.get(branch.runId);
      return run === undefined ? [] : { run, branch };
    }),
  );
}

export async function readRuns(
  session: Session,
  ids: readonly string[],
): Promise<Map<string, RunRow>> {
  const rows = await session.each(
    selectRuns,
    ids.map((id) => ({ id })),
  );
  return new Map(rows.map((row) => [text(row, 'id'), runTable.decode(row)]));
}

const selectRuns = defineRows({
  columns: { id: 'text' },
  sql: (r, d) =>
    `select q.* from ${r.lateral(
      `select p.* from ${d.table('pipeline_runs')} p where p.id = ${r('id')}`,
    )}`,
});

const selectBranches = selectBranchesWith(() => '');

/** Locks branches in the order of ids. */
export const lockBranchRows = selectBranchesWith((d) => `order by b.id ${d.forUpdate}`);

/** The payload is in the branch or in a row of its own. */
function selectBranchesWith(lock: (d: Dialect) => string): RowsStatement {
  return defineRows({
    columns: { id: 'text' },
    key: 'id',
    sql: (r, d) =>
      `select q.*, coalesce((select p.payload from ${d.table('run_payloads')} p
          where p.id = q.payload_ref), q.payload) as payload
        from ${r.lateral(
          `select b.* from ${d.table('run_branches')} b where b.id ${r.isKey()} ${lock(d)}`,
        )}`,
  });
}

export async function findGraph(session: Session, hash: string): Promise<Graph | undefined> {
  const known = graphs.get(hash);
  if (known !== undefined) return known;
  const graph = await readGraph(session, hash);
  return graph === undefined ? undefined : cache(graphs, hash, graph, GRAPHS_MAX);
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
  pairs: readonly { readonly run: RunRow }[],
): Promise<Map<string, Graph>> {
  const found = new Map<string, Graph>();
  for (const hash of new Set(pairs.map(({ run }) => run.definitionHash))) {
    const graph = await findGraph(session, hash);
    if (graph !== undefined) found.set(hash, graph);
  }
  return found;
}

/** Reads the payload from before a block as JSON text, as the plugins of its branches get it. */
export async function readBase(session: Session, key: string): Promise<string> {
  return JSON.stringify(await composeBase(session, key));
}

async function composeBase(session: Session, key: string): Promise<JsonObject> {
  const [row] = await session.each(selectOwn, [toKeyRow(key)]);
  if (row === undefined) throw new Error(`there is no branch for ${key}`);
  const parentKey = parentKeyOf(row);
  const payload = {
    ...(parentKey === undefined ? {} : await composeBase(session, parentKey)),
    ...(parseJson(text(row, 'payload')) as JsonObject),
  };
  const graph = await findGraph(session, text(row, 'definition_hash'));
  const node = graph?.nodes[text(row, 'node')];
  return node === undefined ? payload : basePayloadFor(node, payload);
}

function toKeyRow(key: string): Row {
  return { key, id: key.slice(0, key.lastIndexOf(':')) };
}

/** Loads the payloads from before blocks: the parents' own payloads, merged over all levels. */
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
  const parentBases = await loadBases(
    session,
    rows.flatMap((row) => parentKeyOf(row) ?? []),
  );
  for (const row of rows) {
    const key = text(row, 'key');
    const own = parseJson(text(row, 'payload')) as JsonObject;
    const base = { ...parentBases.get(parentKeyOf(row) ?? ''), ...own };
    found.set(key, base);
    // If the parent has moved since, its payload isn't the one that the key identifies.
    if (key.endsWith(`:${int(row, 'moves')}`)) cache(bases, key, base, BASES_MAX);
  }
  return found;
}

function parentKeyOf(row: Row): string | undefined {
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
    found.set(text(row, 'id'), cache(contexts, text(row, 'id'), context, CONTEXTS_MAX));
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

export async function findRun(session: Session, id: string): Promise<Run | undefined> {
  const [row] = await session.run(
    `select * from ${session.dialect.table('pipeline_runs')} where id = ?`,
    [id],
  );
  return row === undefined ? undefined : runTable.decode(row);
}

/** Lists branches in the order of ids: a parent before its branches, these in the order of the block. */
export async function listBranches(session: Session, filter: BranchFilter): Promise<Branch[]> {
  const { runId, parentId, status, afterId } = filter;
  const above = parentId ?? runId;
  const where = new WhereClause().and('id >= ? and id < ?', above, `${above}~`);
  where.equals({ run_id: runId, parent_id: parentId, status });
  if (filter.open === true) where.and('completed_at is null');
  if (afterId !== undefined) where.and('id > ?', afterId);
  const rows = await session.run(
    `select * from ${session.dialect.table('run_branches')} where ${where.text}
      order by id limit ?`,
    [...where.values, filter.limit],
  );
  return rows.map((row) => branchTable.decode(row));
}

export async function listSteps(session: Session, filter: StepFilter): Promise<Step[]> {
  const { runId, branchId, node, status, afterId } = filter;
  const where = new WhereClause().equals({ run_id: runId, branch_id: branchId, node });
  // The exact condition of the partial index, so that the database uses it.
  if (status === 'waiting') where.and(isWaiting);
  else where.equals({ status });
  if (afterId !== undefined) where.and('id > ?', afterId);
  const rows = await session.run(
    `select * from ${session.dialect.table('run_steps')} where ${where.text} order by id limit ?`,
    [...where.values, filter.limit],
  );
  return rows.map((row) => stepTable.decode(row));
}

/** The exact condition of the partial index of waiting steps. */
export const isWaiting = `status = 'waiting'`;
