import type { Json } from '../../base/json.ts';
import { limits } from '../../base/limits.ts';
import { parseJson } from '../../base/parse-json.ts';
import type { Graph } from '../language/graph.ts';
import type { Arrival } from './transition.ts';
import { isAwaitedSignal, parseSignalNote } from './walk.ts';
import { isMasked } from '../../signal/mask.ts';
import { senderOf } from '../../signal/signal.ts';
import { defineRows, type Row, type Transaction } from '../../ledger/dialect.ts';
import { findSealedPayloads } from '../../access/credential.sql.ts';
import { int, text, textOrNull } from '../../ledger/row.ts';
import type { RunRow } from './run-row.sql.ts';
import type { Stand } from './load-branch.sql.ts';
import { FROM_THE_START_AGAIN } from './wake-from.sql.ts';

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
  const first = from < FROM_THE_START_AGAIN ? from : await firstSince(tx, await beginOf(tx, run));
  if (first === undefined) return {};
  const rows = await tx.run(
    `select seq, id, source, data, metadata from ${tx.dialect.table('signals')}
      where type = ? and seq >= ? order by seq limit ${limits.signalLookMax}`,
    [type, first],
  );
  if (rows.length === 0) return {};
  const taken = await takenBefore(tx, stand, type);
  const whole = await openAll(tx, rows);
  const state = { node: branch.node, stop: branch.stop, own, base, context };
  for (const row of rows) {
    const signalId = text(row, 'id');
    if (taken.has(signalId)) continue;
    const { data, fault }: Opened = whole.get(signalId) ?? { data: text(row, 'data') };
    const told = { type, source: senderOf(text(row, 'source')), data: parseJson(data) as Json };
    if (!isAwaitedSignal(graph, state, told)) continue;
    if (fault !== undefined) throw fault;
    return { arrival: { kind: 'signalled', data: told.data, signalId } };
  }
  const last = rows.at(-1);
  const isFull = rows.length === limits.signalLookMax && last !== undefined;
  return isFull ? { goOnFrom: int(last, 'seq') + 1 } : {};
}

interface Opened {
  /** JSON text; only what the signal shows, where there is a fault. */
  readonly data: string;
  readonly fault?: Error;
}

/** By id, what those signals said that do not show all of it. */
async function openAll(tx: Transaction, rows: readonly Row[]): Promise<Map<string, Opened>> {
  const { openSignal } = tx;
  const masked = rows.filter((row) => isMasked(text(row, 'metadata')));
  if (masked.length === 0 || openSignal === undefined) return new Map();
  const shown = new Map(masked.map((row) => [text(row, 'id'), text(row, 'data')]));
  const found = await findSealedPayloads(tx, [...shown.keys()]);
  return new Map(
    found.map(({ signalId, sealed }): [string, Opened] => {
      try {
        return [signalId, { data: openSignal(signalId, sealed) }];
      } catch (error) {
        const fault = error instanceof Error ? error : new Error(String(error));
        return [signalId, { data: shown.get(signalId) ?? 'null', fault }];
      }
    }),
  );
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
  for (const row of rows) taken.add(parseSignalNote(textOrNull(row, 'note')) ?? '');
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
