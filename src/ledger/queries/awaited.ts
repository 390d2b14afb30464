import type { Json } from '../../base/json.ts';
import { limits } from '../../base/limits.ts';
import type { Graph } from '../../pipeline/graph.ts';
import type { Arrival } from '../../pipeline/move.ts';
import { isAwaited, signalTakenIn } from '../../pipeline/wait.ts';
import { senderOf } from '../../signal/signal.ts';
import { defineRows, type Transaction } from '../dialect.ts';
import { int, text, textOrNull } from './row.ts';
import type { RunRow } from './run-row.ts';
import type { Stand } from './standing.ts';

/** Where a branch begins that may go on with what came before it waited: at the start of its run. */
export const FROM_THE_START = 0;

/** The same once more. */
export const FROM_THE_START_AGAIN = -1;

/** What ends the wait, or from which signal on the next look goes on; neither when all were seen. */
export interface Look {
  readonly arrival?: Arrival;
  readonly goOnFrom?: number;
}

/** Looks at some of the signals for which a branch waits, the oldest first. */
export async function lookForSignal(
  tx: Transaction,
  stand: Stand,
  { type, from }: { readonly type: string; readonly from: number },
): Promise<Look> {
  const { run, graph, branch, own, base, context } = stand;
  const first = from > FROM_THE_START ? from : await firstSince(tx, await beginOf(tx, run));
  if (first === undefined) return {};
  const rows = await tx.run(
    `select seq, id, source, data from ${tx.dialect.table('signals')}
      where type = ? and seq >= ? order by seq limit ${limits.signalLookMax}`,
    [type, first],
  );
  if (rows.length === 0) return {};
  const taken = await takenBefore(tx, stand, type);
  const standing = { node: branch.node, stop: branch.stop, own, base, context };
  for (const row of rows) {
    const [signalId, data] = [text(row, 'id'), JSON.parse(text(row, 'data')) as Json];
    if (taken.has(signalId)) continue;
    const source = senderOf(text(row, 'source'));
    if (!isAwaited(graph, standing, { type, source, data })) continue;
    return { arrival: { kind: 'signalled', data, signalId } };
  }
  const last = rows.at(-1);
  const isFull = rows.length === limits.signalLookMax && last !== undefined;
  return isFull ? { goOnFrom: int(last, 'seq') + 1 } : {};
}

/** When the work of a run was begun: by the first one, if it was revived. */
async function beginOf(tx: Transaction, { lineage, createdAt }: RunRow): Promise<string> {
  const [row] = await tx.run(
    `select created_at from ${tx.dialect.table('pipeline_runs')} where id = ?`,
    [lineage],
  );
  return row === undefined ? createdAt : text(row, 'created_at');
}

async function firstSince(tx: Transaction, begin: string): Promise<number | undefined> {
  const [row] = await tx.run(
    `select seq from ${tx.dialect.table('signals')} where inserted_at >= ?
      order by inserted_at, seq limit 1`,
    [begin],
  );
  return row === undefined ? undefined : int(row, 'seq');
}

/** The signals that began its run, or ended an earlier wait on its way. */
async function takenBefore(
  tx: Transaction,
  { run, graph, branch }: Stand,
  type: string,
): Promise<ReadonlySet<string>> {
  const taken = new Set(run.sourceEventId === null ? [] : [run.sourceEventId]);
  if (!hasSeveralWaits(graph, type)) return taken;
  const rows = await tx.each(
    selectTaken,
    lineOf(branch.id).map((branch_id) => ({ run_id: run.id, branch_id })),
  );
  for (const row of rows) taken.add(signalTakenIn(textOrNull(row, 'note')) ?? '');
  return taken;
}

function hasSeveralWaits({ nodes }: Graph, type: string): boolean {
  const isSuch = (node: Graph['nodes'][string]): boolean =>
    node.kind === 'wait' && node.signal?.type === type;
  return Object.values(nodes).filter(isSuch).length > 1;
}

/** A branch and those that it comes from: each id has two parts more than its parent's. */
function lineOf(branchId: string): string[] {
  const parts = branchId.split('.');
  return parts.flatMap((_, index) =>
    index % 2 === 0 ? [parts.slice(0, index + 1).join('.')] : [],
  );
}

const selectTaken = defineRows({
  columns: { run_id: 'text', branch_id: 'text' },
  sql: (r, d) =>
    `select q.note from ${r.lateral(
      `select s.note from ${d.table('run_steps')} s where s.run_id = ${r('run_id')}
        and s.branch_id = ${r('branch_id')} and s.kind = 'wait' and s.status = 'succeeded'`,
    )}`,
});
