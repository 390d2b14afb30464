import type { Dialect, Transaction } from '../../ledger/dialect.ts';
import type { PruneRequest } from '../../job/types.ts';
import { text } from '../../ledger/row.ts';

/** Runs whose rows one step looks at. */
const RUNS_AT_ONCE = 10;

const parts = ['run_steps', 'run_branches', 'run_advancements', 'run_payloads'] as const;

/**
 * Deletes ended runs with all that belongs to them. A wide one goes in several steps, and its own row
 * last, so that nothing is left behind that nobody would find.
 */
export async function pruneRuns(
  tx: Transaction,
  { olderThanMs, limit }: PruneRequest,
): Promise<number> {
  const { dialect } = tx;
  const runs = dialect.table('pipeline_runs');
  const old = await tx.run(`${selectOldRuns(dialect)} ${dialect.skipLocked}`, [
    -olderThanMs,
    RUNS_AT_ONCE,
  ]);
  let gone = 0;
  for (const row of old) {
    const id = text(row, 'id');
    for (const part of parts) {
      if (gone < limit) gone += await prunePart(tx, part, id, limit - gone);
    }
    if (gone >= limit) break;
    await tx.run(`delete from ${runs} where id = ?`, [id]);
    gone += 1;
  }
  // Fewer than were asked for would mean that there are no more.
  return old.length === RUNS_AT_ONCE ? limit : Math.min(gone, limit);
}

/** It takes the age in (negative) milliseconds and the number of runs. */
export function selectOldRuns(dialect: Dialect): string {
  return `select id from ${dialect.table('pipeline_runs')} where completed_at is not null
    and completed_at <= (select ${dialect.nowPlus('?')})
    and (held_until is null or held_until <= (select ${dialect.now}))
    order by completed_at limit ?`;
}

async function prunePart(
  tx: Transaction,
  part: (typeof parts)[number],
  runId: string,
  limit: number,
): Promise<number> {
  const table = tx.dialect.table(part);
  // The ids of branches begin with their run's, which is what their index is for.
  const isNear = part === 'run_branches' ? 'id >= ? and id < ? and' : '';
  const values = part === 'run_branches' ? [runId, `${runId}~`, runId] : [runId];
  const isRow = part === 'run_steps' ? '(run_id, id) in (select run_id, id' : 'id in (select id';
  const rows = await tx.run(
    `delete from ${table} where ${isRow} from ${table} where ${isNear} run_id = ? limit ?) returning 1 as one`,
    [...values, limit],
  );
  return rows.length;
}
