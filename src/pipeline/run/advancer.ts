import type { Json } from '../../base/json.ts';
import { limits } from '../../base/limits.ts';
import { parseJson } from '../../base/parse-json.ts';
import { senderOf } from '../../signal/signal.ts';
import type { Graph } from '../language/graph.ts';
import { applyTransition, findStartEnd, startChildren } from './apply.ts';
import {
  parseFailing,
  draftBranch,
  unclaimed,
  type FailingState,
  type FailedArrival,
  type LoadedBranch,
  type BranchChanges,
  type BlockOpening,
} from './changes.ts';
import { FROM_RUN_START_AGAIN, type Arrival, type BranchRow, type RunRow } from './run.ts';
import { isAwaitedSignal } from './walk.ts';

/** The progress of a cancellation. The root stores it until all other branches have ended. */
export interface CancelState {
  readonly kind: 'sweep';
  /** The last branch that was ended. */
  readonly after: string;
  /** The work that was left for the root itself. A revived run continues with it. */
  readonly kept: string | null;
}

type LeftWork = Arrival | BlockOpening | CancelState | { readonly kind: 'join' };

const OPEN = '{"kind":"open"}';
const JOIN = '{"kind":"join"}';

/** Returns the work that a branch left for an advancer. */
export function parseLeftWork(branch: BranchRow): LeftWork | undefined {
  const text = leftTextOf(branch);
  return text === null ? undefined : (parseJson(text) as LeftWork);
}

function leftTextOf({ outcome }: BranchRow): string | null {
  const failing = parseFailing(outcome);
  return failing === undefined ? outcome : (failing.left ?? OPEN);
}

/** The result of a search for a signal. Without both fields, all signals have been checked. */
export interface SignalSearch {
  /** Ends the wait. */
  readonly arrival?: Arrival;
  /** The number of the signal from which the next search continues. */
  readonly continueFrom?: number;
}

/** Returns what has to be read before a claimed branch can be advanced. */
export function findNeed(branch: BranchRow): 'join' | 'wake-up' | undefined {
  if (hasCrashed(branch)) return undefined;
  // Compared as text, because the work can contain large events.
  const text = leftTextOf(branch);
  if (text === null) return 'wake-up';
  return text === JOIN ? 'join' : undefined;
}

/** Advances a claimed branch by one bounded step. `found` is what `findNeed` asked for. */
export function advanceClaimed(
  changes: BranchChanges,
  loaded: LoadedBranch,
  found: SignalSearch,
): 'done' | 'more' {
  const { branch } = loaded;
  if (hasCrashed(branch)) {
    const error = `${branch.crashes} processes died while they advanced the branch`;
    failBranch(changes, loaded, { kind: 'failed', reason: 'advancement_crashes_exhausted', error });
    return 'done';
  }
  const left = parseLeftWork(branch);
  if (left?.kind === 'sweep') throw new Error(`run ${branch.runId} is not over`);
  if (left?.kind === 'open') return startBatch(changes, loaded, left);
  const arrival = left === undefined || left.kind === 'join' ? found.arrival : left;
  if (arrival === undefined) continueWaiting(changes, loaded, found.continueFrom);
  else applyTransition(changes, loaded, { arrival });
  return 'done';
}

function hasCrashed({ crashes }: BranchRow): boolean {
  return crashes >= limits.crashesMax;
}

/** Starts one batch of the branches of a wide block. */
function startBatch(
  changes: BranchChanges,
  loaded: LoadedBranch,
  { events }: BlockOpening,
): 'done' | 'more' {
  const branch = draftBranch(loaded.branch, { due: { inMs: limits.branchLeaseMs } });
  const end = findStartEnd(branch);
  const batch = { events, end, startedMax: limits.advanceBatchMax };
  const started = startChildren(changes, { ...loaded, branch }, batch);
  if (started.cursor < end) return 'more';
  changes.addBranch({
    ...started,
    ...unclaimed,
    status: 'waiting',
    outcome: null,
    due: undefined,
  });
  return 'done';
}

function continueWaiting(
  changes: BranchChanges,
  { branch }: LoadedBranch,
  continueFrom: number | undefined,
): void {
  const laterMs = continueFrom === FROM_RUN_START_AGAIN ? limits.signalSearchAgainMs : 0;
  const waiting = draftBranch(branch, {
    wakeFrom: continueFrom ?? null,
    searchInMs: continueFrom === undefined ? undefined : laterMs,
    claimToken: null,
    claimedBy: null,
  });
  changes.addBranch(waiting);
}

/** Starts no more branches of the block, and halts when the last running one has ended. */
export function failBranch(
  changes: BranchChanges,
  loaded: LoadedBranch,
  arrival: FailedArrival,
): void {
  const { branch } = loaded;
  const running = branch.block === null ? 0 : branch.pending - (branch.width - branch.cursor);
  if (running === 0) {
    applyTransition(changes, loaded, { arrival });
    return;
  }
  const failing: FailingState = { kind: 'failing', arrival, left: branch.outcome };
  const outcome = JSON.stringify(failing);
  const waiting = { ...unclaimed, status: 'waiting', pending: running, outcome } as const;
  changes.addBranch(draftBranch(branch, waiting));
}

/** True for a root that has not reached its first step. */
export function isUnstarted({ parentId, node }: BranchRow): boolean {
  return parentId === null && node === '';
}

/** Halts a run without its definition, because a missing definition can be what stops its start. */
export function haltUnstarted(
  changes: BranchChanges,
  run: RunRow,
  branch: BranchRow,
  { reason, error }: FailedArrival,
): void {
  const root = draftBranch(branch, {
    status: 'halted',
    haltReason: reason,
    haltMessage: error,
    claimToken: null,
    claimedBy: null,
  });
  changes.addBranch(root);
  changes.endRun({ run, root, context: {} });
}

/** A stored signal, as a wait reads it. */
export interface WaitSignal {
  readonly id: string;
  readonly source: string;
  /** JSON text. With a fault, the masked payload. */
  readonly data: string;
  /** The reason why the masked payload can't be opened. */
  readonly fault?: Error | undefined;
}

/** Finds the first signal that ends a wait. `used` are signals that ended earlier waits. */
export function findAwaitedSignal(
  { graph, branch, own, base, context }: LoadedBranch,
  type: string,
  signals: readonly WaitSignal[],
  used: ReadonlySet<string>,
): Arrival | undefined {
  const state = { node: branch.node, stop: branch.stop, own, base, context };
  for (const { id, source, data, fault } of signals) {
    if (used.has(id)) continue;
    const signal = { type, source: senderOf(source), data: parseJson(data) as Json };
    if (!isAwaitedSignal(graph, state, signal)) continue;
    if (fault !== undefined) throw fault;
    return { kind: 'signalled', data: signal.data, signalId: id };
  }
  return undefined;
}

/** True if a pipeline waits for a type of signal at several steps. */
export function hasSeveralWaits({ nodes }: Graph, type: string): boolean {
  const waits = Object.values(nodes).filter(
    (node) => node.kind === 'wait' && node.signal?.type === type,
  );
  return waits.length > 1;
}
