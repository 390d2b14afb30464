import { enqueueJobs } from '../../job/enqueue.sql.ts';
import { requireQueueRoom } from '../../job/queue.sql.ts';
import type { EnqueueResult } from '../../job/types.ts';
import type { EnqueueBatch, StartedBatch } from '../../ledger/commit.ts';
import { hasWaitingBranch } from '../../signal/signal.sql.ts';
import type { RunStatus } from './run.ts';
import { defineRows, type Row, type Transaction } from '../../ledger/dialect.ts';
import { joinNews, noNews, type RunDraft, type RunNews, type RunStart } from './types.ts';
import { recordFailures } from './after-job.sql.ts';
import { Effects } from './changes.ts';
import { climb, readRuns } from './join.sql.ts';
import { moveOn } from './apply.ts';
import { text } from '../../ledger/row.ts';
import { acceptRuns, leaveRoots } from './accept.sql.ts';
import { findGraph, toStands, type BranchRow, type RunRow } from './load-branch.sql.ts';
import { inSavepoint } from '../../ledger/savepoint.ts';

/** Accepts jobs, and the runs and signals that belong to them. */
export async function enqueueBatch(tx: Transaction, batch: EnqueueBatch): Promise<EnqueueResult[]> {
  await requireRoom(tx, batch);
  const enqueued = await enqueueJobs(tx, batch);
  await beginRuns(tx, batch.runs ?? []);
  return enqueued;
}

/** Accepts runs, and the jobs and signals that belong to them. */
export async function startRuns(tx: Transaction, batch: EnqueueBatch): Promise<StartedBatch> {
  await requireRoom(tx, batch);
  const jobs = await enqueueJobs(tx, batch);
  const { news, runs } = await beginRuns(tx, batch.runs ?? []);
  const advancing = news.advancing || (await hasWaitingBranch(tx, batch.signals ?? []));
  return { ...news, advancing, jobs, runs };
}

async function requireRoom(
  tx: Transaction,
  { queueLimit, jobs, runs = [] }: EnqueueBatch,
): Promise<void> {
  if (queueLimit !== undefined) await requireQueueRoom(tx, queueLimit, jobs.length + runs.length);
}

/**
 * Accepts runs, each once. Those that need not wait for others begin at once, and go as far as they
 * can; the rest is begun by whoever advances.
 */
export async function beginRuns(tx: Transaction, drafts: readonly RunDraft[]): Promise<Begun> {
  if (drafts.length === 0) return { news: noNews, runs: [] };
  const { starts, free, areInLine, dueInMs, repeated } = await acceptRuns(tx, drafts);
  const dropped = starts.filter(({ duplicateOf }) => duplicateOf !== undefined);
  const waits = { ...noNews, advancing: areInLine, dueInMs, dropped };
  const { news, endedAs } = await beginRoots(tx, free);
  const recalled = tx.again && repeated.length > 0 ? await recallNews(tx, repeated) : noNews;
  // A run may be over where it begins.
  const runs = starts.map((start) => {
    const status = endedAs.get(start.duplicateOf ?? start.runId);
    return status === undefined ? start : { ...start, status };
  });
  return { news: joinNews([waits, news, recalled]), runs };
}

export interface Begun {
  readonly news: RunNews;
  /** What became of each draft, in their order. */
  readonly runs: readonly RunStart[];
}

/** What a commit may have led to whose answer was lost; looking once too often does no harm. */
export async function recallNews(tx: Transaction, runIds: readonly string[]): Promise<RunNews> {
  const runs = [...(await readRuns(tx, [...new Set(runIds)])).values()];
  for (const run of runs) if (run.completedAt !== null) tx.ends?.note(run);
  return { advancing: true, queued: true, dueInMs: 0 };
}

/** Gives runs that are under way their first branch, and moves it on. */
async function beginRoots(
  tx: Transaction,
  runIds: readonly string[],
): Promise<Pick<Effects, 'news' | 'endedAs'>> {
  const endedAs = new Map<string, RunStatus>();
  if (runIds.length === 0) return { news: noNews, endedAs };
  const runs = [...(await readRuns(tx, runIds)).values()];
  const moved = await inSavepoint(tx, async (inner) => {
    const pairs: { run: RunRow; branch: BranchRow }[] = [];
    for (const run of runs) pairs.push({ run, branch: await rootOf(inner, run) });
    const effects = new Effects();
    for (const stand of await toStands(inner, pairs)) {
      moveOn(effects, stand, { arrival: { kind: 'start' }, isNew: true });
    }
    await climb(inner, effects);
    return effects;
  });
  if (moved.isDone) return moved.value;
  if (runs.length > 1) return await beginEach(tx, runIds);
  await leaveRoots(tx, runs);
  const { error } = moved;
  await recordFailures(
    tx,
    runs.map(({ id }) => ({ runId: id, branchId: id, node: '', processId: '', error })),
  );
  const failures = runs.map(({ id: branchId }) => ({ branchId, error }));
  return { news: { ...noNews, advancing: true, failures }, endedAs };
}

/** What one of them cannot do is no reason to leave the others. */
async function beginEach(
  tx: Transaction,
  runIds: readonly string[],
): Promise<Pick<Effects, 'news' | 'endedAs'>> {
  const news: RunNews[] = [];
  const endedAs = new Map<string, RunStatus>();
  for (const id of runIds) {
    const begun = await beginRoots(tx, [id]);
    news.push(begun.news);
    for (const [runId, status] of begun.endedAs) endedAs.set(runId, status);
  }
  return { news: joinNews(news), endedAs };
}

async function rootOf(tx: Transaction, run: RunRow): Promise<BranchRow> {
  const graph = await findGraph(tx, run.definitionHash);
  if (graph === undefined) throw new Error(`there is no definition ${run.definitionHash}`);
  return {
    id: run.id,
    runId: run.id,
    parentId: null,
    parentMoves: null,
    index: 0,
    label: null,
    path: '0',
    node: graph.first,
    stop: null,
    status: 'running',
    payload: run.payload,
    payloadRef: null,
    isWhole: true,
    eventContextId: run.eventContextId,
    jobId: null,
    moves: 0,
    block: null,
    width: 0,
    cursor: 0,
    pending: 0,
    halted: 0,
    concurrency: null,
    output: null,
    outcome: null,
    dueAt: null,
    deadlineAt: null,
    waitsFor: null,
    wakeFrom: null,
    claimToken: null,
    claimedBy: null,
    tries: 0,
    crashes: 0,
    haltReason: null,
    haltMessage: null,
    lastStepId: null,
    createdAt: run.createdAt,
    completedAt: null,
  };
}

/** Runs whose time has come are under way, or in line with others of their concurrency key. */
export async function beginDue(tx: Transaction, limit: number): Promise<void> {
  const { dialect } = tx;
  const due = await tx.run(
    `select id from ${dialect.table('pipeline_runs')} where due_at is not null
      and due_at <= (select ${dialect.now}) order by due_at
      limit ? ${dialect.skipLocked}`,
    [limit],
  );
  if (due.length === 0) return;
  const begun = await tx.each(
    startDue,
    due.map((row) => ({ id: text(row, 'id') })),
  );
  const free = begun.filter((row) => row['status'] === 'running').map((row) => text(row, 'id'));
  await leaveRoots(tx, [...(await readRuns(tx, free)).values()]);
}

const startDue = defineRows({
  columns: { id: 'text' },
  sql: (r, d) => `update ${d.table('pipeline_runs')} set due_at = null,
      status = case when concurrency_key is null then 'running' else 'queued' end,
      started_at = case when concurrency_key is null then ${d.now} end
    ${r.from}
    where pipeline_runs.id = ${r('id')} and pipeline_runs.due_at is not null
    returning pipeline_runs.id, pipeline_runs.status`,
});

/** Queued runs for which there is room, oldest first, are under way: their roots are left to advance. */
export async function beginQueued(tx: Transaction, limit: number): Promise<void> {
  const { dialect } = tx;
  const table = dialect.table('pipeline_runs');
  const waiting = await tx.run(
    `select concurrency_key as key, min(seq) as first from ${table}
      where concurrency_key is not null and completed_at is null and due_at is null
        and status = 'queued'
      group by concurrency_key order by 2 limit ?`,
    [limit],
  );
  if (waiting.length === 0) return;
  // In a statement of its own: what follows must see what others began.
  if (dialect.lockRuns !== undefined) await tx.run(dialect.lockRuns);
  const begun: Row[] = [];
  for (const row of waiting) {
    begun.push(...(await beginOfKey(tx, text(row, 'key'), limit)));
  }
  const bare = begun.filter((row) => row['branches'] === 0).map((row) => text(row, 'id'));
  await leaveRoots(tx, [...(await readRuns(tx, bare)).values()]);
}

async function beginOfKey(tx: Transaction, key: string, limit: number): Promise<Row[]> {
  const { dialect } = tx;
  const table = dialect.table('pipeline_runs');
  const isOfKey = `concurrency_key = ? and concurrency_key is not null and completed_at is null
    and due_at is null`;
  const [counted] = await tx.run(
    `select count(*) as n from ${table} where ${isOfKey} and status = 'running'`,
    [key],
  );
  const running = Number(counted?.['n'] ?? 0);
  const queued = await tx.run(
    `select id, concurrency_limit from ${table} where ${isOfKey} and status = 'queued'
      order by seq limit ?`,
    [key, limit],
  );
  // Each has the limit that its definition gave it when it was accepted.
  const ids = queued
    .filter((row, index) => running + index < Number(row['concurrency_limit'] ?? 1))
    .map((row) => ({ id: text(row, 'id') }));
  return await tx.each(startQueued, ids);
}

const startQueued = defineRows({
  columns: { id: 'text' },
  sql: (r, d) => `update ${d.table('pipeline_runs')} set status = 'running', started_at = ${d.now}
    ${r.from}
    where pipeline_runs.id = ${r('id')} and pipeline_runs.status = 'queued'
    returning pipeline_runs.id, (select count(*) from ${d.table('run_branches')} b
      where b.id = pipeline_runs.id) as branches`,
});
