import { findSealedPayloads } from '../../access/credential.sql.ts';
import { limits } from '../../base/limits.ts';
import { defineRows, type Row, type Session, type Transaction } from '../../ledger/dialect.ts';
import { int, text, textOrNull } from '../../ledger/row.ts';
import { isMasked } from '../../signal/mask.ts';
import { closeAdvancements } from './advancement.sql.ts';
import {
  advanceClaimed,
  findAwaitedSignal,
  findNeed,
  hasSeveralWaits,
  parseLeftWork,
  type SignalSearch,
  type WaitSignal,
} from './advancer.ts';
import { cancelBranches } from './change.sql.ts';
import { runIdOf, ancestorsOf, noRunEvents, BranchChanges, type LoadedBranch } from './changes.ts';
import { loadBranches } from './load-run.sql.ts';
import {
  FROM_RUN_START,
  branchTable,
  FROM_RUN_START_AGAIN,
  type BranchRow,
  type Arrival,
  type RunRow,
} from './run.ts';
import { lockBranches, readJoin, recallEvents, writeChanges } from './advance.sql.ts';
import type { AdvanceRequest, AdvanceResult } from './types.ts';
import { parseSignalNote } from './walk.ts';

/** Reads the outputs of a wide block before the transaction that joins them, to keep that short. */
export async function prepareJoin(
  session: Session,
  { branchId, token }: AdvanceRequest,
): Promise<Arrival | undefined> {
  const [row] = await session.run(
    `select * from ${session.dialect.table('run_branches')} where id = ?`,
    [branchId],
  );
  if (row === undefined || row['claim_token'] !== token) return undefined;
  const branch = branchTable.decode(row);
  return findNeed(branch) === 'join' ? await readJoin(session, branch) : undefined;
}

/** Advances a claimed branch by one bounded step. */
export async function advanceBranch(
  tx: Transaction,
  { branchId, token }: AdvanceRequest,
  join: Arrival | undefined,
): Promise<AdvanceResult> {
  const runId = runIdOf(branchId);
  const [runs, branches] = await lockBranches(tx, [{ runId, branchId }]);
  const [run, branch] = [runs.get(runId), branches.get(branchId)];
  if (run === undefined || branch?.claimToken !== token) {
    if (!tx.isRetry) return { ...noRunEvents, verdict: 'fenced' };
    return { ...(await recallEvents(tx, [runId])), verdict: 'done' };
  }
  if (run.status !== 'running') return await advanceEnded(tx, branch);
  const [loaded] = await loadBranches(tx, [{ run, branch }]);
  if (loaded === undefined) return { ...noRunEvents, verdict: 'fenced' };
  const changes = new BranchChanges();
  const verdict = advanceClaimed(changes, loaded, await readNeed(tx, loaded, join));
  await writeChanges(tx, changes);
  if (verdict === 'done') await closeAdvancements(tx, [branchId], {});
  return { ...changes.events, verdict };
}

/** Continues the cancellation of a run that ended. All other branches are only released. */
async function advanceEnded(tx: Transaction, branch: BranchRow): Promise<AdvanceResult> {
  const { id } = branch;
  const left = parseLeftWork(branch);
  if (left?.kind !== 'sweep') {
    await tx.run(
      `update ${tx.dialect.table('run_branches')} set claim_token = null, claimed_by = null
        where id = ?`,
      [id],
    );
    return { ...noRunEvents, verdict: 'done' };
  }
  const { left: remaining } = await cancelBranches(tx, id, left);
  if (remaining === undefined) await closeAdvancements(tx, [id], {});
  // Jobs that waited for the cancelled jobs can be claimed now.
  return { ...noRunEvents, queued: true, verdict: remaining === undefined ? 'done' : 'more' };
}

/** Reads the outputs of a block to join, or what ends a wait. */
async function readNeed(
  tx: Transaction,
  loaded: LoadedBranch,
  join: Arrival | undefined,
): Promise<SignalSearch> {
  const need = findNeed(loaded.branch);
  if (need === 'wake-up') return await findWakeUp(tx, loaded);
  return need === 'join' ? { arrival: join ?? (await readJoin(tx, loaded.branch)) } : {};
}

/** Finds what ends the wait of a branch: a signal, or its deadline. */
async function findWakeUp(tx: Transaction, loaded: LoadedBranch): Promise<SignalSearch> {
  const { waitsFor: type, wakeFrom: from, deadlineAt } = loaded.branch;
  if (type !== null && from !== null) {
    const search = await searchSignal(tx, loaded, { type, from });
    if (search.arrival !== undefined || search.continueFrom !== undefined) return search;
  }
  const [clock] = await tx.run(`select ${tx.dialect.now} as now`);
  const at = text(clock ?? {}, 'now');
  if (deadlineAt !== null && deadlineAt <= at) return { arrival: { kind: 'due', at } };
  // With several writers, an uncommitted signal may not have seen that this branch waits.
  const isUnsure = tx.dialect.settledBelow !== undefined && from === FROM_RUN_START;
  return isUnsure ? { continueFrom: FROM_RUN_START_AGAIN } : {};
}

/** Checks a bounded number of the signals of a type, oldest first. */
async function searchSignal(
  tx: Transaction,
  loaded: LoadedBranch,
  { type, from }: { readonly type: string; readonly from: number },
): Promise<SignalSearch> {
  const first =
    from < FROM_RUN_START_AGAIN
      ? from
      : await findFirstSince(tx, await readWorkStart(tx, loaded.run));
  if (first === undefined) return {};
  const rows = await tx.run(
    `select seq, id, source, data, metadata from ${tx.dialect.table('signals')}
      where type = ? and seq >= ? order by seq limit ${limits.signalSearchMax}`,
    [type, first],
  );
  if (rows.length === 0) return {};
  const used = await listUsedSignals(tx, loaded, type);
  const arrival = findAwaitedSignal(loaded, type, await openSignals(tx, rows), used);
  if (arrival !== undefined) return { arrival };
  const last = rows.at(-1);
  const isFull = rows.length === limits.signalSearchMax && last !== undefined;
  return isFull ? { continueFrom: int(last, 'seq') + 1 } : {};
}

/** Decodes signals, and decrypts the payloads of those that are masked. */
async function openSignals(tx: Transaction, rows: readonly Row[]): Promise<WaitSignal[]> {
  const { openSignal } = tx;
  const signals = rows.map((row) => ({
    id: text(row, 'id'),
    source: text(row, 'source'),
    data: text(row, 'data'),
  }));
  const masked = rows
    .filter((row) => isMasked(text(row, 'metadata')))
    .map((row) => text(row, 'id'));
  if (masked.length === 0 || openSignal === undefined) return signals;
  const found = await findSealedPayloads(tx, masked);
  const sealedOf = new Map(found.map(({ signalId, sealed }) => [signalId, sealed]));
  return signals.map((signal): WaitSignal => {
    const sealed = sealedOf.get(signal.id);
    if (sealed === undefined) return signal;
    try {
      return { ...signal, data: openSignal(signal.id, sealed) };
    } catch (error) {
      return { ...signal, fault: error instanceof Error ? error : new Error(String(error)) };
    }
  });
}

/** Reads when the work of a run started: for a revived run, the start of the first run. */
async function readWorkStart(tx: Transaction, { lineage, createdAt }: RunRow): Promise<string> {
  const [row] = await tx.run(
    `select created_at from ${tx.dialect.table('pipeline_runs')} where id = ?`,
    [lineage],
  );
  return row === undefined ? createdAt : text(row, 'created_at');
}

async function findFirstSince(tx: Transaction, start: string): Promise<number | undefined> {
  const [row] = await tx.run(
    `select seq from ${tx.dialect.table('signals')} where inserted_at >= ?
      order by inserted_at, seq limit 1`,
    [start],
  );
  return row === undefined ? undefined : int(row, 'seq');
}

/** Lists the signals that started the run, or ended an earlier wait of this branch or its ancestors. */
async function listUsedSignals(
  tx: Transaction,
  { run, graph, branch }: LoadedBranch,
  type: string,
): Promise<ReadonlySet<string>> {
  const used = new Set(run.sourceEventId === null ? [] : [run.sourceEventId]);
  if (!hasSeveralWaits(graph, type)) return used;
  const rows = await tx.each(
    selectWaitNotes,
    [branch.id, ...ancestorsOf(branch.id)].map((branch_id) => ({ run_id: run.id, branch_id })),
  );
  for (const row of rows) used.add(parseSignalNote(textOrNull(row, 'note')) ?? '');
  return used;
}

const selectWaitNotes = defineRows({
  columns: { run_id: 'text', branch_id: 'text' },
  sql: (r, d) =>
    `select q.note from ${r.lateral(
      `select s.note from ${d.table('run_steps')} s where s.run_id = ${r('run_id')}
        and s.branch_id = ${r('branch_id')} and s.kind = 'wait' and s.status = 'succeeded'`,
    )}`,
});
