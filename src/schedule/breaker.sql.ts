import type { Timestamp } from '../base/clock.ts';
import type { DirectiveEnd } from '../directive/types.ts';
import { limits } from '../base/limits.ts';
import { makeId } from '../base/ids.ts';
import { isTerminal } from '../job/job.ts';
import {
  applyEnd,
  breakerTable,
  transitionTable,
  type BreakerFilter,
  type BreakerRow,
  type BreakerState,
  type TransitionRow,
} from './breaker.ts';
import { breakerSignals, RUNTIME_SOURCE, type SignalDraft } from '../signal/signal.ts';
import type { Session, Transaction } from '../ledger/dialect.ts';
import { defineInsert, defineRowsOf } from '../ledger/insert.ts';
import type { Closing } from '../ledger/commit.ts';
import type { EnqueueResult } from '../job/types.ts';
import type { Followers, RunDraft } from '../pipeline/run/types.ts';
import { enqueueJobs } from '../job/enqueue.sql.ts';
import { int, readRows, text } from '../ledger/row.ts';
import { insertSignals } from '../signal/signal.sql.ts';
import { WhereClause } from '../ledger/where.ts';

/** The effects of ended jobs on breakers. */
interface BreakerEffects {
  readonly signals: readonly SignalDraft[];
  readonly enqueued: readonly EnqueueResult[];
  /** The runs that the breakers' signals start. */
  readonly runs: readonly RunDraft[];
}

export const noBreakerEffects: BreakerEffects = { signals: [], enqueued: [], runs: [] };

/** Applies the ends of scheduled jobs to their breakers, in order. */
export async function recordBreakerEnds(
  tx: Transaction,
  closed: readonly Closing[],
): Promise<BreakerEffects> {
  const ends = closed.flatMap((closing) => {
    const end = endOf(closing);
    return end === undefined ? [] : [{ closing, job: closing.job, end }];
  });
  if (ends.length === 0) return noBreakerEffects;
  const keys = new Map<string, BreakerKey>(ends.map(({ job }) => [toBreakerKey(job), job]));
  const sorted = [...keys].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, key]) => key);
  const rows = (await tx.each(lockBreaker, sorted)).map(breakerTable.decode);
  const [clock] = await tx.run(`select ${tx.dialect.now} as now`);
  const now = text(clock ?? {}, 'now');
  const updates = rows.map((row) => applyEnds(row, ends, now));
  await tx.each(
    writeBreakerEnd,
    updates.map(({ breaker }) => breaker),
  );
  tx.send(
    insertTransition,
    updates.flatMap(({ transitions }) => transitions),
  );
  const signals = updates.flatMap((one) => one.signals);
  const followers = updates.flatMap((one) => one.followers);
  const enqueued = await enqueueJobs(tx, { signals, jobs: followers.flatMap(({ jobs }) => jobs) });
  return { signals, enqueued, runs: followers.flatMap(({ runs }) => runs) };
}

/** Returns undefined for a cancelled or skipped job, which says nothing about the health of its plugin. */
function endOf({ job, ending }: Closing): 'success' | 'failure' | undefined {
  if (job.scheduleId === null || !isTerminal(ending.status)) return undefined;
  if (ending.status === 'succeeded') return 'success';
  return ending.status === 'cancelled' || ending.status === 'skipped' ? undefined : 'failure';
}

interface ScheduledEnd {
  readonly closing: Closing;
  readonly job: Closing['job'];
  readonly end: 'success' | 'failure';
}

/** A breaker after all ends of a transaction, and what follows from its changes of state. */
interface BreakerUpdate {
  readonly breaker: BreakerRow;
  readonly transitions: readonly TransitionDraft[];
  readonly signals: readonly SignalDraft[];
  readonly followers: readonly Followers[];
}

function applyEnds(
  before: BreakerRow,
  all: readonly ScheduledEnd[],
  now: Timestamp,
): BreakerUpdate {
  const ends = all.filter(({ job }) => toBreakerKey(job) === toBreakerKey(before));
  const transitions: TransitionDraft[] = [];
  const signals: SignalDraft[] = [];
  const followers: Followers[] = [];
  let breaker = before;
  for (const { closing, job, end } of ends) {
    const { state, failureCount, reason } = applyEnd(breaker, end);
    if (reason !== undefined) {
      const counted = { ...breaker, failureCount };
      transitions.push(draftTransition(counted, { toState: state, reason, jobId: job.id }));
      const signal = toSignal(counted, state, job);
      signals.push(signal);
      const followed = closing.followBreaker?.(signal);
      if (followed !== undefined) followers.push(followed);
    }
    breaker = {
      ...breaker,
      state,
      failureCount,
      lastJobId: job.id,
      lastFailureAt: end === 'failure' ? now : breaker.lastFailureAt,
      openedAt: findOpenedAt(breaker, state, reason !== undefined, now),
    };
  }
  return { breaker, transitions, signals, followers };
}

function findOpenedAt(
  breaker: BreakerRow,
  state: BreakerState,
  hasChanged: boolean,
  now: Timestamp,
): Timestamp | null {
  if (state === 'closed') return null;
  return hasChanged && state === 'open' ? now : breaker.openedAt;
}

function describeChange(
  { plugin, command, failureCount }: BreakerRow,
  state: BreakerState,
): string {
  if (state !== 'open') return `The breaker of ${plugin} ${command} closed.`;
  return `The breaker of ${plugin} ${command} opened after ${failureCount} failures in a row.`;
}

/** Drafts the signal of a change of state. Without a job, an operator reset the breaker. */
function toSignal(breaker: BreakerRow, state: BreakerState, job?: Closing['job']): SignalDraft {
  const { plugin, command, failureCount, state: from } = breaker;
  const id = makeId();
  const [opened, closed] = breakerSignals;
  return {
    id,
    type: state === 'open' ? opened : closed,
    source: RUNTIME_SOURCE,
    subjectType: 'breaker',
    subjectId: toBreakerKey(breaker),
    data: JSON.stringify({
      message: describeChange(breaker, state),
      plugin,
      command,
      from_state: from,
      failure_count: failureCount,
      job_id: job?.id ?? null,
    }),
    hops: (job?.hops ?? 0) + 1,
    correlationId: job?.rootJobId ?? id,
    ...(job && { causationId: job.id }),
  };
}

/** Closes breakers and sets their failure count to 0. The result names those that were changed. */
export async function resetBreakers(tx: Transaction, filter: BreakerFilter): Promise<DirectiveEnd> {
  const { dialect } = tx;
  const where = new WhereClause().equals({ plugin: filter.plugin, command: filter.command });
  const reset = await readRows(
    tx,
    breakerTable,
    `where ${where.text} and (state <> 'closed' or failure_count > 0)
      order by plugin, command ${dialect.forUpdate}`,
    where.values,
  );
  const closed = { state: 'closed', failureCount: 0, openedAt: null } as const;
  await tx.each(
    writeBreakerEnd,
    reset.map((breaker) => ({ ...breaker, ...closed })),
  );
  const change = { toState: 'closed', reason: 'manual_reset', jobId: null } as const;
  tx.send(
    insertTransition,
    reset.map((breaker) => draftTransition({ ...breaker, failureCount: 0 }, change)),
  );
  insertSignals(
    tx,
    reset.filter(({ state }) => state !== 'closed').map((row) => toSignal(row, 'closed')),
  );
  const names = reset.map(({ plugin, command }) => `${plugin}/${command}`);
  return { status: 'completed', result: { reset: names } };
}

export async function listBreakers(session: Session, filter: BreakerFilter): Promise<BreakerRow[]> {
  const where = new WhereClause().equals({ plugin: filter.plugin, command: filter.command });
  const rest = `where ${where.text} order by plugin, command`;
  return await readRows(session, breakerTable, rest, where.values);
}

/** Lists changes of state, newest first. */
export async function listTransitions(
  session: Session,
  filter: BreakerFilter & { readonly limit: number },
): Promise<TransitionRow[]> {
  const { plugin, command, limit } = filter;
  // No index starts with the command. Without a plugin, only the latest transitions are searched.
  const isCommandOnly = plugin === undefined && command !== undefined;
  const where = new WhereClause().equals(isCommandOnly ? {} : { plugin, command });
  const latest = `select * from ${session.dialect.table('circuit_breaker_transitions')}
    where ${where.text} order by created_at desc, id desc limit ?`;
  const rows = await (isCommandOnly
    ? session.run(`select * from (${latest}) t where command = ? limit ?`, [
        limits.listVisitMax,
        command,
        limit,
      ])
    : session.run(latest, [...where.values, limit]));
  return rows.map(transitionTable.decode);
}

/** Counts the plugins that have a breaker that isn't closed. */
export async function countOpenBreakers(session: Session): Promise<number> {
  const [row] = await session.run(
    `select count(distinct plugin) as plugins from ${session.dialect.table('circuit_breakers')}
      where state <> 'closed'`,
  );
  return int(row ?? {}, 'plugins');
}

export type BreakerKey = Pick<BreakerRow, 'plugin' | 'command'>;

export function toBreakerKey({ plugin, command }: BreakerKey): string {
  return `${plugin}/${command}`;
}

export const lockBreaker = defineRowsOf(breakerTable, ['plugin', 'command'], {
  sql: (r, d) =>
    `select q.* from ${r.lateral(
      `select b.* from ${d.table('circuit_breakers')} b where b.plugin = ${r('plugin')}
        and b.command = ${r('command')} ${d.forUpdate}`,
    )}`,
});

const ended = [
  'plugin',
  'command',
  'state',
  'failureCount',
  'openedAt',
  'lastFailureAt',
  'lastJobId',
] as const;

const writeBreakerEnd = defineRowsOf(breakerTable, ended, {
  sql: (r, d) => `update ${d.table('circuit_breakers')} set state = ${r('state')},
      failure_count = ${r('failure_count')}, opened_at = ${r('opened_at')},
      last_failure_at = ${r('last_failure_at')}, last_job_id = ${r('last_job_id')},
      updated_at = ${d.now} ${r.from}
    where circuit_breakers.plugin = ${r('plugin')} and circuit_breakers.command = ${r('command')}`,
});

export const insertTransition = defineInsert(transitionTable, {
  properties: transitionTable.except('createdAt'),
  sql: (_, d) => ({ createdAt: d.now }),
});

type TransitionDraft = Omit<TransitionRow, 'createdAt'>;

export function draftTransition(
  { plugin, command, state: fromState, failureCount }: BreakerRow,
  change: Pick<TransitionRow, 'toState' | 'reason' | 'jobId'>,
): TransitionDraft {
  return { id: makeId(), plugin, command, fromState, failureCount, ...change };
}
