import { maskText } from '../base/secrets.ts';
import type { Job } from '../job/job.ts';
import { failureStreak, hopsLimit, poisonJob } from './findings/observed.ts';
import type { Incident, IncidentDraft, RecentJobEnd } from './types.ts';
import type { Closing } from '../ledger/commit.ts';
import type { AttemptIncidents } from './incident-rules.service.ts';

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
        drafts: [...long.map(([, streak]) => toDraft(streak)), ...mergeEvents(events)],
        eventCount: events.length,
        succeededAgoMs: new Map([...successes].map(([key, ms]) => [key, nowMs - ms])),
      };
    },
    markRecorded({ drafts, eventCount, succeededAgoMs }) {
      events = events.slice(eventCount);
      for (const key of succeededAgoMs.keys()) successes.delete(key);
      for (const { kind, key, count } of drafts) {
        const streak = kind === failureStreak.kind ? streaks.get(key) : undefined;
        if (kind === failureStreak.kind) openStreaks.add(key);
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
  return new Set(open.flatMap(({ kind, key }) => (kind === failureStreak.kind ? key : [])));
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

function toDraft(streak: Streak): IncidentDraft {
  const { failures: count, recorded, isAlarm } = streak;
  return failureStreak.draft(streak, count - recorded, isAlarm);
}

/** Finds single events: a job that is dead because of crashes, and signals that were not routed. */
function findEvents({ job, ending, signals }: Closing): IncidentDraft[] {
  const loops = signals.filter(({ type }) => type === 'incident.loop').length;
  const { crashCount: crashes } = ending;
  return [
    ...(ending.reason === 'crashes_exhausted'
      ? [poisonJob.draft({ job, crashes }, 1, job.runtimeCaused)]
      : []),
    ...(loops > 0 ? [hopsLimit.draft({ job, hops: job.hops + 1 }, loops, job.runtimeCaused)] : []),
  ];
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
