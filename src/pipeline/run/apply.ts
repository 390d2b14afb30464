import { makeId } from '../../base/ids.ts';
import { compact, type Json, type JsonObject } from '../../base/json.ts';
import { limits } from '../../base/limits.ts';
import type { Job, JobDraft } from '../../job/job.ts';
import { advance } from './advance.ts';
import {
  draftRunJob,
  notPaused,
  parseFailing,
  BranchChanges,
  draftBranch,
  baseKeyOf,
  newBranch,
  stepKeyOf,
  type LoadedBranch,
  type BlockOpening,
  type BranchDraft,
  type StepDraft,
} from './changes.ts';
import {
  FROM_RUN_START,
  type Landing,
  type Transition,
  type BranchRow,
  type Arrival,
} from './run.ts';
import { createBranchStarter } from './walk.ts';

/** The most branches that one transaction starts, including those of nested blocks. */
const STARTED_BRANCHES_MAX = 2 * limits.advanceBatchMax;

export interface TransitionCause {
  readonly arrival: Arrival;
  /** The job that ended. */
  readonly job?: Job;
}

type LandingOf<K extends Landing['kind']> = Extract<Landing, { readonly kind: K }>;

/** Computes everything that follows from arrivals at branches. Pure: state in, changes out. */
export function applyArrivals(states: readonly (LoadedBranch & TransitionCause)[]): BranchChanges {
  const changes = new BranchChanges();
  for (const state of states) applyTransition(changes, state, state);
  return changes;
}

/** Advances one branch, and adds everything that follows to the changes. */
export function applyTransition(
  changes: BranchChanges,
  loaded: LoadedBranch,
  cause: TransitionCause,
): void {
  const { graph, branch, own, base, context } = loaded;
  const state = { node: branch.node, stop: branch.stop, own, base, context };
  const transition = advance(graph, state, cause.arrival);
  const lastStepId = addSteps(changes, loaded, transition, cause) ?? branch.lastStepId;
  const { landing } = transition;
  const moved = draftBranch(branch, { ...notPaused, moves: branch.moves + 1, lastStepId });
  if (landing.kind === 'end') {
    endBranch(changes, loaded, { ...moved, status: 'succeeded', output: landing.output });
  } else if (landing.kind === 'halt') haltBranch(changes, loaded, moved, landing);
  else {
    const stopped = {
      ...moved,
      node: landing.node,
      payload: JSON.stringify(landing.own),
      isWhole: branch.isWhole || landing.isWhole,
    };
    if (landing.kind === 'task') startTask(changes, loaded, stopped, landing);
    else if (landing.kind === 'pause') pause(changes, loaded, stopped, landing);
    else openBlock(changes, loaded, stopped, landing);
  }
}

/** Returns the id of the last step. */
function addSteps(
  changes: BranchChanges,
  { run, graph, branch }: LoadedBranch,
  { steps, landing }: Transition,
  { arrival, job }: TransitionCause,
): string | undefined {
  const kind = graph.nodes[branch.node]?.kind;
  const wasWaiting = (kind === 'approve' || kind === 'wait') && arrival.kind !== 'start';
  const landingNode = landing.kind === 'end' ? null : landing.node;
  let lastId: string | undefined;
  steps.forEach((step, index) => {
    const isFirst = index === 0;
    const waitingId = isFirst && wasWaiting ? branch.lastStepId : null;
    const isJob = isFirst && arrival.kind !== 'start' && step.kind === 'task';
    const draft: StepDraft = {
      ...step,
      id: waitingId ?? makeId(),
      runId: run.id,
      branchId: branch.id,
      jobId: isJob ? branch.jobId : null,
      nextNode: steps[index + 1]?.node ?? (landingNode === step.node ? null : landingNode),
      startedAt: isJob ? (job?.startedAt ?? undefined) : undefined,
      due: step.status === 'waiting' && landing.kind === 'pause' ? landing.due : undefined,
    };
    (waitingId === null ? changes.steps : changes.closedSteps).push(draft);
    lastId = draft.id;
  });
  return lastId;
}

function startTask(
  changes: BranchChanges,
  { run, graph, branch }: LoadedBranch,
  stopped: BranchDraft,
  landing: LandingOf<'task'>,
): void {
  const node = graph.nodes[landing.node];
  if (node?.kind !== 'task') throw new Error(`step ${landing.node} is not a task`);
  const eventContextId =
    landing.context === undefined
      ? branch.eventContextId
      : addContext(changes, run.pipeline, branch.eventContextId, landing.node, landing.context);
  const isFirst = branch.id === run.id && branch.jobId === null;
  const job: JobDraft = {
    ...draftRunJob(run, node, branch.jobId, eventContextId),
    id: isFirst ? run.firstJobId : makeId(),
    payload: JSON.stringify(landing.input),
    idempotencyKey: stepKeyOf(run.lineage, branch.path, landing.node),
    run: { id: run.id, branchId: branch.id, stepId: landing.node },
    ...compact({
      sourceEventId: isFirst ? (run.sourceEventId ?? undefined) : undefined,
      baseKey: baseKeyOf(stopped),
      dependencyKey: landing.dependency,
      timeoutMs: node.timeoutMs,
      backoffMs: node.backoffBaseMs,
    }),
  };
  changes.addJob(job);
  changes.addBranch({ ...stopped, status: 'running', jobId: job.id, eventContextId });
}

function addContext(
  changes: BranchChanges,
  pipeline: string,
  parentId: string | null,
  stepId: string,
  context: JsonObject,
): string {
  const id = makeId();
  const accumulated = JSON.stringify(context);
  const parent = parentId === null ? {} : { parentId };
  changes.contexts.push({ id, ...parent, pipeline, stepId, accumulated });
  return id;
}

function pause(
  changes: BranchChanges,
  { run, graph, context }: LoadedBranch,
  stopped: BranchDraft,
  { node: id, due, signal, message }: LandingOf<'pause'>,
): void {
  const node = graph.nodes[id];
  // The signal can have arrived while earlier steps of the run were in progress.
  const searchesBack =
    node?.kind === 'wait' && signal !== undefined && node.signal?.since !== 'now';
  const search = searchesBack ? { wakeFrom: FROM_RUN_START, searchInMs: 0 } : {};
  if (node?.kind === 'approve') {
    const { id: branchId, lastStepId: stepId, jobId } = stopped;
    const wait = { run, branchId, stepId, node: id, jobId, message, due, context };
    changes.approvalWaits.push(wait);
  }
  const waitsFor = signal ?? null;
  changes.addBranch({ ...stopped, status: 'waiting', due, waitsFor, ...search });
}

function openBlock(
  changes: BranchChanges,
  loaded: LoadedBranch,
  stopped: BranchDraft,
  landing: LandingOf<'open'>,
): void {
  const { block, width, events } = landing;
  const opened: BranchDraft = {
    ...stopped,
    status: 'waiting',
    block,
    width,
    pending: width,
    concurrency: landing.concurrency ?? null,
  };
  const end = findStartEnd(opened);
  const fits = changes.startedCount + end <= STARTED_BRANCHES_MAX;
  if (end <= limits.inlineFanoutMax && fits) {
    const base = opened.isWhole ? {} : loaded.base;
    const parent = { ...loaded, branch: opened, own: landing.own, base };
    startChildren(changes, moveLargePayload(changes, parent), { events, end });
    return;
  }
  const left = leaveToAdvancer(opened, {
    kind: 'open',
    ...(events === undefined ? {} : { events }),
  });
  changes.addBranch(moveLargePayload(changes, { branch: left }).branch);
}

function leaveToAdvancer(
  branch: BranchDraft,
  outcome: BlockOpening | { readonly kind: 'join' },
): BranchDraft {
  return { ...branch, status: 'advancing', outcome: JSON.stringify(outcome), due: { inMs: 0 } };
}

/** Returns the index before which branches of a block may start now, by its concurrency. */
export function findStartEnd({ width, cursor, pending, concurrency }: BranchDraft): number {
  const running = pending - (width - cursor);
  return Math.min(width, cursor + (concurrency ?? width) - running);
}

/** A parent whose branches are being started. */
export interface OpenBlock extends Omit<LoadedBranch, 'branch'> {
  readonly branch: BranchDraft;
}

/**
 * Stores the large payload of a wide block's parent in a row of its own. The parent's row is updated
 * whenever one of its branches ends, and a large row makes these updates slow.
 */
function moveLargePayload<T extends { readonly branch: BranchDraft }>(
  changes: BranchChanges,
  parent: T,
): T {
  const { branch } = parent;
  const isWide = branch.width > limits.inlineFanoutMax;
  if (!isWide || branch.payload.length <= limits.branchPayloadBytesMax) return parent;
  const id = `${branch.id}:${branch.moves}`;
  changes.payloads.push({ id, runId: branch.runId, payload: branch.payload });
  return { ...parent, branch: { ...branch, payloadRef: id } };
}

export interface StartBatch {
  readonly events: readonly Json[] | undefined;
  /** The index of the first branch that doesn't start yet. */
  readonly end: number;
  /** Stops after this many started branches, including those of nested blocks. */
  readonly startedMax?: number;
}

/** Starts branches of a block from its cursor on. Returns the parent's new state. */
export function startChildren(
  changes: BranchChanges,
  parent: OpenBlock,
  { events, end, startedMax = Infinity }: StartBatch,
): BranchDraft {
  const { branch, graph, own, base, context } = parent;
  const { block, moves } = branch;
  if (block === null) throw new Error(`branch ${branch.id} has no open block`);
  const state = { node: branch.node, own, base, context };
  const createStart = createBranchStarter(graph, state, block, events);
  const parentPayload = { ...base, ...own };
  let { cursor } = branch;
  for (; cursor < end && changes.startedCount < startedMax; cursor += 1) {
    const start = createStart(cursor);
    const child: BranchRow = {
      ...notPaused,
      ...newBranch,
      id: `${branch.id}.${moves}.${String(cursor).padStart(INDEX_DIGITS, '0')}`,
      runId: branch.runId,
      parentId: branch.id,
      parentMoves: moves,
      index: cursor,
      path: `${branch.path}.${cursor}`,
      label: start.label,
      node: start.node,
      stop: start.stop,
      isWhole: start.isWhole,
      payload: JSON.stringify(start.own),
      eventContextId: branch.eventContextId,
      jobId: branch.jobId,
    };
    const loaded: LoadedBranch = {
      ...parent,
      branch: child,
      own: start.own,
      base: start.isWhole ? {} : parentPayload,
    };
    applyTransition(changes, loaded, { arrival: { kind: 'start' } });
  }
  const started = { ...branch, cursor };
  changes.addBranch(started);
  return started;
}

/** Enough for `limits.fanoutMax`, so that ids sort as indexes do. */
const INDEX_DIGITS = 7;

/** Keeps the position and the open block of the branch: a revived run continues there. */
function haltBranch(
  changes: BranchChanges,
  loaded: LoadedBranch,
  moved: BranchDraft,
  landing: LandingOf<'halt'>,
): void {
  const { block, width, moves, cursor, concurrency, outcome, isWhole } = loaded.branch;
  const ended: BranchDraft = {
    ...moved,
    ...(block === null ? {} : { block, width, moves, cursor, concurrency }),
    status: 'halted',
    node: landing.node,
    payload: JSON.stringify(landing.own),
    isWhole: isWhole || landing.isWhole,
    outcome,
    haltReason: landing.reason,
    haltMessage: landing.message,
  };
  endBranch(changes, loaded, ended);
}

function endBranch(
  changes: BranchChanges,
  { run, context }: LoadedBranch,
  ended: BranchDraft,
): void {
  const { parentId, status } = ended;
  // The output of the root is the output of the run, and is stored there.
  changes.addBranch(parentId === null ? { ...ended, output: null } : ended);
  if (parentId === null) changes.endRun({ run, root: ended, context });
  else changes.endChild(parentId, status === 'halted');
}

/** True if all branches of a block have ended, or the next ones can start. */
export function isParentReady(
  parent: Pick<BranchRow, 'status' | 'pending' | 'width' | 'cursor' | 'concurrency' | 'outcome'>,
): boolean {
  if (parent.pending === 0) return true;
  const hasMore = parent.cursor < parent.width || parent.outcome !== null;
  return parent.concurrency !== null && parent.status === 'waiting' && hasMore;
}

/**
 * Advances a parent after the end of some of its branches, if nothing else has to be read for it.
 * Otherwise returns what is needed: the outputs of the block, or the state of its delayed branches.
 */
export function applyEndedBranches(
  changes: BranchChanges,
  parent: LoadedBranch,
): 'join' | 'delay' | undefined {
  const { branch } = parent;
  const failing = parseFailing(branch.outcome);
  if (failing !== undefined) {
    const before = { ...parent, branch: { ...branch, outcome: failing.left } };
    if (branch.pending === 0) applyTransition(changes, before, { arrival: failing.arrival });
    return undefined;
  }
  if (branch.pending > 0) return 'delay';
  if (branch.width <= limits.inlineFanoutMax || branch.halted > 0) return 'join';
  changes.addBranch(leaveToAdvancer(draftBranch(branch, {}), { kind: 'join' }));
  return undefined;
}

/**
 * Starts the next branches of a block, or leaves them to an advancer if these are too many. Delayed
 * branches continue first; `outcome` is their new state.
 */
export function startNext(
  changes: BranchChanges,
  parent: LoadedBranch,
  outcome: string | null,
): void {
  const branch = draftBranch(parent.branch, { outcome });
  if (outcome !== parent.branch.outcome) {
    changes.addBranch(branch);
    changes.wakeAdvancer();
  }
  const end = findStartEnd(branch);
  if (outcome !== null || end <= branch.cursor) return;
  if (changes.startedCount + end - branch.cursor > STARTED_BRANCHES_MAX) {
    changes.addBranch(leaveToAdvancer(branch, { kind: 'open' }));
    return;
  }
  startChildren(changes, { ...parent, branch }, { events: undefined, end });
}
