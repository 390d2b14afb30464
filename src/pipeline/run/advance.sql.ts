import type { Json } from '../../base/json.ts';
import { limits } from '../../base/limits.ts';
import { parseJson } from '../../base/parse-json.ts';
import { findSealedPayloads } from '../../access/credential.sql.ts';
import { defineRows, type Row, type Session, type Transaction } from '../../ledger/dialect.ts';
import { int, text, textOrNull } from '../../ledger/row.ts';
import { isMasked } from '../../signal/mask.ts';
import { senderOf } from '../../signal/signal.ts';
import type { Graph } from '../language/graph.ts';
import { closeAdvancement } from './advancement.sql.ts';
import { applyTransition, findStartEnd, startChildren, type BlockOpening } from './apply.ts';
import { cancelBranches, type CancelState } from './change.sql.ts';
import {
  BranchChanges,
  ancestorsOf,
  noRunEvents,
  runIdOf,
  unclaimed,
  type BranchRow,
  type LoadedBranch,
  type RunRow,
} from './changes.ts';
import { findGraph, loadBranches, toBranch } from './load-run.sql.ts';
import { FROM_RUN_START, FROM_RUN_START_AGAIN, type Arrival } from './run.ts';
import {
  failBranch,
  lockBranches,
  parseFailing,
  readJoin,
  writeChanges,
} from './settle-branch.sql.ts';
import { recallEvents } from './start.sql.ts';
import type { AdvanceRequest, AdvanceResult } from './types.ts';
import { isAwaitedSignal, parseSignalNote } from './walk.ts';

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
  const branch = toBranch(row);
  return isJoin(branch.outcome) ? await readJoin(session, branch) : undefined;
}

function isJoin(outcome: string | null): boolean {
  return outcome === '{"kind":"join"}';
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
  const graph = await findGraph(tx, run.definitionHash);
  // A root that has not started yet has no node.
  const node = branch.node === '' ? (graph?.first ?? '') : branch.node;
  const [loaded] = await loadBranches(tx, [{ run, branch: { ...branch, node } }]);
  if (loaded === undefined) return { ...noRunEvents, verdict: 'fenced' };
  const changes = new BranchChanges();
  const verdict = await advanceLoaded(tx, changes, loaded, join);
  await writeChanges(tx, changes);
  if (verdict === 'done') await closeAdvancement(tx, branchId, null);
  return { ...changes.events, verdict };
}

/** Continues the cancellation of a run that ended. All other branches are only released. */
async function advanceEnded(tx: Transaction, { id, outcome }: BranchRow): Promise<AdvanceResult> {
  const left = outcome === null ? undefined : toOutcome(outcome);
  if (left?.kind !== 'sweep') {
    await tx.run(
      `update ${tx.dialect.table('run_branches')} set claim_token = null, claimed_by = null
        where id = ?`,
      [id],
    );
    return { ...noRunEvents, verdict: 'done' };
  }
  const { left: remaining } = await cancelBranches(tx, id, left);
  if (remaining === undefined) await closeAdvancement(tx, id, null);
  // Jobs that waited for the cancelled jobs can be claimed now.
  return { ...noRunEvents, queued: true, verdict: remaining === undefined ? 'done' : 'more' };
}

async function advanceLoaded(
  tx: Transaction,
  changes: BranchChanges,
  loaded: LoadedBranch,
  join: Arrival | undefined,
): Promise<'done' | 'more'> {
  const { branch } = loaded;
  const isNew = false;
  if (branch.crashes >= limits.crashesMax) {
    const reason = 'advancement_crashes_exhausted';
    const error = `${branch.crashes} processes died while they moved it on`;
    failBranch(changes, loaded, { kind: 'failed', reason, error });
    return 'done';
  }
  const outcome = branch.outcome === null ? undefined : toOutcome(branch.outcome);
  if (outcome?.kind === 'sweep') throw new Error(`run ${branch.runId} is not over`);
  if (outcome?.kind === 'open') return advanceOpening(changes, loaded, outcome);
  if (outcome?.kind === 'join') {
    applyTransition(changes, loaded, { arrival: join ?? (await readJoin(tx, branch)), isNew });
    return 'done';
  }
  const { arrival, continueFrom } =
    outcome === undefined ? await findWakeUp(tx, loaded) : { arrival: outcome };
  if (arrival === undefined) continueWaiting(changes, loaded, continueFrom);
  else applyTransition(changes, loaded, { arrival, isNew });
  return 'done';
}

type Outcome = Arrival | BlockOpening | CancelState | { readonly kind: 'join' };

function toOutcome(outcome: string): Outcome {
  const failing = parseFailing(outcome);
  return parseJson(failing === undefined ? outcome : (failing.left ?? OPEN)) as Outcome;
}

const OPEN = '{"kind":"open"}';

/** Starts one batch of the branches of a wide block. */
function advanceOpening(
  changes: BranchChanges,
  loaded: LoadedBranch,
  { events }: BlockOpening,
): 'done' | 'more' {
  const { branch } = loaded;
  const opened = {
    ...loaded,
    branch: { ...branch, due: { inMs: limits.branchLeaseMs }, wasPlain: false },
    isNew: false,
  };
  const end = findStartEnd(opened.branch);
  const startedMax = limits.advanceBatchMax;
  const started = startChildren(changes, opened, { events, end, startedMax });
  if (started.cursor < end) return 'more';
  changes.addBranch(
    {
      ...started,
      ...unclaimed,
      status: 'waiting',
      outcome: null,
      due: undefined,
    },
    false,
  );
  return 'done';
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

function continueWaiting(
  changes: BranchChanges,
  { branch }: LoadedBranch,
  continueFrom: number | undefined,
): void {
  const isLater = continueFrom === FROM_RUN_START_AGAIN;
  const searchInMs = isLater ? limits.signalSearchAgainMs : 0;
  changes.addBranch(
    {
      ...branch,
      wakeFrom: continueFrom ?? null,
      due: undefined,
      searchInMs: continueFrom === undefined ? undefined : searchInMs,
      wasPlain: false,
      claimToken: null,
      claimedBy: null,
    },
    false,
  );
}

/** The result of a search. Without both fields, all signals have been checked. */
export interface SignalSearch {
  /** Ends the wait. */
  readonly arrival?: Arrival;
  /** The number of the signal from which the next search continues. */
  readonly continueFrom?: number;
}

/** Checks a bounded number of the signals of a type, oldest first. */
export async function searchSignal(
  tx: Transaction,
  loaded: LoadedBranch,
  { type, from }: { readonly type: string; readonly from: number },
): Promise<SignalSearch> {
  const { run, graph, branch, own, base, context } = loaded;
  const first =
    from < FROM_RUN_START_AGAIN ? from : await findFirstSince(tx, await readWorkStart(tx, run));
  if (first === undefined) return {};
  const rows = await tx.run(
    `select seq, id, source, data, metadata from ${tx.dialect.table('signals')}
      where type = ? and seq >= ? order by seq limit ${limits.signalSearchMax}`,
    [type, first],
  );
  if (rows.length === 0) return {};
  const used = await listUsedSignals(tx, loaded, type);
  const opened = await openMasked(tx, rows);
  const state = { node: branch.node, stop: branch.stop, own, base, context };
  for (const row of rows) {
    const signalId = text(row, 'id');
    if (used.has(signalId)) continue;
    const { data, fault }: OpenedSignal = opened.get(signalId) ?? { data: text(row, 'data') };
    const signal = { type, source: senderOf(text(row, 'source')), data: parseJson(data) as Json };
    if (!isAwaitedSignal(graph, state, signal)) continue;
    if (fault !== undefined) throw fault;
    return { arrival: { kind: 'signalled', data: signal.data, signalId } };
  }
  const last = rows.at(-1);
  const isFull = rows.length === limits.signalSearchMax && last !== undefined;
  return isFull ? { continueFrom: int(last, 'seq') + 1 } : {};
}

interface OpenedSignal {
  /** JSON text. With a fault, the masked payload. */
  readonly data: string;
  readonly fault?: Error;
}

/** Decrypts the payloads of masked signals, by id. */
async function openMasked(
  tx: Transaction,
  rows: readonly Row[],
): Promise<Map<string, OpenedSignal>> {
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

function hasSeveralWaits({ nodes }: Graph, type: string): boolean {
  const waits = Object.values(nodes).filter(
    (node) => node.kind === 'wait' && node.signal?.type === type,
  );
  return waits.length > 1;
}

const selectWaitNotes = defineRows({
  columns: { run_id: 'text', branch_id: 'text' },
  sql: (r, d) =>
    `select q.note from ${r.lateral(
      `select s.note from ${d.table('run_steps')} s where s.run_id = ${r('run_id')}
        and s.branch_id = ${r('branch_id')} and s.kind = 'wait' and s.status = 'succeeded'`,
    )}`,
});
