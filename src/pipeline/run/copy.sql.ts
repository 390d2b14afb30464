import {
  defineRows,
  type Transaction,
  type Dialect,
  type Session,
  type Value,
} from '../../ledger/dialect.ts';
import type { IsDropped } from './retry-from.ts';
import type { Revival } from './types.ts';
import { text, textOrNull } from '../../ledger/row.ts';
import { makeYield } from '../../base/timer.ts';
import { limits } from '../../base/limits.ts';

/**
 * Copies an ended run and its branches to a new run. The id of a branch starts with the id of its run;
 * only this part changes.
 */
export async function copyRun(tx: Transaction, revival: Revival, actor: string): Promise<void> {
  await copyRunRow(tx, revival, actor);
  const { of, id, withContext } = revival;
  const { dialect } = tx;
  const table = dialect.table('run_branches');
  const context = withContext ? 'b.event_context_id' : 'null';
  await forEachSlice(tx, branchRowsOf(dialect, of), ({ first, last }) =>
    tx.run(
      `insert into ${table} (id, run_id, parent_id, payload, event_context_id,
          ${branchColumns.join(', ')})
        select ${newIdOf('b.id')}, ${TEXT}, ${newIdOf('b.parent_id')},
          coalesce((select p.payload from ${dialect.table('run_payloads')} p
            where p.id = b.payload_ref), b.payload), ${context},
          ${branchColumns.map((column) => `b.${column}`).join(', ')}
        from ${table} b where b.id >= ? and b.id <= ?`,
      [id, of.length + 1, id, id, of.length + 1, first, last],
    ),
  );
}

/** Copies the steps that the new run does not repeat. */
export async function copySteps(
  tx: Transaction,
  { of, id }: Revival,
  isDropped?: IsDropped,
): Promise<void> {
  const { dialect } = tx;
  const table = dialect.table('run_steps');
  await forEachSlice(tx, stepRowsOf(dialect, of), async ({ first, last }) => {
    await tx.run(
      `insert into ${table} (run_id, branch_id, source_step_id, ${stepColumns.join(', ')})
        select ${TEXT}, ${newIdOf('s.branch_id')}, s.id,
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

async function copyRunRow(
  tx: Transaction,
  { of, id, firstJobId, withContext, hops = 0 }: Revival,
  actor: string,
): Promise<void> {
  const { dialect } = tx;
  const table = dialect.table('pipeline_runs');
  // A run with a concurrency key is queued like any other. An advancer starts it in its turn.
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

/** Returns the SQL expression for the id of the same branch in the new run. */
function newIdOf(column: string): string {
  return `cast(? as text) || substr(${column}, cast(? as integer))`;
}

/** PostgreSQL can't infer the type of a parameter in a select list. */
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

/** Without the columns of due times, waits and claims, which are empty in an ended run. */
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

/** A range of rows of a run, ordered by id. */
export interface RunRows {
  readonly table: string;
  /** The condition for the rows, without the range of ids. */
  readonly where: string;
  readonly values: readonly Value[];
  /** The lowest possible id. */
  readonly from: string;
  /** All ids are below this one. A slice has an upper bound of its own instead. */
  readonly below?: string;
}

/** A range of ids, both ends included. */
export interface Slice {
  readonly first: string;
  readonly last: string;
}

/** The ids of a run's branches start with the id of the run. */
export function branchRowsOf(dialect: Dialect, runId: string): RunRows {
  const table = dialect.table('run_branches');
  return { table, where: '1 = 1', values: [], from: runId, below: `${runId}~` };
}

export function stepRowsOf(dialect: Dialect, runId: string): RunRows {
  const table = dialect.table('run_steps');
  return { table, where: 'run_id = ?', values: [runId], from: '' };
}

/** Calls `work` for slices of a run's rows, and yields to the event loop between them. */
export async function forEachSlice(
  session: Session,
  { table, where, values, from, below }: RunRows,
  work: (slice: Slice) => Promise<unknown>,
): Promise<void> {
  const yieldTurn = makeYield();
  const [isBelow, end] = below === undefined ? ['', []] : [' and id < ?', [below]];
  // With two lower bounds, SQLite could start to scan the index at the lower one.
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
    await yieldTurn();
  }
}
