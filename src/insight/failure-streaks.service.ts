import { maskText } from '../base/secrets.ts';
import type { Job } from '../job/job.ts';
import type { Incident, RecentJobEnd } from './types.ts';
import type { Closing } from '../ledger/commit.ts';
import type { AttemptIncidents, IncidentDraft } from './incident-rules.service.ts';

/**
 * Counts how jobs ended in this process, after each commit. It counts failures in a row for each
 * command, jobs that crashed the service, and chains that were too long. It doesn't read the ledger.
 */
interface FailureStreaks {
  /** Restores streaks from earlier ends, newest first. Open incidents have recorded theirs already. */
  restore(ends: readonly RecentJobEnd[], open: readonly Incident[]): void;
  /** Counts ended attempts. Returns whether the watcher should look at once. */
  count(closings: readonly Closing[]): boolean;
  /** Returns everything that isn't recorded yet, given the incidents that are open now. */
  report(open: readonly Incident[]): AttemptIncidents;
  /** Marks a report as recorded in the ledger. */
  markRecorded(report: AttemptIncidents): void;
}

interface Streak {
  readonly failures: number;
  /** The number of failures that are recorded in the ledger. */
  readonly recorded: number;
  readonly job: Pick<Job, 'id' | 'plugin' | 'command'>;
  readonly error: string | null;
  /** All of its jobs handled signals of the service itself. */
  readonly isAlarm: boolean;
}

export function makeFailureStreaks(
  streakMin: number,
  clock: () => number = () => performance.now(),
): FailureStreaks {
  const streaks = new Map<string, Streak>();
  /** When each command succeeded last. */
  const successes = new Map<string, number>();
  let openStreaks = new Set<string>();
  let events: IncidentDraft[] = [];

  const countEnd = ({ job, ending, report }: Closing): boolean => {
    const key = keyOf(job);
    if (ending.status === 'succeeded') {
      streaks.delete(key);
      successes.set(key, clock());
      return openStreaks.has(key);
    }
    if (!failures.has(ending.status)) return false;
    const before = streaks.get(key);
    const count = (before?.failures ?? 0) + 1;
    const isAlarm = job.runtimeCaused && before?.isAlarm !== false;
    const error = report.error === null ? null : maskText(report.error);
    streaks.set(key, { failures: count, recorded: before?.recorded ?? 0, job, error, isAlarm });
    successes.delete(key);
    return count === streakMin;
  };

  /** Restarts streaks whose incident another host has closed, because a job succeeded there. */
  const restartClosed = (open: readonly Incident[]): void => {
    openStreaks = streaksIn(open);
    for (const [key, streak] of streaks) {
      if (streak.recorded === 0 || openStreaks.has(key)) continue;
      const since = streak.failures - streak.recorded;
      if (since === 0) streaks.delete(key);
      else streaks.set(key, { ...streak, failures: since, recorded: 0 });
    }
  };

  return {
    restore(ends, open) {
      openStreaks = streaksIn(open);
      for (const [key, streak] of countStreaks(ends)) {
        const recorded = openStreaks.has(key) ? streak.failures : 0;
        streaks.set(key, { ...streak, recorded });
      }
    },
    count(closings) {
      const found = closings.flatMap(findEvents);
      events.push(...found);
      const isUrgent = closings.map(countEnd).includes(true);
      return isUrgent || found.length > 0;
    },
    report(open) {
      restartClosed(open);
      const long = [...streaks].filter(([, streak]) => streak.failures >= streakMin);
      const nowMs = clock();
      return {
        drafts: [...long.map(([key, streak]) => toDraft(key, streak)), ...mergeEvents(events)],
        eventCount: events.length,
        succeededAgoMs: new Map([...successes].map(([key, ms]) => [key, nowMs - ms])),
      };
    },
    markRecorded({ drafts, eventCount, succeededAgoMs }) {
      events = events.slice(eventCount);
      for (const key of succeededAgoMs.keys()) successes.delete(key);
      for (const { kind, key, count } of drafts) {
        const streak = kind === 'failure_streak' ? streaks.get(key) : undefined;
        if (kind === 'failure_streak') openStreaks.add(key);
        if (streak !== undefined)
          streaks.set(key, { ...streak, recorded: streak.recorded + count });
      }
    },
  };
}

function keyOf({ plugin, command }: Pick<Job, 'plugin' | 'command'>): string {
  return `${plugin}/${command}`;
}

function streaksIn(open: readonly Incident[]): Set<string> {
  return new Set(open.flatMap(({ kind, key }) => (kind === 'failure_streak' ? key : [])));
}

/** Counts the failures of each command since its last success. */
function countStreaks(ends: readonly RecentJobEnd[]): ReadonlyMap<string, Streak> {
  const streaks = new Map<string, Streak>();
  const over = new Set<string>();
  for (const { status, error, isAlarm, ...job } of ends) {
    const key = keyOf(job);
    if (status === 'succeeded') over.add(key);
    if (over.has(key) || !failures.has(status)) continue;
    const later = streaks.get(key);
    streaks.set(key, {
      job: later?.job ?? job,
      error: later === undefined ? error && maskText(error) : later.error,
      failures: (later?.failures ?? 0) + 1,
      recorded: 0,
      isAlarm: isAlarm && later?.isAlarm !== false,
    });
  }
  return streaks;
}

const failures: ReadonlySet<string> = new Set(['failed', 'dead', 'timed_out']);

function toDraft(
  key: string,
  { failures: count, recorded, job, error, isAlarm }: Streak,
): IncidentDraft {
  return {
    kind: 'failure_streak',
    key,
    count: count - recorded,
    detail: {
      message: `${job.plugin} ${job.command} failed ${count} times in a row`,
      plugin: job.plugin,
      command: job.command,
      failures: count,
      job_id: job.id,
      error,
    },
    isAlarm,
  };
}

/** Finds single events: a job that is dead because of crashes, and signals that were not routed. */
function findEvents({ job, ending, signals }: Closing): IncidentDraft[] {
  const { id, plugin, command, runtimeCaused: isAlarm } = job;
  const found: IncidentDraft[] = [];
  if (ending.reason === 'crashes_exhausted') {
    const message = `a job of ${plugin} ${command} was put aside: the engine crashed whenever it ran`;
    const detail = { message, plugin, command, job_id: id, crashes: ending.crashCount };
    found.push({ kind: 'poison_job', key: `${plugin}/${command}`, count: 1, detail, isAlarm });
  }
  const loops = signals.filter(({ type }) => type === 'incident.loop').length;
  if (loops > 0) {
    const message = `signals of ${plugin} came at the end of too long a chain, and were not routed`;
    const detail = { message, plugin, command, job_id: id, hops: job.hops + 1 };
    found.push({ kind: 'hops_limit', key: plugin, count: loops, detail, isAlarm });
  }
  return found;
}

/** Merges events of the same kind and key. The latest detail is kept. */
function mergeEvents(events: readonly IncidentDraft[]): IncidentDraft[] {
  const merged = new Map<string, IncidentDraft>();
  for (const event of events) {
    const key = `${event.kind} ${event.key}`;
    const before = merged.get(key);
    merged.set(key, {
      ...event,
      count: event.count + (before?.count ?? 0),
      isAlarm: event.isAlarm === true && before?.isAlarm !== false,
    });
  }
  return [...merged.values()];
}
