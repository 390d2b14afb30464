import { fromTimestamp } from '../base/clock.ts';
import type { JobDraft } from '../job/job.ts';
import {
  breakerTable,
  permitStart,
  toBreakerFacts,
  type BreakerFacts,
  type BreakerRow,
} from './breaker.ts';
import { decideOverlap, type SkipReason } from './schedule.ts';
import { defineRows, type Row, type Transaction } from '../ledger/dialect.ts';
import { defineInsert, defineRowsOf } from '../ledger/insert.ts';
import type { RowOf } from '../ledger/table.ts';
import {
  scheduleTable,
  type FireRequest,
  type FireResult,
  type Firing,
  type NextDue,
  type ScheduleKey,
} from './types.ts';
import { draftTransition, insertTransition, lockBreaker, toBreakerKey } from './breaker.sql.ts';
import { enqueueJobs } from '../job/enqueue.sql.ts';
import { cancelJob } from '../job/bulk.sql.ts';
import { int, text } from '../ledger/row.ts';
import { sortByKey } from './schedule.sql.ts';

/**
 * Handles due times. It locks the row of each schedule and checks that it hasn't changed since it was
 * read. So only one of many hosts handles a time. The jobs commit in the same transaction. Lock order,
 * as in all writers: schedules, jobs by `seq`, breakers.
 */
export async function fireSchedules(tx: Transaction, request: FireRequest): Promise<FireResult[]> {
  const { now } = request;
  const firings = sortByKey(request.firings.map((one) => ({ ...one, ...one.due })));
  const rows = await lockSchedules(tx, firings);
  const results = new Map<string, FireResult>();
  const current = firings.filter((firing) => {
    const changed = findChangedRow(firing, rows.get(keyOf(firing)));
    if (changed !== undefined) results.set(keyOf(firing), changed);
    return changed === undefined;
  });
  const outstanding = await readOutstanding(tx, current.filter(wantsJobs));
  const breakers = await lockBreakers(tx, current.flatMap(toBreakerSettings));
  const decisions = current.map((firing) =>
    decide(firing, outstanding.get(keyOf(firing)) ?? [], breakers, fromTimestamp(now)),
  );
  for (const decision of decisions) {
    results.set(keyOf(decision.firing), await cancelOutstanding(tx, decision));
  }
  await writeProbes(tx, breakers);
  await enqueueJobs(tx, { jobs: decisions.flatMap(({ jobs }) => jobs) });
  tx.send(
    updateSchedules,
    decisions.map((decision) => toScheduleUpdate(decision, now)),
  );
  return request.firings.flatMap(({ due }) => results.get(keyOf(due)) ?? []);
}

const lockedSchedules = scheduleTable.pick(
  'plugin',
  'scheduleId',
  'generation',
  'seq',
  'status',
  'nextDueAt',
  'lastJobId',
);
type LockedSchedule = RowOf<typeof lockedSchedules>;

type KeyedFiring = Firing & ScheduleKey;

/** The decision about one due time. */
interface FiringDecision {
  readonly firing: KeyedFiring;
  readonly jobs: readonly JobDraft[];
  readonly reason: SkipReason | undefined;
  readonly cancels: readonly string[];
}

/**
 * Returns the result if the row has changed since it was read. If this request itself committed
 * before and its response was lost, it gets the same result again.
 */
function findChangedRow(
  firing: KeyedFiring,
  row: LockedSchedule | undefined,
): FireResult | undefined {
  const { due, act } = firing;
  if (row !== undefined && row.status === 'active' && row.generation === due.generation) {
    if (row.seq === due.seq && row.nextDueAt === due.dueAt) return undefined;
  }
  const jobs = act.kind === 'fire' ? act.jobs.map(({ id }) => id) : [];
  // A probe fires only the first job.
  const last = jobs.indexOf(row?.lastJobId ?? '');
  if (last === -1) return toResult(firing, 'lost', {});
  return toResult(firing, 'fired', { jobIds: jobs.slice(0, last + 1) });
}

function decide(
  firing: KeyedFiring,
  outstanding: readonly string[],
  breakers: Breakers,
  nowMs: number,
): FiringDecision {
  const { act, due } = firing;
  const skip = (reason: SkipReason): FiringDecision => ({ firing, jobs: [], reason, cancels: [] });
  if (act.kind === 'skip') return skip(act.reason);
  if (act.kind === 'wait') return { firing, jobs: [], reason: undefined, cancels: [] };
  const changed =
    act.needsLastUnchanged && due.isLastOpen && !outstanding.includes(due.lastJobId ?? '');
  // The last job was completed meanwhile, and the interval counts from its end. The next tick
  // computes that.
  if (changed) return wait(firing, { slotAt: due.slotAt, dueAt: due.dueAt });
  const overlap = decideOverlap(act.guard, outstanding.length);
  if (overlap !== 'fire' && overlap !== 'cancel') {
    return act.ifBusy === undefined ? skip(overlap) : wait(firing, act.ifBusy, overlap);
  }
  const breaker = breakers.get(firing.plugin, firing.command);
  const permission = breaker === undefined ? 'free' : permitStart(breaker.facts, nowMs);
  if (permission === 'refused') return skip('circuit_open');
  const jobs = permission === 'probe' ? act.jobs.slice(0, 1) : act.jobs;
  const [probe] = jobs;
  if (permission === 'probe' && probe !== undefined) {
    breakers.probe(firing.plugin, firing.command, probe.id);
  }
  return { firing, jobs, reason: undefined, cancels: overlap === 'cancel' ? outstanding : [] };
}

function wait(firing: KeyedFiring, next: NextDue, reason?: SkipReason): FiringDecision {
  const act = { kind: 'wait', ...(reason && { reason }) } as const;
  return { firing: { ...firing, act, next }, jobs: [], reason: undefined, cancels: [] };
}

/** Cancels the open jobs that the decision replaces, and returns the result. */
async function cancelOutstanding(
  tx: Transaction,
  { firing, jobs, reason, cancels }: FiringDecision,
): Promise<FireResult> {
  const cancelled: FireResult['cancelled'][number][] = [];
  for (const jobId of cancels) cancelled.push({ jobId, answer: await cancelJob(tx, jobId) });
  if (jobs.length > 0) {
    return toResult(firing, 'fired', { jobIds: jobs.map(({ id }) => id), cancelled });
  }
  return toResult(firing, reason === undefined ? 'moved' : 'skipped', { reason });
}

function toResult(
  { plugin, scheduleId }: ScheduleKey,
  verdict: FireResult['verdict'],
  parts: Partial<FireResult>,
): FireResult {
  return { reason: undefined, jobIds: [], cancelled: [], ...parts, plugin, scheduleId, verdict };
}

function wantsJobs({ act }: Firing): boolean {
  return act.kind === 'fire';
}

function mayCancel({ act }: Firing): boolean {
  return act.kind === 'fire' && act.guard.ifRunning === 'cancel';
}

function toBreakerSettings({ plugin, command, act }: KeyedFiring) {
  return act.kind === 'fire' ? [{ plugin, command, ...act.breaker }] : [];
}

function keyOf({ plugin, scheduleId }: ScheduleKey): string {
  return `${plugin}/${scheduleId}`;
}

async function lockSchedules(
  tx: Transaction,
  keys: readonly ScheduleKey[],
): Promise<Map<string, LockedSchedule>> {
  const rows = (await tx.each(lockSchedule, keys)).map(lockedSchedules.decode);
  return new Map(rows.map((row) => [keyOf(row), row]));
}

/**
 * Reads the open jobs of schedules. Only jobs that may be cancelled are locked. For the others it is
 * enough to count a job as open that is being settled at this moment.
 */
async function readOutstanding(
  tx: Transaction,
  firings: readonly KeyedFiring[],
): Promise<Map<string, string[]>> {
  const open = await tx.each(selectOutstanding, firings);
  const cancelling = new Set(firings.filter(mayCancel).map(keyOf));
  const isCancelled = (row: Row): boolean => cancelling.has(keyOfRow(row));
  const seqs = open.filter(isCancelled).map((row) => int(row, 'seq'));
  const locked = await tx.each(
    lockJobs,
    seqs.sort((a, b) => a - b).map((seq) => ({ seq })),
  );
  const found = new Map<string, string[]>();
  for (const row of [...open.filter((one) => !isCancelled(one)), ...locked]) {
    const key = keyOfRow(row);
    found.set(key, [...(found.get(key) ?? []), text(row, 'id')]);
  }
  return found;
}

function keyOfRow(row: Row): string {
  return keyOf({ plugin: text(row, 'plugin'), scheduleId: text(row, 'schedule_id') });
}

const lockSchedule = defineRowsOf(scheduleTable, ['plugin', 'scheduleId'], {
  sql: (r, d) =>
    `select q.* from ${r.lateral(
      `select ${lockedSchedules.columns('s')} from ${d.table('schedules')} s where s.plugin = ${r('plugin')}
        and s.schedule_id = ${r('schedule_id')} ${d.forUpdate}`,
    )}`,
});

const selectOutstanding = defineRowsOf(scheduleTable, ['plugin', 'scheduleId'], {
  sql: (r, d) =>
    `select q.* from ${r.lateral(
      `select j.plugin, j.schedule_id, j.id, j.seq from ${d.table('job_queue')} j
      where j.plugin = ${r('plugin')} and j.schedule_id = ${r('schedule_id')}
        and j.completed_at is null order by j.seq`,
    )}`,
});

const lockJobs = defineRows({
  columns: { seq: 'int' },
  sql: (r, d) =>
    `select q.* from ${r.lateral(
      `select j.plugin, j.schedule_id, j.id from ${d.table('job_queue')} j
      where j.seq = ${r('seq')} and j.completed_at is null ${d.forUpdate}`,
    )}`,
});

const updateSchedules = defineRows({
  columns: {
    plugin: 'text',
    schedule_id: 'text',
    steps: 'int',
    next_slot_at: 'text',
    next_due_at: 'text',
    last_job_id: 'text',
    skip_reason: 'text',
    now: 'text',
  },
  sql: (r, d) => `update ${d.table('schedules')} set
      seq = schedules.seq + ${r('steps')},
      next_slot_at = ${r('next_slot_at')}, next_due_at = ${r('next_due_at')},
      status = case when ${r('next_due_at')} is null then 'exhausted' else 'active' end,
      reason = case when ${r('next_due_at')} is null then 'one_shot_exhausted' end,
      last_fired_at = case when ${r('last_job_id')} is null then schedules.last_fired_at
        else ${r('now')} end,
      last_job_id = coalesce(${r('last_job_id')}, schedules.last_job_id),
      last_skipped_at = case when ${r('skip_reason')} is null then schedules.last_skipped_at
        else ${r('now')} end,
      last_skip_reason = coalesce(${r('skip_reason')}, schedules.last_skip_reason),
      skipped_in_row = case when ${r('last_job_id')} is not null then 0
        when ${r('skip_reason')} is not null and ${r('steps')} > 0
          then schedules.skipped_in_row + 1
        else schedules.skipped_in_row end,
      updated_at = ${r('now')}
    ${r.from}
    where schedules.plugin = ${r('plugin')} and schedules.schedule_id = ${r('schedule_id')}`,
});

function toScheduleUpdate({ firing, jobs, reason }: FiringDecision, now: string): Row {
  const { act } = firing;
  const next = reason === undefined ? firing.next : firing.nextIfSkipped;
  return {
    plugin: firing.plugin,
    schedule_id: firing.scheduleId,
    steps: act.kind === 'wait' ? 0 : Math.max(1, jobs.length),
    next_slot_at: next?.slotAt ?? null,
    next_due_at: next?.dueAt ?? null,
    last_job_id: jobs.at(-1)?.id ?? null,
    skip_reason: (act.kind === 'wait' ? act.reason : reason) ?? null,
    now,
  };
}

type BreakerSettings = Pick<BreakerRow, 'plugin' | 'command' | 'threshold' | 'resetAfterMs'>;

interface LockedBreaker extends BreakerRow {
  readonly facts: BreakerFacts;
}

/** The breakers of one transaction, and the probes that it starts. */
interface Breakers {
  get(plugin: string, command: string): LockedBreaker | undefined;
  /** Notes that this job is the probe of a breaker. */
  probe(plugin: string, command: string, jobId: string): void;
  readonly probes: ReadonlyMap<LockedBreaker, string>;
}

/** Locks breakers in a fixed order, inserts missing ones, and updates their settings. */
async function lockBreakers(
  tx: Transaction,
  wanted: readonly BreakerSettings[],
): Promise<Breakers> {
  const settings = new Map(wanted.map((one) => [toBreakerKey(one), one]));
  const sorted = [...settings].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, one]) => one);
  const known = (await tx.each(lockBreaker, sorted)).map(breakerTable.decode);
  const byKey = new Map(known.map((row) => [toBreakerKey(row), row]));
  const changed = sorted.filter((one) => !hasSettings(byKey.get(toBreakerKey(one)), one));
  const updated = await tx.each(upsertSettings, changed);
  for (const row of updated.map(breakerTable.decode)) {
    byKey.set(toBreakerKey(row), row);
  }
  const rows = [...byKey.values()];
  const openProbes = await findOpenJobs(
    tx,
    rows.flatMap(({ state, probeJobId }) => (state === 'half_open' ? (probeJobId ?? []) : [])),
  );
  const locked = new Map<string, LockedBreaker>(
    rows.map((row) => [toBreakerKey(row), { ...row, facts: toBreakerFacts(row, openProbes) }]),
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
async function writeProbes(tx: Transaction, { probes }: Breakers): Promise<void> {
  if (probes.size === 0) return;
  await tx.each(
    writeProbe,
    [...probes].map(([breaker, probeJobId]) => ({ ...breaker, probeJobId })),
  );
  const opened = [...probes].filter(([breaker]) => breaker.state === 'open');
  tx.send(
    insertTransition,
    opened.map(([breaker, jobId]) =>
      draftTransition(breaker, { toState: 'half_open', reason: 'cooldown_elapsed', jobId }),
    ),
  );
}

async function findOpenJobs(tx: Transaction, ids: readonly string[]): Promise<Set<string>> {
  const rows = await tx.each(
    selectOpen,
    ids.map((id) => ({ id })),
  );
  return new Set(rows.map((row) => text(row, 'id')));
}

/** Most breakers have their settings already, and a read is cheaper than a write. */
function hasSettings(row: BreakerRow | undefined, settings: BreakerSettings): boolean {
  return row?.threshold === settings.threshold && row.resetAfterMs === settings.resetAfterMs;
}

const upsertSettings = defineInsert(breakerTable, {
  properties: ['plugin', 'command', 'threshold', 'resetAfterMs'],
  sql: (_, d) => ({ state: `'closed'`, updatedAt: d.now }),
  rest: `on conflict (plugin, command) do update set threshold = excluded.threshold,
    reset_after_ms = excluded.reset_after_ms returning *`,
});

const writeProbe = defineRowsOf(breakerTable, ['plugin', 'command', 'probeJobId'], {
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
