import { makeId } from '../../base/ids.ts';
import { defineRows, type Session, type Transaction } from '../../ledger/dialect.ts';
import { defineInsert } from '../../ledger/insert.ts';
import { readRows } from '../../ledger/row.ts';
import { advancementTable, type Advancement } from './types.ts';

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
    drafts.map((draft) => ({ ...draft, id: makeId() })),
  );
}

const insertAdvancement = defineInsert(advancementTable, {
  properties: ['id', 'runId', 'branchId', 'node', 'processId', 'error'],
  sql: (r, d) => ({
    startedAt: d.now,
    completedAt: `case when ${r('error')} is not null then ${d.now} end`,
  }),
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
  return await readRows(session, advancementTable, 'where run_id = ? order by id desc limit ?', [
    runId,
    limit,
  ]);
}
