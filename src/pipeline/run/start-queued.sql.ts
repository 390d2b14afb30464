import { defineRows, type Row, type Transaction } from '../../ledger/dialect.ts';
import { text } from '../../ledger/row.ts';
import { readRuns } from './load-branch.sql.ts';
import { insertRoots } from './write-run.sql.ts';

/** Starts runs that are due now. Runs with a concurrency key are queued instead. */
export async function startDueRuns(tx: Transaction, limit: number): Promise<void> {
  const { dialect } = tx;
  const due = await tx.run(
    `select id from ${dialect.table('pipeline_runs')} where due_at is not null
      and due_at <= (select ${dialect.now}) order by due_at
      limit ? ${dialect.skipLocked}`,
    [limit],
  );
  if (due.length === 0) return;
  const started = await tx.each(
    startDue,
    due.map((row) => ({ id: text(row, 'id') })),
  );
  const running = started.filter((row) => row['status'] === 'running');
  await insertRootsOf(tx, running);
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

/** Starts queued runs that their concurrency limit allows, oldest first. */
export async function startQueuedRuns(tx: Transaction, limit: number): Promise<void> {
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
  // A statement of its own, because the next one must see the runs that other transactions started.
  if (dialect.lockRuns !== undefined) await tx.run(dialect.lockRuns);
  const started: Row[] = [];
  for (const row of waiting) {
    started.push(...(await startRunsOfKey(tx, text(row, 'key'), limit)));
  }
  // A revived run has its branches already.
  await insertRootsOf(
    tx,
    started.filter((row) => row['branches'] === 0),
  );
}

async function insertRootsOf(tx: Transaction, rows: readonly Row[]): Promise<void> {
  const runs = await readRuns(
    tx,
    rows.map((row) => text(row, 'id')),
  );
  await insertRoots(tx, [...runs.values()]);
}

async function startRunsOfKey(tx: Transaction, key: string, limit: number): Promise<Row[]> {
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
  // The limit of a run is that of its definition when it was accepted.
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
