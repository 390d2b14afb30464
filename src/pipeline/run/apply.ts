import { createHash } from 'node:crypto';
import { makeId } from '../../base/ids.ts';
import type { Json, JsonObject } from '../../base/json.ts';
import { limits } from '../../base/limits.ts';
import type { Job, JobDraft, SubmittedBy } from '../../job/job.ts';
import { advance } from './advance.ts';
import { createBranchStarter } from './walk.ts';
import type { Arrival, Transition, StepRecord, Landing } from './transition.ts';
import type { Effects, MovedBranch, StepDraft } from './changes.ts';
import { baseKeyOf, type Stand } from './load-branch.sql.ts';
import { FROM_THE_START } from './run.ts';

/** Branches that one transaction begins at most, blocks within blocks included. */
export const BEGUN_MAX = 2 * limits.advanceBatchMax;

/** What brought a branch to where it moves on from. */
export interface Cause {
  readonly arrival: Arrival;
  /** The job that ended. */
  readonly job?: Job;
  /** It is being begun. */
  readonly isNew?: boolean;
}

type LandingOf<K extends Landing['kind']> = Extract<Landing, { readonly kind: K }>;

/** Moves one branch on, in memory: what is to be written is collected. */
export function moveOn(effects: Effects, stand: Stand, cause: Cause): void {
  const { graph, branch, own, base, context } = stand;
  const state = { node: branch.node, stop: branch.stop, own, base, context };
  const move = advance(graph, state, cause.arrival);
  const lastStepId = recordSteps(effects, stand, move, cause) ?? branch.lastStepId;
  const { landing } = move;
  const isNew = cause.isNew === true;
  const moved = { ...settledDown(branch), moves: branch.moves + 1, lastStepId };
  if (landing.kind === 'end') endWell(effects, stand, moved, landing, isNew);
  else if (landing.kind === 'halt') haltBranch(effects, stand, moved, landing, isNew);
  else {
    const standsAt = {
      ...moved,
      node: landing.node,
      payload: JSON.stringify(landing.own),
      isWhole: branch.isWhole || landing.isWhole,
    };
    if (landing.kind === 'task') beginTask(effects, stand, standsAt, landing, isNew);
    else if (landing.kind === 'pause') pause(effects, stand, standsAt, landing, isNew);
    else openBlock(effects, stand, standsAt, landing, isNew);
  }
}

/** Without anything that was only of the place where it stood. */
function settledDown(branch: Stand['branch']): MovedBranch {
  return {
    ...branch,
    payloadRef: null,
    block: null,
    width: 0,
    cursor: 0,
    pending: 0,
    halted: 0,
    concurrency: null,
    outcome: null,
    waitsFor: null,
    wakeFrom: null,
    deadlineAt: null,
    claimToken: null,
    claimedBy: null,
    tries: 0,
    crashes: 0,
    due: undefined,
    lookInMs: undefined,
    wasPlain: branch.status === 'running',
  };
}

/** Gives the id of the last one. */
function recordSteps(
  effects: Effects,
  { run, graph, branch }: Stand,
  { steps, landing }: Transition,
  { arrival, job }: Cause,
): string | undefined {
  const kind = graph.nodes[branch.node]?.kind;
  const wasAwaited = (kind === 'approve' || kind === 'wait') && arrival.kind !== 'start';
  const landingNode = landing.kind === 'end' ? null : landing.node;
  let lastId: string | undefined;
  steps.forEach((step, index) => {
    const isFirst = index === 0;
    const awaitedId = isFirst && wasAwaited ? branch.lastStepId : null;
    const isJob = isFirst && arrival.kind !== 'start' && step.kind === 'task';
    const draft: StepDraft = {
      ...toDraft(step),
      id: awaitedId ?? makeId(),
      runId: run.id,
      branchId: branch.id,
      jobId: isJob ? branch.jobId : null,
      nextNode: steps[index + 1]?.node ?? (landingNode === step.node ? null : landingNode),
      startedAt: isJob ? (job?.startedAt ?? undefined) : undefined,
      due: step.status === 'waiting' && landing.kind === 'pause' ? landing.due : undefined,
    };
    (awaitedId === null ? effects.steps : effects.closedSteps).push(draft);
    lastId = draft.id;
  });
  return lastId;
}

function toDraft({ node, kind, status, output, error, note }: StepRecord): StepRecord {
  return { node, kind, status, output, error, note };
}

function beginTask(
  effects: Effects,
  { run, graph, branch }: Stand,
  standsAt: MovedBranch,
  landing: LandingOf<'task'>,
  isNew: boolean,
): void {
  const node = graph.nodes[landing.node];
  if (node?.kind !== 'task') throw new Error(`step ${landing.node} is not a task`);
  const eventContextId =
    landing.context === undefined
      ? branch.eventContextId
      : addContext(effects, run.pipeline, branch.eventContextId, landing.node, landing.context);
  const isFirst = branch.id === run.id && branch.jobId === null;
  const baseKey = baseKeyOf(standsAt);
  const job: JobDraft = {
    id: isFirst ? run.firstJobId : makeId(),
    plugin: node.plugin,
    command: node.command,
    payload: JSON.stringify(landing.input),
    submittedBy: run.submittedBy as SubmittedBy,
    actor: run.actor,
    maxAttempts: node.maxAttempts ?? limits.attemptsMax,
    ...orNothing('parentJobId', branch.jobId ?? run.parentJobId),
    ...orNothing('sourceEventId', isFirst ? run.sourceEventId : null),
    rootJobId: run.rootJobId,
    idempotencyKey: keyOfStep(run.lineage, branch.path, landing.node),
    hops: run.hops,
    runtimeCaused: run.runtimeCaused,
    ...orNothing('eventContextId', eventContextId),
    run: { id: run.id, branchId: branch.id, stepId: landing.node },
    ...orNothing('baseKey', baseKey),
    ...orNothing('dependencyKey', landing.dependency),
    ...orNothing('timeoutMs', node.timeoutMs),
    ...orNothing('backoffMs', node.backoffBaseMs),
  };
  effects.putJob(job);
  effects.put({ ...standsAt, status: 'running', jobId: job.id, eventContextId }, isNew);
}

/** The same for every attempt at the same step of the same element, also in a run that was revived. */
export function keyOfStep(lineage: string, path: string, node: string): string {
  return createHash('sha256')
    .update(JSON.stringify([lineage, path, node]))
    .digest('hex')
    .slice(0, 32);
}

function addContext(
  effects: Effects,
  pipeline: string,
  parentId: string | null,
  stepId: string,
  context: JsonObject,
): string {
  const id = makeId();
  const accumulated = JSON.stringify(context);
  effects.contexts.push({ id, ...orNothing('parentId', parentId), pipeline, stepId, accumulated });
  return id;
}

function orNothing<K extends string, V>(
  key: K,
  value: V | null | undefined,
): { readonly [key in K]?: V } {
  return (value === null || value === undefined ? {} : { [key]: value }) as { [key in K]?: V };
}

function pause(
  effects: Effects,
  { run, graph, context }: Stand,
  standsAt: MovedBranch,
  { node: id, due, signal, message }: LandingOf<'pause'>,
  isNew: boolean,
): void {
  const node = graph.nodes[id];
  // What it waits for may have come while the steps before it were under way.
  const looksBack = node?.kind === 'wait' && signal !== undefined && node.signal?.since !== 'now';
  const look = looksBack ? { wakeFrom: FROM_THE_START, lookInMs: 0 } : {};
  if (node?.kind === 'approve') {
    const { id: branchId, lastStepId: stepId, jobId } = standsAt;
    effects.questions.push({ run, branchId, stepId, node: id, jobId, message, due, context });
  }
  effects.put({ ...standsAt, status: 'waiting', due, waitsFor: signal ?? null, ...look }, isNew);
}

function openBlock(
  effects: Effects,
  stand: Stand,
  standsAt: MovedBranch,
  landing: LandingOf<'open'>,
  isNew: boolean,
): void {
  const { block, width, events } = landing;
  const opened: MovedBranch = {
    ...standsAt,
    status: 'waiting',
    block,
    width,
    pending: width,
    concurrency: landing.concurrency ?? null,
  };
  const atOnce = roomOf(opened);
  const hasRoom = effects.begunCount + atOnce <= BEGUN_MAX;
  if (atOnce <= limits.inlineFanoutMax && hasRoom) {
    const base = opened.isWhole ? {} : stand.base;
    const parent = { ...stand, branch: opened, own: landing.own, base, isNew };
    beginChildren(effects, keepApart(effects, parent), { events, to: atOnce });
    return;
  }
  const left = leftToAdvancer(opened, {
    kind: 'open',
    ...(events === undefined ? {} : { events }),
  });
  effects.put(keepApart(effects, { branch: left }).branch, isNew);
}

export function leftToAdvancer(
  branch: Omit<MovedBranch, 'due' | 'wasPlain'>,
  outcome: Opening | { readonly kind: 'join' },
): MovedBranch {
  return {
    ...branch,
    status: 'advancing',
    outcome: JSON.stringify(outcome),
    due: { inMs: 0 },
    wasPlain: false,
  };
}

/** Up to where branches of a block may be begun now, beside those that are under way. */
export function roomOf({ width, cursor, pending, concurrency }: MovedBranch): number {
  const underWay = pending - (width - cursor);
  return Math.min(width, cursor + (concurrency ?? width) - underWay);
}

/** What is left to be done with a block whose branches are not all begun. */
export interface Opening {
  readonly kind: 'open';
  readonly events?: readonly Json[];
}

/** A parent whose branches are being begun. */
export interface Opened extends Omit<Stand, 'branch'> {
  readonly branch: MovedBranch;
  readonly isNew: boolean;
}

/** Of a wide block a large payload is put where counting its branches does not touch it. */
function keepApart<T extends { readonly branch: MovedBranch }>(effects: Effects, parent: T): T {
  const { branch } = parent;
  const isWide = branch.width > limits.inlineFanoutMax;
  if (!isWide || branch.payload.length <= limits.branchPayloadBytesMax) return parent;
  const id = `${branch.id}:${branch.moves}`;
  effects.payloads.push({ id, runId: branch.runId, payload: branch.payload });
  return { ...parent, branch: { ...branch, payloadRef: id } };
}

export interface Batch {
  readonly events: readonly Json[] | undefined;
  /** The first that is left for later. */
  readonly to: number;
  /** How many branches may be begun until then, blocks within blocks included. */
  readonly begunMax?: number;
}

/** Begins branches of a block from its cursor on; gives the parent as it is then. */
export function beginChildren(effects: Effects, parent: Opened, batch: Batch): MovedBranch {
  const { branch, graph, own, base, context } = parent;
  const { block, moves } = branch;
  if (block === null) throw new Error(`branch ${branch.id} has no open block`);
  const state = { node: branch.node, own, base, context };
  const beginningOf = createBranchStarter(graph, state, block, batch.events);
  const beneath = { ...base, ...own };
  let { cursor } = branch;
  for (; cursor < batch.to && effects.begunCount < (batch.begunMax ?? Infinity); cursor += 1) {
    const beginning = beginningOf(cursor);
    const child = {
      ...settledDown({ ...newBranch, ...branch, dueAt: null }),
      ...newBranch,
      id: `${branch.id}.${moves}.${String(cursor).padStart(INDEX_DIGITS, '0')}`,
      parentId: branch.id,
      parentMoves: moves,
      index: cursor,
      path: `${branch.path}.${cursor}`,
      label: beginning.label,
      node: beginning.node,
      stop: beginning.stop,
      isWhole: beginning.isWhole,
      payload: JSON.stringify(beginning.own),
    };
    const stand: Stand = {
      ...parent,
      branch: child,
      own: beginning.own,
      base: beginning.isWhole ? {} : beneath,
    };
    moveOn(effects, stand, { arrival: { kind: 'start' }, isNew: true });
  }
  const begun = { ...branch, cursor };
  effects.put(begun, parent.isNew);
  return begun;
}

/** Enough for `limits.fanoutMax`, so that ids sort as indexes do. */
const INDEX_DIGITS = 7;

const newBranch = {
  moves: 0,
  status: 'running',
  output: null,
  haltReason: null,
  haltMessage: null,
  lastStepId: null,
  dueAt: null,
  createdAt: '',
  completedAt: null,
} as const;

function endWell(
  effects: Effects,
  { run, branch, context }: Stand,
  moved: MovedBranch,
  { output }: LandingOf<'end'>,
  isNew: boolean,
): void {
  const ended: MovedBranch = { ...moved, status: 'succeeded', output };
  if (branch.parentId === null) {
    // What the root gives is what its run gives, and is kept there.
    effects.put({ ...ended, output: null }, isNew);
    effects.endRun({ run, root: ended, context });
    return;
  }
  effects.put(ended, isNew);
  effects.endChild(branch.parentId, false);
}

/** What it stood at is kept: a revived run begins there. */
function haltBranch(
  effects: Effects,
  { run, branch, context }: Stand,
  moved: MovedBranch,
  landing: LandingOf<'halt'>,
  isNew: boolean,
): void {
  const { block, width, moves, cursor, concurrency } = branch;
  const kept = block === null ? {} : { block, width, moves, cursor, concurrency };
  const ended: MovedBranch = {
    ...moved,
    ...kept,
    status: 'halted',
    node: landing.node,
    payload: JSON.stringify(landing.own),
    isWhole: branch.isWhole || landing.isWhole,
    outcome: branch.outcome,
    haltReason: landing.reason,
    haltMessage: landing.message,
  };
  effects.put(ended, isNew);
  if (branch.parentId === null) effects.endRun({ run, root: ended, context });
  else effects.endChild(branch.parentId, true);
}
