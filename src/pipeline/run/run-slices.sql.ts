import { makeYield } from '../../base/timer.ts';
import { limits } from '../../base/limits.ts';
import type { Dialect, Session, Value } from '../../ledger/dialect.ts';
import { text, textOrNull } from '../../ledger/row.ts';

/** Rows of a run, by their ids. */
export interface RunRows {
  readonly table: string;
  /** Which ones, but for where they begin. */
  readonly where: string;
  readonly values: readonly Value[];
  /** The first id that there may be. */
  readonly from: string;
  /** Where their ids end; a slice of them has its own end, and is asked for with that alone. */
  readonly below?: string;
}

/** The ids from the first to the last. */
export interface Slice {
  readonly first: string;
  readonly last: string;
}

/** The ids of a run's branches begin with the run's own. */
export function branchesOf(dialect: Dialect, runId: string): RunRows {
  const table = dialect.table('run_branches');
  return { table, where: '1 = 1', values: [], from: runId, below: `${runId}~` };
}

export function stepsOf(dialect: Dialect, runId: string): RunRows {
  const table = dialect.table('run_steps');
  return { table, where: 'run_id = ?', values: [runId], from: '' };
}

/** Goes over the rows of a run in pieces, so that however wide it is, others have their turn. */
export async function inSlices(
  session: Session,
  { table, where, values, from, below }: RunRows,
  work: (slice: Slice) => Promise<unknown>,
): Promise<void> {
  const breathe = makeYield();
  const [isBelow, end] = below === undefined ? ['', []] : [' and id < ?', [below]];
  // One lower bound only: of two, SQLite may walk the index from the one that is further away.
  for (let [bound, id] = ['>=', from]; ; bound = '>') {
    const [row] = await session.run(
      `select min(id) as first, max(id) as last from (select id from ${table} where ${where} and id ${bound} ?${isBelow}
        order by id limit ${limits.runRowsAtOnce}) found`,
      [...values, id, ...end],
    );
    const last = textOrNull(row ?? {}, 'last');
    if (row === undefined || last === null) return;
    await work({ first: text(row, 'first'), last });
    id = last;
    await breathe();
  }
}
