import { fromTimestamp } from '../base/clock.ts';
import type { JobDraft } from '../job/job.ts';
import { permitStart } from './breaker.ts';
import { decideOverlap, type SkipReason } from './schedule.ts';
import { defineRows, type Row, type Transaction } from '../ledger/dialect.ts';
import type { FireResult, FireRequest, Firing, NextDue, ScheduleKey } from './types.ts';
import { lockBreakers, writeProbes, type Breakers } from './breaker.sql.ts';
import { enqueueJobs } from '../job/enqueue.sql.ts';
import { cancelJob } from '../job/bulk.sql.ts';
import { int, text, textOrNull } from '../ledger/row.ts';
import { sortByKey, scheduleKeyColumns, toScheduleKeyRow } from './schedule.sql.ts';

/**
 * Handles due times. The row of a schedule is locked and must be what was read: of many hosts one
 * handles a time, and its job commits with it. Locks are taken in the order of all writers:
 * schedules, jobs by their numbers, breakers.
 */
export async function fireSchedules(tx: Transaction, request: FireRequest): Promise<FireResult[]> {
  const { now } = request;
  const firings = sortByKey(request.firings.map((one) => ({ ...one, ...one.due })));
  const rows = await lockSchedules(tx, firings);
  const before = new Map<string, FireResult>();
  const held = firings.filter((firing) => {
    const row = rows.get(keyOf(firing));
    const told = judgeRow(firing, row);
    if (told !== undefined) before.set(keyOf(firing), told);
    return told === undefined;
  });
  const outstanding = await readOutstanding(tx, held.filter(wantsJobs));
  const breakers = await lockBreakers(tx, held.flatMap(toBreakerKey));
  const passes = held.map((firing) =>
    decide(firing, outstanding.get(keyOf(firing)) ?? [], breakers, fromTimestamp(now)),
  );
  const passed: FireResult[] = [];
  for (const pass of passes) passed.push(await carryOut(tx, pass));
  await writeProbes(tx, breakers);
  await enqueueJobs(tx, { jobs: passes.flatMap(({ jobs }) => jobs) });
  tx.send(
    writePasses,
    passes.map((pass) => toPassRow(pass, now)),
  );
  const told = new Map([...before, ...passed.map((one) => [keyOf(one), one] as const)]);
  return request.firings.flatMap(({ due }) => told.get(keyOf(due)) ?? []);
}

interface LockedRow {
  readonly generation: string;
  readonly seq: number;
  readonly status: string;
  readonly dueAt: string | null;
  readonly lastJobId: string | null;
}

type Keyed = Firing & ScheduleKey;

/** The decision about one due time. */
interface Pass {
  readonly firing: Keyed;
  readonly jobs: readonly JobDraft[];
  readonly reason: SkipReason | undefined;
  readonly cancels: readonly string[];
}

/**
 * Returns the result if the row isn't what was read any more. A try whose response was lost gets
 * its own result.
 */
function judgeRow(firing: Keyed, row: LockedRow | undefined): FireResult | undefined {
  const { due, act } = firing;
  if (row !== undefined && row.status === 'active' && row.generation === due.generation) {
    if (row.seq === due.seq && row.dueAt === due.dueAt) return undefined;
  }
  const jobs = act.kind === 'fire' ? act.jobs.map(({ id }) => id) : [];
  // A probe fires only the first job.
  const last = jobs.indexOf(row?.lastJobId ?? '');
  if (last === -1) return answer(firing, 'lost', {});
  return answer(firing, 'fired', { jobIds: jobs.slice(0, last + 1) });
}

function decide(
  firing: Keyed,
  outstanding: readonly string[],
  breakers: Breakers,
  nowMs: number,
): Pass {
  const { act, due } = firing;
  const skip = (reason: SkipReason): Pass => ({ firing, jobs: [], reason, cancels: [] });
  if (act.kind === 'skip') return skip(act.reason);
  if (act.kind === 'wait') return { firing, jobs: [], reason: undefined, cancels: [] };
  const changed =
    act.needsLastUnchanged && due.isLastOpen && !outstanding.includes(due.lastJobId ?? '');
  // The last job was completed meanwhile, and the interval counts from there: the next tick sees
  // it.
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

function wait(firing: Keyed, next: NextDue, reason?: SkipReason): Pass {
  const act = { kind: 'wait', ...(reason && { reason }) } as const;
  return { firing: { ...firing, act, next }, jobs: [], reason: undefined, cancels: [] };
}

async function carryOut(
  tx: Transaction,
  { firing, jobs, reason, cancels }: Pass,
): Promise<FireResult> {
  const cancelled: FireResult['cancelled'][number][] = [];
  for (const jobId of cancels) cancelled.push({ jobId, answer: await cancelJob(tx, jobId) });
  if (jobs.length > 0) {
    return answer(firing, 'fired', { jobIds: jobs.map(({ id }) => id), cancelled });
  }
  return answer(firing, reason === undefined ? 'moved' : 'skipped', { reason });
}

function answer(
  { plugin, scheduleId }: ScheduleKey,
  verdict: FireResult['verdict'],
  told: Partial<FireResult>,
): FireResult {
  return { reason: undefined, jobIds: [], cancelled: [], ...told, plugin, scheduleId, verdict };
}

function wantsJobs({ act }: Firing): boolean {
  return act.kind === 'fire';
}

function mayCancel({ act }: Firing): boolean {
  return act.kind === 'fire' && act.guard.ifRunning === 'cancel';
}

function toBreakerKey({ plugin, command, act }: Keyed) {
  return act.kind === 'fire' ? [{ plugin, command, ...act.breaker }] : [];
}

function keyOf({ plugin, scheduleId }: ScheduleKey): string {
  return `${plugin}/${scheduleId}`;
}

async function lockSchedules(
  tx: Transaction,
  keys: readonly ScheduleKey[],
): Promise<Map<string, LockedRow>> {
  const rows = await tx.each(lockSchedule, keys.map(toScheduleKeyRow));
  return new Map(
    rows.map((row) => [
      keyOfRow(row),
      {
        generation: text(row, 'generation'),
        seq: int(row, 'seq'),
        status: text(row, 'status'),
        dueAt: textOrNull(row, 'next_due_at'),
        lastJobId: textOrNull(row, 'last_job_id'),
      },
    ]),
  );
}

/**
 * Reads the open jobs of schedules. Only jobs that may be cancelled are locked. A job that is
 * completed at this moment may count as open, so there is no need to wait for its settlement.
 */
async function readOutstanding(
  tx: Transaction,
  firings: readonly Keyed[],
): Promise<Map<string, string[]>> {
  const open = await tx.each(selectOutstanding, firings.map(toScheduleKeyRow));
  const cancelling = new Set(firings.filter(mayCancel).map(keyOf));
  const isFree = (row: Row): boolean => !cancelling.has(keyOfRow(row));
  const bound = open.filter((row) => !isFree(row)).map((row) => int(row, 'seq'));
  const locked = await tx.each(
    lockJobs,
    bound.sort((a, b) => a - b).map((seq) => ({ seq })),
  );
  const found = new Map<string, string[]>();
  for (const row of [...open.filter(isFree), ...locked]) {
    const key = keyOfRow(row);
    found.set(key, [...(found.get(key) ?? []), text(row, 'id')]);
  }
  return found;
}

function keyOfRow(row: Row): string {
  return keyOf({ plugin: text(row, 'plugin'), scheduleId: text(row, 'schedule_id') });
}

const lockSchedule = defineRows({
  columns: scheduleKeyColumns,
  sql: (r, d) =>
    `select q.* from ${r.lateral(
      `select s.plugin, s.schedule_id, s.generation, s.seq, s.status, s.next_due_at, s.last_job_id
      from ${d.table('schedules')} s where s.plugin = ${r('plugin')}
        and s.schedule_id = ${r('schedule_id')} ${d.forUpdate}`,
    )}`,
});

const selectOutstanding = defineRows({
  columns: scheduleKeyColumns,
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

const writePasses = defineRows({
  columns: {
    ...scheduleKeyColumns,
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

function toPassRow({ firing, jobs, reason }: Pass, now: string): Row {
  const { act } = firing;
  const next = reason === undefined ? firing.next : firing.nextIfSkipped;
  return {
    ...toScheduleKeyRow(firing),
    steps: act.kind === 'wait' ? 0 : Math.max(1, jobs.length),
    next_slot_at: next?.slotAt ?? null,
    next_due_at: next?.dueAt ?? null,
    last_job_id: jobs.at(-1)?.id ?? null,
    skip_reason: (act.kind === 'wait' ? act.reason : reason) ?? null,
    now,
  };
}
