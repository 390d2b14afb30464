import { makeId } from '../../base/ids.ts';
import { defineRows, type Row, type Session, type Transaction } from '../../ledger/dialect.ts';
import { text, textOrNull } from '../../ledger/row.ts';
import type { Advancement } from './types.ts';

type AdvancementDraft = Pick<Advancement, 'runId' | 'branchId' | 'node' | 'processId'> & {
  /** Set if the advancement has failed already, in the transaction that caused it. */
  readonly error?: string;
};

/** Records that processes advance branches. */
export async function insertAdvancements(
  tx: Transaction,
  drafts: readonly AdvancementDraft[],
): Promise<void> {
  await tx.each(
    insertAdvancement,
    drafts.map(({ runId, branchId, node, processId, error = null }) => {
      const id = makeId();
      return { id, run_id: runId, branch_id: branchId, node, process_id: processId, error };
    }),
  );
}

const insertAdvancement = defineRows({
  columns: {
    id: 'text',
    run_id: 'text',
    branch_id: 'text',
    node: 'text',
    process_id: 'text',
    error: 'text',
  },
  sql: (r, d) => `insert into ${d.table('run_advancements')}
    (id, run_id, branch_id, node, process_id, error, started_at, completed_at)
    select ${r('id')}, ${r('run_id')}, ${r('branch_id')}, ${r('node')}, ${r('process_id')},
      ${r('error')}, ${d.now}, case when ${r('error')} is not null then ${d.now} end ${r.from}`,
});

/** Closes the open advancements of branches: done, failed, or left by a process that crashed. */
export async function closeAdvancements(
  tx: Transaction,
  branchIds: readonly string[],
  { error = null, crashed = false }: { readonly error?: string | null; readonly crashed?: boolean },
): Promise<void> {
  await tx.each(
    closeAdvancement,
    branchIds.map((id) => ({ id, error, crashed: crashed ? 1 : 0 })),
  );
}

const closeAdvancement = defineRows({
  columns: { id: 'text', error: 'text', crashed: 'int' },
  sql: (r, d) => `update ${d.table('run_advancements')} set completed_at = ${d.now},
      error = ${r('error')}, crashed = ${r('crashed')}
    ${r.from}
    where run_advancements.branch_id = ${r('id')} and run_advancements.completed_at is null`,
});

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
