/** Schedules in memory, for tests that simulate a year. */
import { fromTimestamp, toTimestamp } from '../../src/base/clock.ts';
import type { LedgerSubset } from '../../src/ledger/ledger.ts';
import type { DueSchedule, FireResult, Firing, ScheduleDraft } from '../../src/schedule/types.ts';
import { decideOverlap } from '../../src/schedule/schedule.ts';

export interface FiredJob {
  readonly key: string;
  readonly slot: string;
  readonly atMs: number;
  readonly endsMs: number;
}

interface Row extends ScheduleDraft {
  seq: number;
  slotAt: string | undefined;
  dueAt: string | undefined;
  last: FiredJob | undefined;
}

type SchedulerLedger = LedgerSubset<
  | 'now'
  | 'schedules.sync'
  | 'schedules.retire'
  | 'schedules.listDue'
  | 'schedules.list'
  | 'schedules.fire'
  | 'processes.listLivePlugins'
  | 'processes.findLastLoaded'
>;

export interface MemorySchedules {
  readonly ledger: SchedulerLedger;
  readonly jobs: readonly FiredJob[];
  readonly skipped: readonly string[];
}

/** Creates the ledger's functions for schedules; every job takes `jobMs`. */
export function makeMemorySchedules(nowMs: () => number, jobMs: number): MemorySchedules {
  const rows = new Map<string, Row>();
  const jobs: FiredJob[] = [];
  const skipped: string[] = [];

  const pass = (firing: Firing): FireResult => {
    const { due, act } = firing;
    const key = `${due.plugin}/${due.scheduleId}`;
    const row = rows.get(key);
    const result = { plugin: due.plugin, scheduleId: due.scheduleId, jobIds: [], cancelled: [] };
    if (row === undefined || row.seq !== due.seq) {
      return { ...result, verdict: 'lost', reason: undefined };
    }
    const isOpen = row.last !== undefined && row.last.endsMs > nowMs();
    const overlap = act.kind === 'fire' ? decideOverlap(act.guard, isOpen ? 1 : 0) : undefined;
    const isBusy = overlap === 'already_running' || overlap === 'outstanding_limit';
    if (isBusy && act.kind === 'fire' && act.ifBusy !== undefined) {
      [row.slotAt, row.dueAt] = [act.ifBusy.slotAt, act.ifBusy.dueAt];
      return { ...result, verdict: 'moved', reason: undefined };
    }
    const reason = act.kind === 'skip' ? act.reason : isBusy ? overlap : undefined;
    const next = reason === undefined ? firing.next : firing.nextIfSkipped;
    [row.slotAt, row.dueAt] = [next?.slotAt, next?.dueAt];
    if (act.kind === 'wait') return { ...result, verdict: 'moved', reason: undefined };
    const drafts = act.kind === 'fire' && reason === undefined ? act.jobs : [];
    row.seq += Math.max(1, drafts.length);
    for (const { schedule } of drafts) {
      row.last = { key, slot: schedule?.slot ?? '', atMs: nowMs(), endsMs: nowMs() + jobMs };
      jobs.push(row.last);
    }
    if (reason !== undefined) skipped.push(`${key} ${reason}`);
    const jobIds = drafts.map(({ id }) => id);
    return { ...result, jobIds, verdict: reason === undefined ? 'fired' : 'skipped', reason };
  };

  const toDue = (row: Row): DueSchedule => ({
    plugin: row.plugin,
    scheduleId: row.scheduleId,
    generation: row.generation,
    seq: row.seq,
    slotAt: row.slotAt ?? '',
    dueAt: row.dueAt ?? '',
    lastJobId: row.last?.slot ?? null,
    isLastOpen: row.last !== undefined && row.last.endsMs > nowMs(),
    lastCompletedAt:
      row.last !== undefined && row.last.endsMs <= nowMs() ? toTimestamp(row.last.endsMs) : null,
  });

  const ledger: SchedulerLedger = {
    now: () => Promise.resolve(toTimestamp(nowMs())),
    schedules: {
      sync(drafts) {
        for (const draft of drafts) {
          const key = `${draft.plugin}/${draft.scheduleId}`;
          const next = { slotAt: draft.next?.slotAt, dueAt: draft.next?.dueAt };
          rows.set(key, { ...draft, ...next, seq: 0, last: undefined });
        }
        return Promise.resolve();
      },
      retire: () => Promise.resolve(),
      listDue({ now, limit }) {
        const active = [...rows.values()].filter(({ dueAt }) => dueAt !== undefined);
        const due = active.filter(({ dueAt = '' }) => dueAt <= now).slice(0, limit);
        const ahead = active.flatMap(({ dueAt = '' }) =>
          dueAt > now ? [fromTimestamp(dueAt)] : [],
        );
        const nextAt = ahead.length === 0 ? undefined : toTimestamp(Math.min(...ahead));
        return Promise.resolve({ due: due.map(toDue), nextAt });
      },
      fire: ({ firings }) => Promise.resolve(firings.map(pass)),
      list: () => Promise.resolve([]),
    },
    processes: {
      listLivePlugins: () => Promise.resolve([]),
      findLastLoaded: () => Promise.resolve({ snapshotId: undefined, liveProcessId: undefined }),
    },
  };
  return { ledger, jobs, skipped };
}
