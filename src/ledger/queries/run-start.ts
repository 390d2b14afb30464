import { defineRows, type Row, type Transaction } from '../dialect.ts';
import { joinNews, noNews, type RunDraft, type RunNews } from '../runs.ts';
import { Effects } from './effects.ts';
import { climb, readRuns } from './join.ts';
import { moveOn } from './moving.ts';
import { text } from './row.ts';
import { insertRuns, leaveRoots } from './run-insert.ts';
import type { BranchRow, RunRow } from './run-row.ts';
import { inSavepoint } from './savepoint.ts';
import { findGraph, toStands } from './standing.ts';

/**
 * Accepts runs, each once. Those that need not wait for others begin at once, and go as far as they
 * can; the rest is begun by whoever advances.
 */
export async function beginRuns(tx: Transaction, drafts: readonly RunDraft[]): Promise<RunNews> {
  if (drafts.length === 0) return noNews;
  const accepted = await insertRuns(tx, drafts);
  if (tx.again && accepted.length < drafts.length) {
    return await recallNews(
      tx,
      drafts.map(({ id }) => id),
    );
  }
  const free = accepted.filter(({ concurrency }) => concurrency === undefined);
  const waits = { ...noNews, advancing: free.length < accepted.length };
  const begun = await beginRoots(
    tx,
    free.map(({ id }) => id),
  );
  return joinNews([waits, begun]);
}

/** What a commit may have led to whose answer was lost; looking once too often does no harm. */
export async function recallNews(tx: Transaction, runIds: readonly string[]): Promise<RunNews> {
  const runs = [...(await readRuns(tx, [...new Set(runIds)])).values()];
  const ended = runs.filter(({ completedAt }) => completedAt !== null).map(({ id }) => id);
  return { ended, advancing: true, queued: true, dueInMs: 0 };
}

/** Gives runs that are under way their first branch, and moves it on. */
async function beginRoots(tx: Transaction, runIds: readonly string[]): Promise<RunNews> {
  if (runIds.length === 0) return noNews;
  const runs = [...(await readRuns(tx, runIds)).values()];
  const moved = await inSavepoint(tx, async (inner) => {
    const pairs: { run: RunRow; branch: BranchRow }[] = [];
    for (const run of runs) pairs.push({ run, branch: await rootOf(inner, run) });
    const effects = new Effects();
    for (const stand of await toStands(inner, pairs)) {
      moveOn(effects, stand, { arrival: { kind: 'start' }, isNew: true });
    }
    await climb(inner, effects);
    return effects.news;
  });
  if (moved.isDone) return moved.value;
  await leaveRoots(tx, runs);
  const { error } = moved;
  return {
    ...noNews,
    advancing: true,
    failures: runs.map(({ id: branchId }) => ({ branchId, error })),
  };
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

/** Queued runs for which there is room, oldest first, are under way: their roots are left to advance. */
export async function beginQueued(tx: Transaction, limit: number): Promise<void> {
  const { dialect } = tx;
  const table = dialect.table('pipeline_runs');
  const waiting = await tx.run(
    `select concurrency_key as key, min(seq) as first from ${table}
      where concurrency_key is not null and completed_at is null and status = 'queued'
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
  const isOfKey = `concurrency_key = ? and concurrency_key is not null and completed_at is null`;
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
