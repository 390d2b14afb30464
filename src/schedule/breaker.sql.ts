import { fromTimestamp, type Timestamp } from '../base/clock.ts';
import { makeId } from '../base/ids.ts';
import { isTerminal } from '../job/job.ts';
import { applyEnd, type BreakerFacts, type BreakerState } from './breaker.ts';
import { breakerSignals, RUNTIME_SOURCE, type SignalDraft } from '../signal/signal.ts';
import { defineRows, type Row, type Transaction } from '../ledger/dialect.ts';
import type { Closing } from '../ledger/commit.ts';
import type { EnqueueResult } from '../job/types.ts';
import type { Followers, RunDraft } from '../pipeline/run/types.ts';
import type { BreakerFilter, BreakerRow } from './types.ts';
import {
  insertTransition,
  breakerKeyColumns,
  toBreakerKey,
  toBreaker,
  toBreakerKeyRow,
  toTransitionRow,
  writeBreakerEnd,
  type BreakerKey,
} from './breaker-row.sql.ts';
import { enqueueJobs } from '../job/enqueue.sql.ts';
import { text } from '../ledger/row.ts';
import { insertSignals } from '../signal/signal.sql.ts';
import { WhereClause } from '../ledger/where.ts';

export interface BreakerSettings extends BreakerKey {
  readonly threshold: number;
  readonly resetAfterMs: number;
}

interface LockedBreaker extends BreakerRow {
  readonly facts: BreakerFacts;
}

/** The breakers of one transaction, and the probes that it starts. */
export interface Breakers {
  get(plugin: string, command: string): LockedBreaker | undefined;
  probe(plugin: string, command: string, jobId: string): void;
  readonly probes: ReadonlyMap<LockedBreaker, string>;
}

/** Locks breakers in a fixed order, inserts missing ones, and updates their settings. */
export async function lockBreakers(
  tx: Transaction,
  wanted: readonly BreakerSettings[],
): Promise<Breakers> {
  const settings = new Map(wanted.map((one) => [toBreakerKey(one), one]));
  const sorted = [...settings].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, one]) => one);
  const known = (await tx.each(lockBreaker, sorted.map(toBreakerKeyRow))).map(toBreaker);
  const byKey = new Map(known.map((row) => [toBreakerKey(row), row]));
  const changed = sorted.filter((one) => !hasSettings(byKey.get(toBreakerKey(one)), one));
  for (const row of (await tx.each(upsertSettings, changed.map(toSettingsRow))).map(toBreaker)) {
    byKey.set(toBreakerKey(row), row);
  }
  const rows = [...byKey.values()];
  const probing = await findOpenJobs(
    tx,
    rows.flatMap(({ state, probeJobId }) => (state === 'half_open' ? (probeJobId ?? []) : [])),
  );
  const locked = new Map<string, LockedBreaker>(
    rows.map((row) => [toBreakerKey(row), { ...row, facts: toFacts(row, probing) }]),
  );
  const probes = new Map<LockedBreaker, string>();
  return {
    get: (plugin, command) => locked.get(toBreakerKey({ plugin, command })),
    probe(plugin, command, jobId) {
      const breaker = locked.get(toBreakerKey({ plugin, command }));
      if (breaker === undefined) return;
      probes.set(breaker, jobId);
      const facts: BreakerFacts = { ...breaker.facts, state: 'half_open', isProbing: true };
      locked.set(toBreakerKey(breaker), { ...breaker, facts });
    },
    probes,
  };
}

/** Marks circuits as half open, each with its probe. */
export async function writeProbes(tx: Transaction, { probes }: Breakers): Promise<void> {
  if (probes.size === 0) return;
  const changes = [...probes].map(([breaker, jobId]) => ({ breaker, jobId }));
  await tx.each(
    writeProbe,
    changes.map(({ breaker, jobId }) => ({ ...toBreakerKeyRow(breaker), probe_job_id: jobId })),
  );
  const opened = changes.filter(({ breaker }) => breaker.state === 'open');
  tx.send(
    insertTransition,
    opened.map(({ breaker, jobId }) =>
      toTransitionRow(breaker, { to: 'half_open', reason: 'cooldown_elapsed', jobId }),
    ),
  );
}

/** The effects of ended jobs on breakers. */
export interface BreakerEffects {
  readonly signals: readonly SignalDraft[];
  readonly enqueued: readonly EnqueueResult[];
  /** The runs that the breakers' signals start. */
  readonly runs: readonly RunDraft[];
}

const noEffects: BreakerEffects = { signals: [], enqueued: [], runs: [] };

/** Applies the ends of scheduled jobs to their breakers, in order. */
export async function recordBreakerEnds(
  tx: Transaction,
  closed: readonly Closing[],
): Promise<BreakerEffects> {
  const ends = closed.flatMap((closing) => {
    const end = endOf(closing);
    return end === undefined ? [] : [{ closing, job: closing.job, end }];
  });
  if (ends.length === 0) return noEffects;
  const keys = new Map(ends.map(({ job }) => [toBreakerKey(job), toBreakerKeyRow(job)]));
  const sorted = [...keys].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, row]) => row);
  const rows = (await tx.each(lockBreaker, sorted)).map(toBreaker);
  const [clock] = await tx.run(`select ${tx.dialect.now} as now`);
  const now = text(clock ?? {}, 'now');
  const updates = rows.map((row) => applyEnds(row, ends, now));
  await tx.each(
    writeBreakerEnd,
    updates.map(({ row }) => row),
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

/** The row of a breaker after all ends of a transaction, and what follows from its changes of state. */
interface BreakerUpdate {
  readonly row: Row;
  readonly transitions: readonly Row[];
  readonly signals: readonly SignalDraft[];
  readonly followers: readonly Followers[];
}

function applyEnds(
  before: BreakerRow,
  all: readonly ScheduledEnd[],
  now: Timestamp,
): BreakerUpdate {
  const ends = all.filter(({ job }) => toBreakerKey(job) === toBreakerKey(before));
  const transitions: Row[] = [];
  const signals: SignalDraft[] = [];
  const followers: Followers[] = [];
  let breaker = before;
  for (const { closing, job, end } of ends) {
    const { state, failureCount, reason } = applyEnd(breaker, end);
    if (reason !== undefined) {
      const counted = { ...breaker, failureCount };
      transitions.push(toTransitionRow(counted, { to: state, reason, jobId: job.id }));
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
  return {
    row: {
      ...toBreakerKeyRow(breaker),
      state: breaker.state,
      failure_count: breaker.failureCount,
      opened_at: breaker.openedAt,
      last_failure_at: breaker.lastFailureAt,
      last_job_id: breaker.lastJobId,
    },
    transitions,
    signals,
    followers,
  };
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

/** Closes breakers and sets their failure count to 0. Returns those that were changed, as they were. */
export async function resetBreakers(tx: Transaction, filter: BreakerFilter): Promise<BreakerRow[]> {
  const { dialect } = tx;
  const where = new WhereClause().equals({ plugin: filter.plugin, command: filter.command });
  const table = dialect.table('circuit_breakers');
  const rows = await tx.run(
    `select * from ${table} where ${where.text} and (state <> 'closed' or failure_count > 0)
      order by plugin, command ${dialect.forUpdate}`,
    where.values,
  );
  const reset = rows.map(toBreaker);
  await tx.each(
    writeBreakerEnd,
    reset.map((breaker) => ({
      ...toBreakerKeyRow(breaker),
      state: 'closed',
      failure_count: 0,
      opened_at: null,
      last_failure_at: breaker.lastFailureAt,
      last_job_id: breaker.lastJobId,
    })),
  );
  tx.send(
    insertTransition,
    reset.map((breaker) =>
      toTransitionRow(
        { ...breaker, failureCount: 0 },
        { to: 'closed', reason: 'manual_reset', jobId: null },
      ),
    ),
  );
  insertSignals(
    tx,
    reset.filter(({ state }) => state !== 'closed').map((row) => toSignal(row, 'closed')),
  );
  return reset;
}

async function findOpenJobs(tx: Transaction, ids: readonly string[]): Promise<Set<string>> {
  const rows = await tx.each(
    selectOpen,
    ids.map((id) => ({ id })),
  );
  return new Set(rows.map((row) => text(row, 'id')));
}

function toSettingsRow({ plugin, command, threshold, resetAfterMs }: BreakerSettings): Row {
  return { plugin, command, threshold, reset_after_ms: resetAfterMs };
}

function toFacts(row: BreakerRow, probing: ReadonlySet<string>): BreakerFacts {
  return {
    state: row.state,
    failureCount: row.failureCount,
    openedMs: row.openedAt === null ? undefined : fromTimestamp(row.openedAt),
    threshold: row.threshold,
    resetAfterMs: row.resetAfterMs,
    isProbing: row.probeJobId !== null && probing.has(row.probeJobId),
  };
}

/** Most breakers have their settings already, and a read is cheaper than a write. */
function hasSettings(row: BreakerRow | undefined, settings: BreakerSettings): boolean {
  return row?.threshold === settings.threshold && row.resetAfterMs === settings.resetAfterMs;
}

const upsertSettings = defineRows({
  columns: { ...breakerKeyColumns, threshold: 'int', reset_after_ms: 'int' },
  sql: (r, d) => `insert into ${d.table('circuit_breakers')} as b
    (plugin, command, state, threshold, reset_after_ms, updated_at)
    select ${r('plugin')}, ${r('command')}, 'closed', ${r('threshold')}, ${r('reset_after_ms')},
      ${d.now} ${r.from}
    where true on conflict (plugin, command) do update
      set threshold = excluded.threshold, reset_after_ms = excluded.reset_after_ms
    returning *`,
});

const lockBreaker = defineRows({
  columns: breakerKeyColumns,
  sql: (r, d) =>
    `select q.* from ${r.lateral(
      `select b.* from ${d.table('circuit_breakers')} b where b.plugin = ${r('plugin')}
        and b.command = ${r('command')} ${d.forUpdate}`,
    )}`,
});

const writeProbe = defineRows({
  columns: { ...breakerKeyColumns, probe_job_id: 'text' },
  sql: (r, d) => `update ${d.table('circuit_breakers')} set state = 'half_open',
      probe_job_id = ${r('probe_job_id')}, updated_at = ${d.now} ${r.from}
    where circuit_breakers.plugin = ${r('plugin')} and circuit_breakers.command = ${r('command')}`,
});

const selectOpen = defineRows({
  columns: { id: 'text' },
  sql: (r, d) =>
    `select q.id from ${r.lateral(
      `select j.id from ${d.table('job_queue')} j
      where j.id = ${r('id')} and j.completed_at is null`,
    )}`,
});
