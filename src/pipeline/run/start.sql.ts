import { fromTimestamp, toTimestamp } from '../../base/clock.ts';
import { enqueueJobs } from '../../job/enqueue.sql.ts';
import { requireQueueRoom } from '../../job/queue.sql.ts';
import type { EnqueueResult } from '../../job/types.ts';
import type { EnqueueBatch, StartedBatch } from '../../ledger/commit.ts';
import { defineRows, type Row, type Transaction, runInSavepoint } from '../../ledger/dialect.ts';
import { text } from '../../ledger/row.ts';
import { hasWaitingBranch } from '../../signal/signal.sql.ts';
import { applyTransition } from './apply.ts';
import {
  BranchChanges,
  createRoot,
  mergeRunEvents,
  noRunEvents,
  type BranchRow,
  type RunRow,
} from './changes.ts';
import { findGraph, loadBranches, readRuns } from './load-run.sql.ts';
import type { RunStatus } from './run.ts';
import { writeChanges } from './settle-branch.sql.ts';
import type { RunCommitEvents, RunDraft, RunStart } from './types.ts';
import { insertFailures } from './advancement.sql.ts';
import { insertRoots, insertRuns } from './write-run.sql.ts';

/** Inserts jobs, and the runs and signals that belong to them. */
export async function enqueueBatch(tx: Transaction, batch: EnqueueBatch): Promise<EnqueueResult[]> {
  await checkQueueLimit(tx, batch);
  const enqueued = await enqueueJobs(tx, batch);
  await createRuns(tx, batch.runs ?? []);
  return enqueued;
}

/** Inserts runs, and the jobs and signals that belong to them. */
export async function startRuns(tx: Transaction, batch: EnqueueBatch): Promise<StartedBatch> {
  await checkQueueLimit(tx, batch);
  const jobs = await enqueueJobs(tx, batch);
  const { events, runs } = await createRuns(tx, batch.runs ?? []);
  const advancing = events.advancing || (await hasWaitingBranch(tx, batch.signals ?? []));
  return { ...events, advancing, jobs, runs };
}

async function checkQueueLimit(
  tx: Transaction,
  { queueLimit, jobs, runs = [] }: EnqueueBatch,
): Promise<void> {
  if (queueLimit !== undefined) await requireQueueRoom(tx, queueLimit, jobs.length + runs.length);
}

/**
 * Inserts runs, each once. Runs that don't have to wait start in this transaction and go as far as
 * they can. An advancer starts the others.
 */
export async function createRuns(
  tx: Transaction,
  drafts: readonly RunDraft[],
): Promise<RunCreation> {
  if (drafts.length === 0) return { events: noRunEvents, runs: [] };
  const { starts, ready, hasQueued, dueInMs, repeated } = await insertOnce(tx, drafts);
  const dropped = starts.filter(({ duplicateOf }) => duplicateOf !== undefined);
  const waits = { ...noRunEvents, advancing: hasQueued, dueInMs, dropped };
  const { events, endedAs } = await startRoots(tx, ready);
  const recalled =
    tx.isRetry && repeated.length > 0 ? await recallEvents(tx, repeated) : noRunEvents;
  // A run can end in the transaction that starts it.
  const runs = starts.map((start) => {
    const status = endedAs.get(start.duplicateOf ?? start.runId);
    return status === undefined ? start : { ...start, status };
  });
  return { events: mergeRunEvents([waits, events, recalled]), runs };
}

export interface RunCreation {
  readonly events: RunCommitEvents;
  /** The result of each draft, in their order. */
  readonly runs: readonly RunStart[];
}

/**
 * Returns the events of an earlier commit whose response was lost. They can be repeated, because a
 * needless check does no harm.
 */
export async function recallEvents(
  tx: Transaction,
  runIds: readonly string[],
): Promise<RunCommitEvents> {
  const runs = [...(await readRuns(tx, [...new Set(runIds)])).values()];
  for (const run of runs) if (run.completedAt !== null) tx.ends?.note(run);
  return { advancing: true, queued: true, dueInMs: 0 };
}

/** Creates the first branch of each running run, and advances it. */
async function startRoots(
  tx: Transaction,
  runIds: readonly string[],
): Promise<Pick<BranchChanges, 'events' | 'endedAs'>> {
  const endedAs = new Map<string, RunStatus>();
  if (runIds.length === 0) return { events: noRunEvents, endedAs };
  const runs = [...(await readRuns(tx, runIds)).values()];
  const started = await runInSavepoint(tx, async (inner) => {
    const pairs: { run: RunRow; branch: BranchRow }[] = [];
    for (const run of runs) pairs.push({ run, branch: await loadRoot(inner, run) });
    const changes = new BranchChanges();
    for (const loaded of await loadBranches(inner, pairs)) {
      applyTransition(changes, loaded, { arrival: { kind: 'start' }, isNew: true });
    }
    await writeChanges(inner, changes);
    return changes;
  });
  if (started.isDone) return started.value;
  if (runs.length > 1) return await startEachRoot(tx, runIds);
  await insertRoots(tx, runs);
  const { error } = started;
  await insertFailures(
    tx,
    runs.map(({ id }) => ({ runId: id, branchId: id, node: '', processId: '', error })),
  );
  const failures = runs.map(({ id: branchId }) => ({ branchId, error }));
  return { events: { ...noRunEvents, advancing: true, failures }, endedAs };
}

/** Starts the runs one by one, so that the failure of one doesn't stop the others. */
async function startEachRoot(
  tx: Transaction,
  runIds: readonly string[],
): Promise<Pick<BranchChanges, 'events' | 'endedAs'>> {
  const events: RunCommitEvents[] = [];
  const endedAs = new Map<string, RunStatus>();
  for (const id of runIds) {
    const started = await startRoots(tx, [id]);
    events.push(started.events);
    for (const [runId, status] of started.endedAs) endedAs.set(runId, status);
  }
  return { events: mergeRunEvents(events), endedAs };
}

async function loadRoot(tx: Transaction, run: RunRow): Promise<BranchRow> {
  const graph = await findGraph(tx, run.definitionHash);
  if (graph === undefined) throw new Error(`there is no definition ${run.definitionHash}`);
  return createRoot(run, graph);
}

interface InsertResult {
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
async function insertOnce(tx: Transaction, drafts: readonly RunDraft[]): Promise<InsertResult> {
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
    for (const draft of inserted) starts.set(draft.id, toStart(draft, times.dueAt));
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

function toStart({ id, concurrency }: RunDraft, dueAt: StartTimes['dueAt']): RunStart {
  const isQueued = concurrency !== undefined || dueAt.has(id);
  return { runId: id, status: isQueued ? 'queued' : 'running' };
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
