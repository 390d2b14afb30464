import { fromTimestamp, toTimestamp } from '../../base/clock.ts';
import { defineRows, type Row, type Transaction } from '../../ledger/dialect.ts';
import { defineInsert } from '../../ledger/insert.ts';
import { int, text } from '../../ledger/row.ts';
import type { RunEnd } from './changes.ts';
import { haltedStepOf, type HaltedLeaves } from './report.ts';
import { runTable, type RunRow, type RunStatus } from './run.ts';
import type { RunDraft, RunStart } from './types.ts';

/** The result of inserting drafts. */
export interface InsertResult {
  /** The result of each draft, in their order. */
  readonly starts: readonly RunStart[];
  /** New runs that don't have to wait. */
  readonly ready: readonly string[];
  /** True if new runs wait for others of their concurrency key. */
  readonly hasQueued: boolean;
  /** Milliseconds until the first delayed new run is due. */
  readonly dueInMs: number | undefined;
  /** Runs that were inserted before. */
  readonly repeated: readonly string[];
}

/**
 * Inserts each run once, and only the first run of each dedupe key. A unique index decides between two
 * hosts: the second one waits for the commit of the first, and then finds the holder of the key.
 */
export async function insertOnce(
  tx: Transaction,
  drafts: readonly RunDraft[],
): Promise<InsertResult> {
  const times = await readTimes(tx, drafts);
  const keyed = drafts.filter(({ dedupe }) => dedupe !== undefined).toSorted(compareKeys);
  await tx.each(releaseExpired, keyed.map(toKeyRow));
  const starts = new Map<string, RunStart>();
  const fresh: RunDraft[] = [];
  let left = [...drafts.filter(({ dedupe }) => dedupe === undefined), ...keyed];
  // The holder can release its key between the insert and the search for the holder.
  while (left.length > 0) {
    const inserted = await insertRuns(tx, left, times.dueAt);
    fresh.push(...inserted);
    for (const draft of inserted) {
      starts.set(draft.id, { runId: draft.id, status: statusOf(draft, times.dueAt) });
    }
    left = left.filter(({ id }) => !starts.has(id));
    for (const draft of left) {
      const found = await findExisting(tx, draft);
      if (found !== undefined) starts.set(draft.id, found);
    }
    left = left.filter(({ id }) => !starts.has(id));
  }
  const isNew = new Set(fresh.map(({ id }) => id));
  const delayed = fresh.filter(({ id }) => times.dueAt.has(id));
  const due = fresh.filter(({ id }) => !times.dueAt.has(id));
  const inMs = delayed.map(({ id }) => fromTimestamp(times.dueAt.get(id) ?? '') - times.nowMs);
  return {
    starts: drafts.flatMap(({ id }) => starts.get(id) ?? []),
    ready: due.filter(({ concurrency }) => concurrency === undefined).map(({ id }) => id),
    hasQueued: due.some(({ concurrency }) => concurrency !== undefined),
    dueInMs: inMs.length === 0 ? undefined : Math.min(...inMs),
    repeated: [...starts.values()]
      .filter(({ runId, duplicateOf }) => duplicateOf === undefined && !isNew.has(runId))
      .map(({ runId }) => runId),
  };
}

interface StartTimes {
  readonly nowMs: number;
  /** The due times of runs that are not due yet. */
  readonly dueAt: ReadonlyMap<string, string>;
}

/** Reads the database's clock once, so that all decisions about a run use the same time. */
async function readTimes(tx: Transaction, drafts: readonly RunDraft[]): Promise<StartTimes> {
  const dueAt = new Map<string, string>();
  if (drafts.every(({ due }) => due === undefined)) return { nowMs: 0, dueAt };
  const [row] = await tx.run(`select ${tx.dialect.now} as now`);
  const now = text(row ?? {}, 'now');
  const nowMs = fromTimestamp(now);
  for (const { id, due } of drafts) {
    if (due === undefined) continue;
    const at = 'at' in due ? due.at : toTimestamp(nowMs + due.inMs);
    if (at > now) dueAt.set(id, at);
  }
  return { nowMs, dueAt };
}

function compareKeys(a: RunDraft, b: RunDraft): number {
  return formatKey(a) < formatKey(b) ? -1 : 1;
}

function formatKey({ dedupe, pipeline }: RunDraft): string {
  return JSON.stringify([dedupe?.key, pipeline]);
}

function toKeyRow({ dedupe, pipeline }: RunDraft): Row {
  return { held_key: dedupe?.key ?? '', pipeline };
}

const releaseExpired = defineRows({
  columns: { held_key: 'text', pipeline: 'text' },
  sql: (r, d) => `update ${d.table('pipeline_runs')} set held_key = null, held_until = null
    ${r.from}
    where pipeline_runs.held_key = ${r('held_key')} and pipeline_runs.held_key is not null
      and pipeline_runs.pipeline = ${r('pipeline')}
      and pipeline_runs.held_until <= (select ${d.now})`,
});

/** A run is queued until it is due and the limit of its concurrency key allows it. */
function statusOf({ id, concurrency }: RunDraft, dueAt: StartTimes['dueAt']): RunStatus {
  return concurrency === undefined && !dueAt.has(id) ? 'running' : 'queued';
}

/** Finds the run that prevented an insert: the same run, or another one with its key. */
async function findExisting(
  tx: Transaction,
  { id, pipeline, dedupe }: RunDraft,
): Promise<RunStart | undefined> {
  const table = tx.dialect.table('pipeline_runs');
  const [own] = await tx.run(`select status from ${table} where id = ?`, [id]);
  if (own !== undefined) return { runId: id, status: text(own, 'status') as RunStatus };
  if (dedupe === undefined) throw new Error(`run ${id} is neither new nor known`);
  const [holder] = await tx.run(
    `select id, status from ${table} where held_key = ? and held_key is not null and pipeline = ?`,
    [dedupe.key, pipeline],
  );
  if (holder === undefined) return undefined;
  return {
    runId: id,
    status: text(holder, 'status') as RunStatus,
    duplicateOf: text(holder, 'id'),
    dedupeKey: dedupe.key,
  };
}

/** Inserts each run once, and one run per dedupe key. Returns the new ones. */
export async function insertRuns(
  tx: Transaction,
  drafts: readonly RunDraft[],
  /** The due times of runs that are not due yet. */
  dueAt: ReadonlyMap<string, string> = new Map(),
): Promise<RunDraft[]> {
  const listener = tx.ends?.listener ?? null;
  const rows = await tx.each(
    insertRun,
    drafts.map((draft) => toRunRow(draft, listener, dueAt)),
  );
  const isNew = new Set(rows.map((row) => text(row, 'id')));
  return drafts.filter(({ id }) => isNew.has(id));
}

/** Inserts the first branches of running runs for an advancer. */
export async function insertRoots(
  tx: Transaction,
  runs: readonly Pick<RunRow, 'id' | 'payload' | 'eventContextId'>[],
): Promise<void> {
  await tx.each(
    insertRoot,
    runs.map(({ id, payload, eventContextId }) => ({
      id,
      payload,
      event_context_id: eventContextId,
    })),
  );
}

const insertRun = defineInsert(runTable, {
  properties: runTable.except(
    'seq',
    'output',
    'haltReason',
    'haltMessage',
    'haltedAtStep',
    'revivedFrom',
    'createdAt',
    'startedAt',
    'completedAt',
  ),
  sql: (r, d) => ({
    createdAt: d.now,
    startedAt: `case when ${r('status')} = 'running' then ${d.now} end`,
  }),
  rest: 'on conflict do nothing returning id',
});

function toRunRow(draft: RunDraft, listener: string | null, dueAt: StartTimes['dueAt']) {
  const { id, firstJobId, concurrency, dedupe } = draft;
  return {
    ...draft,
    status: statusOf(draft, dueAt),
    rootJobId: draft.rootJobId ?? firstJobId,
    lineage: draft.lineage ?? id,
    hops: draft.hops ?? 0,
    runtimeCaused: draft.runtimeCaused === true,
    concurrencyKey: concurrency?.key,
    concurrencyLimit: concurrency?.limit,
    awaitedBy: draft.isAwaited === true ? listener : null,
    dueAt: dueAt.get(id),
    dedupeKey: dedupe?.key,
    dedupeTtlMs: dedupe?.ttlMs,
    heldKey: dedupe?.key,
  };
}

/** The node is empty: the advancer reads the first step from the definition. */
const insertRoot = defineRows({
  columns: { id: 'text', payload: 'text', event_context_id: 'text' },
  sql: (r, d) => `insert into ${d.table('run_branches')}
    (id, run_id, path, node, status, payload, is_whole, event_context_id, outcome, due_at,
      created_at)
    select ${r('id')}, ${r('id')}, '0', '', 'advancing', ${r('payload')}, 1,
      ${r('event_context_id')}, '{"kind":"start"}', ${d.now}, ${d.now} ${r.from}
    where true on conflict (id) do nothing`,
});

/** Writes the ends of runs. `leaves`: the branches at which halted runs stopped. */
export async function writeRunEnds(
  tx: Transaction,
  ends: readonly RunEnd[],
  leaves: HaltedLeaves,
): Promise<void> {
  const rows = ends.map(({ run, root }) => ({
    id: run.id,
    status: root.status,
    output: root.output,
    reason: root.haltReason,
    message: root.haltMessage,
    step: root.status === 'halted' ? haltedStepOf(root, leaves.get(run.id) ?? []) : null,
  }));
  tx.send(endRuns, rows, await claimEndNumber(tx));
}

const endRuns = defineRows({
  columns: {
    id: 'text',
    status: 'text',
    output: 'text',
    reason: 'text',
    message: 'text',
    step: 'text',
  },
  sql: (r, d) => `update ${d.table('pipeline_runs')} set status = ${r('status')},
      output = ${r('output')}, halt_reason = ${r('reason')}, halt_message = ${r('message')},
      halted_at_step = ${r('step')}, completed_at = ${d.now},
      end_tx = case when ${r('status')} <> 'halted' then ${d.ownTransaction ?? r.common(0, 'int')} end,
      held_key = case when ${r('status')} = 'succeeded' then pipeline_runs.held_key end,
      held_until = case when ${r('status')} = 'succeeded' and pipeline_runs.held_key is not null
        then ${d.nowPlus('pipeline_runs.dedupe_ttl_ms')} end
    ${r.from}
    where pipeline_runs.id = ${r('id')} and pipeline_runs.status = 'running'`,
});

/**
 * Returns the parameter for the column `end_tx`, by which the event feed orders the ends of runs.
 * With several writers, the database's transaction number is used, and there is no parameter. With one
 * writer, each transaction gets the next number of a sequence. It is also greater than all numbers in
 * the table, which a copied ledger can have. A halted run needs no number, because it has a signal.
 */
export async function claimEndNumber(tx: Transaction): Promise<number[]> {
  const { dialect } = tx;
  if (dialect.ownTransaction !== undefined) return [];
  const [row = {}] = await tx.run(
    `insert into ${dialect.table('storage_sequences')} as s (name, value) values ('run_ends',
        1 + coalesce((select max(end_tx) from ${dialect.table('pipeline_runs')}), 0))
      on conflict (name) do update set value = max(s.value + 1, excluded.value) returning value`,
  );
  return [int(row, 'value')];
}
