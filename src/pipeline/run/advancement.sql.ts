import { makeId } from '../../base/ids.ts';
import { defineRows, type Row, type Session, type Transaction } from '../../ledger/dialect.ts';
import { text, textOrNull } from '../../ledger/row.ts';
import type { Advancement } from './types.ts';

/** The start of an advancement of a branch. */
export interface AdvancementDraft {
  readonly branchId: string;
  readonly runId: string;
  readonly node: string;
}

export async function insertAdvancements(
  tx: Transaction,
  processId: string,
  drafts: readonly AdvancementDraft[],
): Promise<void> {
  await tx.each(
    insertAdvancement,
    drafts.map(({ branchId, runId, node }) => ({
      advancement: makeId(),
      run_id: runId,
      id: branchId,
      node,
    })),
    [processId],
  );
}

const insertAdvancement = defineRows({
  columns: { advancement: 'text', run_id: 'text', id: 'text', node: 'text' },
  sql: (r, d) => `insert into ${d.table('run_advancements')}
    (id, run_id, branch_id, node, process_id, started_at)
    select ${r('advancement')}, ${r('run_id')}, ${r('id')}, ${r('node')}, ${r.common(0)}, ${d.now}
    ${r.from}`,
});

/** Records advancements that failed in the transaction that caused them. */
export async function insertFailures(
  tx: Transaction,
  failures: readonly Pick<Advancement, 'runId' | 'branchId' | 'node' | 'processId' | 'error'>[],
): Promise<void> {
  await tx.each(
    insertFailure,
    failures.map(({ runId, branchId, node, processId, error }) => {
      return {
        id: makeId(),
        run_id: runId,
        branch_id: branchId,
        node,
        process_id: processId,
        error,
      };
    }),
  );
}

const insertFailure = defineRows({
  columns: {
    id: 'text',
    run_id: 'text',
    branch_id: 'text',
    node: 'text',
    process_id: 'text',
    error: 'text',
  },
  sql: (r, d) => `insert into ${d.table('run_advancements')}
    (id, run_id, branch_id, node, process_id, started_at, completed_at, error)
    select ${r('id')}, ${r('run_id')}, ${r('branch_id')}, ${r('node')}, ${r('process_id')},
      ${d.now}, ${d.now}, ${r('error')} ${r.from}`,
});

/** Closes advancements whose process crashed. */
export async function closeCrashedAdvancements(
  tx: Transaction,
  branchIds: readonly string[],
): Promise<void> {
  await tx.each(
    closeCrashed,
    branchIds.map((id) => ({ id })),
  );
}

const closeCrashed = defineRows({
  columns: { id: 'text' },
  sql: (r, d) => `update ${d.table('run_advancements')} set completed_at = ${d.now}, crashed = 1
    ${r.from}
    where run_advancements.branch_id = ${r('id')} and run_advancements.completed_at is null`,
});

export async function closeAdvancement(
  tx: Transaction,
  branchId: string,
  error: string | null,
): Promise<void> {
  const { dialect } = tx;
  await tx.run(
    `update ${dialect.table('run_advancements')} set completed_at = ${dialect.now}, error = ?
      where branch_id = ? and completed_at is null`,
    [error, branchId],
  );
}

/** Closes the advancement of a branch that its process released without finishing it. */
export async function closeReleasedAdvancement(
  tx: Transaction,
  branchId: string,
  crashed: boolean,
): Promise<void> {
  const { dialect } = tx;
  await tx.run(
    `update ${dialect.table('run_advancements')} set completed_at = ${dialect.now}, crashed = ?
      where branch_id = ? and completed_at is null`,
    [crashed ? 1 : 0, branchId],
  );
}

export async function listAdvancements(
  session: Session,
  runId: string,
  limit: number,
): Promise<Advancement[]> {
  const rows = await session.run(
    `select * from ${session.dialect.table('run_advancements')} where run_id = ?
      order by id desc limit ?`,
    [runId, limit],
  );
  return rows.map(toAdvancement);
}

function toAdvancement(row: Row): Advancement {
  return {
    id: text(row, 'id'),
    runId: text(row, 'run_id'),
    branchId: text(row, 'branch_id'),
    node: text(row, 'node'),
    processId: text(row, 'process_id'),
    startedAt: text(row, 'started_at'),
    completedAt: textOrNull(row, 'completed_at'),
    error: textOrNull(row, 'error'),
    crashed: row['crashed'] === 1,
  };
}
