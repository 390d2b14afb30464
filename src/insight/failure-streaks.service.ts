import { maskText } from '../base/secrets.ts';
import type { Job } from '../job/job.ts';
import type { Incident, RecentJobEnd } from './types.ts';
import type { Closing } from '../ledger/commit.ts';
import type { AttemptTroubles, IncidentTrouble } from './incident-rules.ts';

/**
 * How jobs ended in this process, counted as they do: failures in a row for each command, crashes that
 * ended a job, chains that were too long. Nothing is read for it, and only a few words are kept.
 */
export interface Outcomes {
  /** What ended before this process began, the newest first; what of it is open has been told. */
  recall(ends: readonly RecentJobEnd[], open: readonly Incident[]): void;
  /** True when somebody should look at once. */
  note(closings: readonly Closing[]): boolean;
  /** What was seen and not yet told, beside the incidents that are open now. */
  look(open: readonly Incident[]): AttemptTroubles;
  /** It is on the ledger now. */
  told(seen: AttemptTroubles): void;
}

interface Streak {
  readonly failures: number;
  /** How many of them are on the ledger. */
  readonly told: number;
  readonly job: Pick<Job, 'id' | 'plugin' | 'command'>;
  readonly error: string | null;
  /** All of them were to handle what the runtime said. */
  readonly isAlarm: boolean;
}

export function makeOutcomes(
  streakMin: number,
  clock: () => number = () => performance.now(),
): Outcomes {
  const streaks = new Map<string, Streak>();
  /** When each command succeeded last. */
  const well = new Map<string, number>();
  let openStreaks = new Set<string>();
  let passing: IncidentTrouble[] = [];

  const noteEnd = ({ job, ending, report }: Closing): boolean => {
    const key = keyOf(job);
    if (ending.status === 'succeeded') {
      streaks.delete(key);
      well.set(key, clock());
      return openStreaks.has(key);
    }
    if (!failures.has(ending.status)) return false;
    const before = streaks.get(key);
    const count = (before?.failures ?? 0) + 1;
    const isAlarm = job.runtimeCaused && before?.isAlarm !== false;
    const error = report.error === null ? null : maskText(report.error);
    streaks.set(key, { failures: count, told: before?.told ?? 0, job, error, isAlarm });
    well.delete(key);
    return count === streakMin;
  };

  /** An incident of ours that is not open any more was closed where a job succeeded: it counts anew. */
  const heed = (open: readonly Incident[]): void => {
    openStreaks = streaksIn(open);
    for (const [key, streak] of streaks) {
      if (streak.told === 0 || openStreaks.has(key)) continue;
      const since = streak.failures - streak.told;
      if (since === 0) streaks.delete(key);
      else streaks.set(key, { ...streak, failures: since, told: 0 });
    }
  };

  return {
    recall(ends, open) {
      openStreaks = streaksIn(open);
      for (const [key, streak] of countStreaks(ends)) {
        const told = openStreaks.has(key) ? streak.failures : 0;
        streaks.set(key, { ...streak, told });
      }
    },
    note(closings) {
      const passed = closings.flatMap(findPassing);
      passing.push(...passed);
      const isWanted = closings.map(noteEnd).includes(true);
      return isWanted || passed.length > 0;
    },
    look(open) {
      heed(open);
      const long = [...streaks].filter(([, streak]) => streak.failures >= streakMin);
      const nowMs = clock();
      return {
        troubles: [...long.map(([key, streak]) => toTrouble(key, streak)), ...joinAlike(passing)],
        passed: passing.length,
        well: new Map([...well].map(([key, ms]) => [key, nowMs - ms])),
      };
    },
    told({ troubles, passed, well: seenWell }) {
      passing = passing.slice(passed);
      for (const key of seenWell.keys()) well.delete(key);
      for (const { kind, key, count } of troubles) {
        const streak = kind === 'failure_streak' ? streaks.get(key) : undefined;
        if (kind === 'failure_streak') openStreaks.add(key);
        if (streak !== undefined) streaks.set(key, { ...streak, told: streak.told + count });
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

/** The failures of each command since it succeeded last. */
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
      told: 0,
      isAlarm: isAlarm && later?.isAlarm !== false,
    });
  }
  return streaks;
}

const failures: ReadonlySet<string> = new Set(['failed', 'dead', 'timed_out']);

function toTrouble(
  key: string,
  { failures: count, told, job, error, isAlarm }: Streak,
): IncidentTrouble {
  return {
    kind: 'failure_streak',
    key,
    count: count - told,
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

function findPassing({ job, ending, signals }: Closing): IncidentTrouble[] {
  const { id, plugin, command, runtimeCaused: isAlarm } = job;
  const found: IncidentTrouble[] = [];
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

/** One for each kind and key, with the latest words. */
function joinAlike(troubles: readonly IncidentTrouble[]): IncidentTrouble[] {
  const joined = new Map<string, IncidentTrouble>();
  for (const trouble of troubles) {
    const key = `${trouble.kind} ${trouble.key}`;
    const before = joined.get(key);
    joined.set(key, {
      ...trouble,
      count: trouble.count + (before?.count ?? 0),
      isAlarm: trouble.isAlarm === true && before?.isAlarm !== false,
    });
  }
  return [...joined.values()];
}
