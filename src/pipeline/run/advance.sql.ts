import { closeAdvancement } from './claim-branch.sql.ts';
import { limits } from '../../base/limits.ts';
import { parseJson } from '../../base/parse-json.ts';
import type { Arrival } from './transition.ts';
import { defineRows, type Row, type Session, type Transaction } from '../../ledger/dialect.ts';
import { noNews, type AdvanceResult, type AdvanceRequest } from './types.ts';
import { lockBranches } from './after-job.sql.ts';
import { Effects } from './changes.ts';
import { failBranch, failingOf, climb, readJoin } from './join.sql.ts';
import { beginChildren, moveOn, roomOf, type Opening } from './apply.ts';
import { text, textOrNull, int } from '../../ledger/row.ts';
import {
  toBranch,
  findGraph,
  toStands,
  type BranchRow,
  type RunRow,
  type Stand,
} from './load-branch.sql.ts';
import { recallNews } from './start.sql.ts';
import { sweep, type Sweeping } from './change.sql.ts';
import { FROM_THE_START, FROM_THE_START_AGAIN } from './run.ts';
import type { Json } from '../../base/json.ts';
import type { Graph } from '../language/graph.ts';
import { isAwaitedSignal, parseSignalNote } from './walk.ts';
import { isMasked } from '../../signal/mask.ts';
import { senderOf } from '../../signal/signal.ts';
import { findSealedPayloads } from '../../access/credential.sql.ts';

/** What the branches of a wide block gave, read before the transaction that uses it. */
export async function prepareJoin(
  session: Session,
  { branchId, token }: AdvanceRequest,
): Promise<Arrival | undefined> {
  const [row] = await session.run(
    `select * from ${session.dialect.table('run_branches')} where id = ?`,
    [branchId],
  );
  if (row === undefined || row['claim_token'] !== token) return undefined;
  const branch = toBranch(row);
  return isJoin(branch.outcome) ? await readJoin(session, branch) : undefined;
}

function isJoin(outcome: string | null): boolean {
  return outcome === '{"kind":"join"}';
}

export async function advanceBranch(
  tx: Transaction,
  { branchId, token }: AdvanceRequest,
  join: Arrival | undefined,
): Promise<AdvanceResult> {
  const runId = branchId.split('.')[0] ?? '';
  const [runs, branches] = await lockBranches(tx, [{ runId, branchId }]);
  const [run, branch] = [runs.get(runId), branches.get(branchId)];
  if (run === undefined || branch?.claimToken !== token) {
    if (!tx.again) return { ...noNews, verdict: 'fenced' };
    return { ...(await recallNews(tx, [runId])), verdict: 'done' };
  }
  if (run.status !== 'running') return await advanceEnded(tx, branch);
  const graph = await findGraph(tx, run.definitionHash);
  // A root that was only accepted does not know yet where its pipeline begins.
  const node = branch.node === '' ? (graph?.first ?? '') : branch.node;
  const [stand] = await toStands(tx, [{ run, branch: { ...branch, node } }]);
  if (stand === undefined) return { ...noNews, verdict: 'fenced' };
  const effects = new Effects();
  const verdict = await advanceStand(tx, effects, stand, join);
  await climb(tx, effects);
  if (verdict === 'done') await closeAdvancement(tx, branchId, null);
  return { ...effects.news, verdict };
}

/** Of a run that is over, only a cancellation has something left to do. */
async function advanceEnded(tx: Transaction, { id, outcome }: BranchRow): Promise<AdvanceResult> {
  const left = outcome === null ? undefined : toOutcome(outcome);
  if (left?.kind !== 'sweep') {
    await tx.run(
      `update ${tx.dialect.table('run_branches')} set claim_token = null, claimed_by = null
        where id = ?`,
      [id],
    );
    return { ...noNews, verdict: 'done' };
  }
  const swept = await sweep(tx, id, left);
  if (swept.left === undefined) await closeAdvancement(tx, id, null);
  // What stood behind its jobs in the queue can be claimed now.
  return { ...noNews, queued: true, verdict: swept.left === undefined ? 'done' : 'more' };
}

async function advanceStand(
  tx: Transaction,
  effects: Effects,
  stand: Stand,
  join: Arrival | undefined,
): Promise<'done' | 'more'> {
  const { branch } = stand;
  const isNew = false;
  if (branch.crashes >= limits.crashesMax) {
    const reason = 'advancement_crashes_exhausted';
    const error = `${branch.crashes} processes died while they moved it on`;
    failBranch(effects, stand, { kind: 'failed', reason, error });
    return 'done';
  }
  const outcome = branch.outcome === null ? undefined : toOutcome(branch.outcome);
  if (outcome?.kind === 'sweep') throw new Error(`run ${branch.runId} is not over`);
  if (outcome?.kind === 'open') return advanceOpening(effects, stand, outcome);
  if (outcome?.kind === 'join') {
    moveOn(effects, stand, { arrival: join ?? (await readJoin(tx, branch)), isNew });
    return 'done';
  }
  const { arrival, goOnFrom } =
    outcome === undefined ? await findWakening(tx, stand) : { arrival: outcome };
  if (arrival === undefined) goOnWaiting(effects, stand, goOnFrom);
  else moveOn(effects, stand, { arrival, isNew });
  return 'done';
}

type Outcome = Arrival | Opening | Sweeping | { readonly kind: 'join' };

function toOutcome(outcome: string): Outcome {
  const failing = failingOf(outcome);
  return parseJson(failing === undefined ? outcome : (failing.left ?? OPEN)) as Outcome;
}

const OPEN = '{"kind":"open"}';

/** One batch of a wide block. */
function advanceOpening(effects: Effects, stand: Stand, { events }: Opening): 'done' | 'more' {
  const { branch } = stand;
  const opened = {
    ...stand,
    branch: { ...branch, due: { inMs: limits.branchLeaseMs }, wasPlain: false },
    isNew: false,
  };
  const to = roomOf(opened.branch);
  const begunMax = limits.advanceBatchMax;
  const begun = beginChildren(effects, opened, { events, to, begunMax });
  if (begun.cursor < to) return 'more';
  effects.put(
    {
      ...begun,
      status: 'waiting',
      outcome: null,
      due: undefined,
      claimToken: null,
      claimedBy: null,
      tries: 0,
      crashes: 0,
    },
    false,
  );
  return 'done';
}

/** Its time has come, or a signal for which it waits; else from where it looks on, if anywhere. */
async function findWakening(tx: Transaction, stand: Stand): Promise<Look> {
  const { waitsFor: type, wakeFrom: from, deadlineAt } = stand.branch;
  if (type !== null && from !== null) {
    const look = await lookForSignal(tx, stand, { type, from });
    if (look.arrival !== undefined || look.goOnFrom !== undefined) return look;
  }
  const [clock] = await tx.run(`select ${tx.dialect.now} as now`);
  const at = text(clock ?? {}, 'now');
  if (deadlineAt !== null && deadlineAt <= at) return { arrival: { kind: 'due', at } };
  // Where several write at once, a signal may be on its way that did not see this branch wait.
  const isUnsure = tx.dialect.settledBelow !== undefined && from === FROM_THE_START;
  return isUnsure ? { goOnFrom: FROM_THE_START_AGAIN } : {};
}

function goOnWaiting(effects: Effects, { branch }: Stand, goOnFrom: number | undefined): void {
  const isLater = goOnFrom === FROM_THE_START_AGAIN;
  const lookInMs = isLater ? limits.signalLookAgainMs : 0;
  effects.put(
    {
      ...branch,
      wakeFrom: goOnFrom ?? null,
      due: undefined,
      lookInMs: goOnFrom === undefined ? undefined : lookInMs,
      wasPlain: false,
      claimToken: null,
      claimedBy: null,
    },
    false,
  );
}

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
    const { data, fault }: OpenedSignal = whole.get(signalId) ?? { data: text(row, 'data') };
    const told = { type, source: senderOf(text(row, 'source')), data: parseJson(data) as Json };
    if (!isAwaitedSignal(graph, state, told)) continue;
    if (fault !== undefined) throw fault;
    return { arrival: { kind: 'signalled', data: told.data, signalId } };
  }
  const last = rows.at(-1);
  const isFull = rows.length === limits.signalLookMax && last !== undefined;
  return isFull ? { goOnFrom: int(last, 'seq') + 1 } : {};
}

interface OpenedSignal {
  /** JSON text; only what the signal shows, where there is a fault. */
  readonly data: string;
  readonly fault?: Error;
}

/** By id, what those signals said that do not show all of it. */
async function openAll(tx: Transaction, rows: readonly Row[]): Promise<Map<string, OpenedSignal>> {
  const { openSignal } = tx;
  const masked = rows.filter((row) => isMasked(text(row, 'metadata')));
  if (masked.length === 0 || openSignal === undefined) return new Map();
  const shown = new Map(masked.map((row) => [text(row, 'id'), text(row, 'data')]));
  const found = await findSealedPayloads(tx, [...shown.keys()]);
  return new Map(
    found.map(({ signalId, sealed }): [string, OpenedSignal] => {
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
