import { setTimeout as sleep } from 'node:timers/promises';
import { limits } from '../base/limits.ts';
import { closeDirective, releaseDirective, startDirective } from '../directive/lifecycle.sql.ts';
import { insertDirective } from '../directive/directive.sql.ts';
import { deleteProcess, isProcessAlive } from '../job/process.sql.ts';
import { releaseProcessBranches } from '../pipeline/run/claim-branch.sql.ts';
import { noRunEvents } from '../pipeline/run/changes.ts';
import type { DirectiveStart, DirectiveInsert } from './directive-work.ts';
import { listAttemptsOfJobs } from '../job/attempt.sql.ts';
import { settleClosingsAndClaim, settleClosings } from '../job/settle.sql.ts';
import { enqueueJobs } from '../job/enqueue.sql.ts';
import { requireQueueRoom } from '../job/queue.sql.ts';
import type { ClaimRequest, EnqueueResult } from '../job/types.ts';
import { createRuns } from '../pipeline/run/advance.sql.ts';
import { advanceBranch, prepareJoin } from '../pipeline/run/advancer.sql.ts';
import type { AdvanceRequest } from '../pipeline/run/types.ts';
import {
  readEventEnd,
  listEvents,
  type EventCursor,
  type EventLimit,
} from '../signal/event-feed.sql.ts';
import { makeHorizon, type HorizonState } from '../signal/event-horizon.sql.ts';
import { hasWaitingBranch } from '../signal/signal.sql.ts';
import { listOpenTenants } from '../tenant/tenant.sql.ts';
import { tenantSchema } from '../tenant/tenants.ts';
import type { Closing, EnqueueBatch, ReapRequest, Settlement, StartedBatch } from './commit.ts';
import type { CommitName, Session, Store, Transaction } from './dialect.ts';

/** Binds one verb to a store. */
export type Verb<Bound> = (store: Store) => Bound;

type SessionWork<Input extends readonly unknown[], Result> = (
  session: Session,
  ...input: Input
) => Promise<Result>;

type WriteWork<Input extends readonly unknown[], Result> = (
  tx: Transaction,
  ...input: Input
) => Promise<Result>;

/** A verb that reads rows by their key. See `Store.find`. */
export function finds<Input extends readonly unknown[], Result>(work: SessionWork<Input, Result>) {
  return ({ find }: Store) =>
    (...input: Input) =>
      find((session) => work(session, ...input));
}

/** A verb that reads anything else. See `Store.read`. */
export function reads<Input extends readonly unknown[], Result>(work: SessionWork<Input, Result>) {
  return ({ read }: Store) =>
    (...input: Input) =>
      read((session) => work(session, ...input));
}

/** A verb that is one whole transaction. The name selects the fault points around its commit. */
export function writes<Input extends readonly unknown[], Result>(
  work: WriteWork<Input, Result>,
  name: CommitName = 'other',
) {
  const names = [name];
  return ({ write }: Store) =>
    (...input: Input) =>
      write(names, (tx) => work(tx, ...input));
}

type Nouns = Readonly<Record<string, Readonly<Record<string, Verb<unknown>>>>>;

/** The verbs of all nouns, bound to a store. */
export type BoundNouns<Table extends Nouns> = {
  readonly [Noun in keyof Table]: {
    [Name in keyof Table[Noun]]: Table[Noun][Name] extends Verb<infer Bound> ? Bound : never;
  };
};

/** Binds each verb once, so that a call costs no lookup. */
export function bindNouns<Table extends Nouns>(table: Table, store: Store): BoundNouns<Table> {
  const bound = Object.entries(table).map(([noun, verbs]) => [
    noun,
    Object.fromEntries(Object.entries(verbs).map(([name, verb]) => [name, verb(store)])),
  ]);
  return Object.fromEntries(bound) as BoundNouns<Table>;
}

// The verbs below use the store in more than one way, name their commit by their input, or join slices.

/** Inserts jobs, and the runs and signals that belong to them. */
export async function enqueueBatch(tx: Transaction, batch: EnqueueBatch): Promise<EnqueueResult[]> {
  const { runs = [] } = batch;
  await checkQueueLimit(tx, batch);
  const enqueued = await enqueueJobs(tx, batch);
  if (runs.length > 0) await createRuns(tx, runs);
  return enqueued;
}

/** Inserts runs, and the jobs and signals that belong to them. */
export async function startRuns(tx: Transaction, batch: EnqueueBatch): Promise<StartedBatch> {
  const { runs: drafts = [], signals = [] } = batch;
  await checkQueueLimit(tx, batch);
  const jobs = await enqueueJobs(tx, batch);
  const { events, runs } =
    drafts.length === 0 ? { events: noRunEvents, runs: [] } : await createRuns(tx, drafts);
  const advancing =
    events.advancing || (signals.length > 0 && (await hasWaitingBranch(tx, signals)));
  return { ...events, advancing, jobs, runs };
}

async function checkQueueLimit(
  tx: Transaction,
  { queueLimit, jobs, runs = [] }: EnqueueBatch,
): Promise<void> {
  if (queueLimit !== undefined) await requireQueueRoom(tx, queueLimit, jobs.length + runs.length);
}

/** Closes attempts, each with all its consequences or none, and then claims in the same commit. */
export function settleAndClaim({ write }: Store) {
  return (closings: readonly Closing[], request?: ClaimRequest): Promise<Settlement> =>
    write(listSettleCommits(closings, request !== undefined), async (tx) => {
      if (request !== undefined) return await settleClosingsAndClaim(tx, closings, request);
      return { ...(await settleClosings(tx, closings)), claimed: [] };
    });
}

function listSettleCommits(closings: readonly Closing[], claims: boolean): CommitName[] {
  const released = closings.some(({ report }) => report.status === 'released');
  const settled = closings.some(({ report }) => report.status !== 'released');
  return [
    ...(settled ? (['settle'] as const) : []),
    ...(released ? (['release'] as const) : []),
    ...(claims ? (['claim'] as const) : []),
  ];
}

/**
 * Closes what a dead process left: jobs, directives and branches of runs. It confirms under a lock
 * that the heartbeat is stale. A concurrent heartbeat waits and then finds its row gone.
 */
export async function reapProcess(tx: Transaction, request: ReapRequest): Promise<Settlement> {
  const { processId, staleMs, closings, directives = [], released = [] } = request;
  if (await isProcessAlive(tx, processId, staleMs)) {
    const verdicts = new Map(closings.map(({ job }) => [job.id, 'fenced' as const]));
    return { verdicts, enqueued: [], runEvents: noRunEvents, claimed: [] };
  }
  const settled = await settleClosings(tx, closings);
  for (const closing of directives) await closeDirective(tx, closing);
  for (const directive of released) await releaseDirective(tx, directive);
  await releaseProcessBranches(tx, processId, true);
  await releaseProcess(tx, processId);
  return { ...settled, claimed: [] };
}

/** Releases the branches that a stopping process has claimed, and deletes its row. */
export async function releaseProcess(tx: Transaction, processId: string): Promise<void> {
  await releaseProcessBranches(tx, processId, false);
  await deleteProcess(tx, processId);
}

/** Lists the attempts of jobs. For few jobs it reads in the service's own thread. */
export function listAttemptsByJob({ find, read }: Store) {
  return (jobIds: readonly string[]) =>
    (jobIds.length > limits.inlineKeysMax ? read : find)((session) =>
      listAttemptsOfJobs(session, jobIds),
    );
}

/** Advances a claimed branch. A join reads many branches, so a reader prepares it before the transaction. */
export function advanceRun({ read, write }: Store) {
  return async (request: AdvanceRequest) => {
    const join = await read((session) => prepareJoin(session, request));
    return write(['advance'], (tx) => advanceBranch(tx, request, join));
  };
}

/** Records a directive. A directive that is pure SQL is executed and ended in the same transaction. */
export function createDirective({ write }: Store) {
  return (request: DirectiveInsert) =>
    write([request.commitName ?? 'other'], (tx) => insertDirective(tx, request));
}

/** Starts a deferred directive; undefined when it may not start yet, or another process was first. */
export function startDeferredDirective({ write }: Store) {
  return (start: DirectiveStart) =>
    write([start.commitName ?? 'other'], (tx) => startDirective(tx, start));
}

/** Waits until all claims that were in progress in ledgers of tenants are committed, on every host. */
export function awaitTenantClaims({ dialect, read, write }: Store) {
  return async (): Promise<void> => {
    const { awaitClaimsIn } = dialect;
    if (awaitClaimsIn === undefined) return;
    const schemas = (await read(listOpenTenants)).map(tenantSchema);
    for (let at = 0; at < schemas.length; at += limits.claimLocksMax) {
      const batch = schemas.slice(at, at + limits.claimLocksMax);
      await write(['other'], (tx) => tx.run(awaitClaimsIn(batch)));
    }
  };
}

/** Lists the events after a position, in an order that later commits only append to. */
export function listEventsAfter(store: Store) {
  const readHorizon = findHorizonReader(store);
  return async (after: EventCursor, limit: EventLimit) => {
    const horizonState = await readHorizon();
    return store.read((session) => listEvents(session, after, limit, horizonState));
  };
}

/** Finds the position behind all events. */
export function findEventEnd(store: Store) {
  const readHorizon = findHorizonReader(store);
  return async () => {
    const horizonState = await readHorizon();
    return store.read((session) => readEventEnd(session, horizonState));
  };
}

const FIRST_READS_MAX = 20;
const FIRST_READ_MS = 10;

const horizonReaders = new WeakMap<Store, () => Promise<HorizonState>>();

/** Both event verbs of a store share one horizon. */
function findHorizonReader(store: Store): () => Promise<HorizonState> {
  const known = horizonReaders.get(store);
  if (known !== undefined) return known;
  const horizon = makeHorizon();
  const readHorizon = async (): Promise<HorizonState> => {
    for (let round = 1; ; round += 1) {
      const horizonState = await store.read((session) => horizon.read(session));
      // The first read knows of no ended transaction, so it waits a moment for one to end.
      const isFirst = horizonState.reach === undefined && horizonState.isPending;
      if (!isFirst || round === FIRST_READS_MAX) return horizonState;
      await sleep(FIRST_READ_MS);
    }
  };
  horizonReaders.set(store, readHorizon);
  return readHorizon;
}
