import {
  defineRows,
  type Transaction,
  type Dialect,
  type Session,
  type Value,
} from '../../ledger/dialect.ts';
import type { Revival } from './types.ts';
import { text, textOrNull } from '../../ledger/row.ts';
import { makeYield } from '../../base/timer.ts';
import { limits } from '../../base/limits.ts';

/**
 * Copies a run into a new one: what ended well is there as if it had happened in the new one, what
 * did not is there as it ended. Ids of branches begin with their run's, and keep what follows it.
 */
export async function copyRun(tx: Transaction, revival: Revival, actor: string): Promise<void> {
  await copyRow(tx, revival, actor);
  const { of, id, withContext } = revival;
  const { dialect } = tx;
  const table = dialect.table('run_branches');
  const context = withContext ? 'b.event_context_id' : 'null';
  await inSlices(tx, branchesOf(dialect, of), ({ first, last }) =>
    tx.run(
      `insert into ${table} (id, run_id, parent_id, payload, event_context_id,
          ${branchColumns.join(', ')})
        select ${moved('b.id')}, ${TEXT}, ${moved('b.parent_id')},
          coalesce((select p.payload from ${dialect.table('run_payloads')} p
            where p.id = b.payload_ref), b.payload), ${context},
          ${branchColumns.map((column) => `b.${column}`).join(', ')}
        from ${table} b where b.id >= ? and b.id <= ?`,
      [id, of.length + 1, id, id, of.length + 1, first, last],
    ),
  );
}

/** Whether something of the old run is to be done again, by its branch and its step. */
export type IsDropped = (branchId: string, node: string, kind?: string) => boolean;

/** Copies the steps that count as done. */
export async function copySteps(
  tx: Transaction,
  { of, id }: Revival,
  isDropped?: IsDropped,
): Promise<void> {
  const { dialect } = tx;
  const table = dialect.table('run_steps');
  await inSlices(tx, stepsOf(dialect, of), async ({ first, last }) => {
    await tx.run(
      `insert into ${table} (run_id, branch_id, source_step_id, ${stepColumns.join(', ')})
        select ${TEXT}, ${moved('s.branch_id')}, s.id,
          ${stepColumns.map((column) => `s.${column}`).join(', ')}
        from ${table} s where s.run_id = ? and s.id >= ? and s.id <= ?
          and (s.status in ('succeeded', 'skipped') or s.status = 'failed' and s.output is not null)`,
      [id, id, of.length + 1, of, first, last],
    );
    if (isDropped !== undefined) await dropSteps(tx, { of, id, first, last }, isDropped);
  });
}

async function dropSteps(
  tx: Transaction,
  { of, id, first, last }: Slice & Pick<Revival, 'of' | 'id'>,
  isDropped: IsDropped,
): Promise<void> {
  const rows = await tx.run(
    `select id, branch_id, node, kind from ${tx.dialect.table('run_steps')}
      where run_id = ? and id >= ? and id <= ?`,
    [of, first, last],
  );
  const dropped = rows.filter((row) =>
    isDropped(text(row, 'branch_id'), text(row, 'node'), text(row, 'kind')),
  );
  await tx.each(
    deleteStep,
    dropped.map((row) => ({ run_id: id, id: text(row, 'id') })),
  );
}

const deleteStep = defineRows({
  columns: { run_id: 'text', id: 'text' },
  sql: (r, d) => `delete from ${d.table('run_steps')} where (run_id, id) in
    (select ${r('run_id')}, ${r('id')} ${r.from})`,
});

async function copyRow(
  tx: Transaction,
  { of, id, firstJobId, withContext, hops = 0 }: Revival,
  actor: string,
): Promise<void> {
  const { dialect } = tx;
  const table = dialect.table('pipeline_runs');
  // One of a key waits for its turn like any other; whoever looks for those to begin finds it.
  await tx.run(
    `insert into ${table} (id, submitted_by, actor, first_job_id, event_context_id, status,
        started_at, created_at, revived_from, hops, ${runColumns.join(', ')})
      select ${TEXT}, 'directive', ${TEXT}, ${TEXT},
        ${withContext ? 'event_context_id' : 'null'},
        case when concurrency_key is null then 'running' else 'queued' end,
        case when concurrency_key is null then ${dialect.now} end, ${dialect.now}, id,
        case when hops < ${INT} then ${INT} else hops end, ${runColumns.join(', ')}
      from ${table} where id = ?`,
    [id, actor, firstJobId, hops, hops, of],
  );
}

/** The id of the same branch in the other run. */
function moved(column: string): string {
  return `cast(? as text) || substr(${column}, cast(? as integer))`;
}

/** Its type is not to be told from where it stands. */
const TEXT = 'cast(? as text)';
const INT = 'cast(? as integer)';

const runColumns = [
  'pipeline',
  'definition_hash',
  'payload',
  'source_event_id',
  'parent_job_id',
  'root_job_id',
  'lineage',
  'runtime_caused',
  'concurrency_key',
  'concurrency_limit',
  'dedupe_key',
  'dedupe_ttl_ms',
];

/** What is due, waited for or claimed is not copied: nothing of an ended run is. */
const branchColumns = [
  'parent_moves',
  'idx',
  'label',
  'path',
  'node',
  'stop',
  'status',
  'is_whole',
  'job_id',
  'moves',
  'block',
  'width',
  'cursor',
  'pending',
  'halted',
  'concurrency',
  'output',
  'outcome',
  'halt_reason',
  'halt_message',
  'last_step_id',
  'created_at',
  'completed_at',
];

const stepColumns = [
  'id',
  'node',
  'kind',
  'status',
  'job_id',
  'output',
  'error',
  'note',
  'next_node',
  'started_at',
  'due_at',
  'completed_at',
];

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
