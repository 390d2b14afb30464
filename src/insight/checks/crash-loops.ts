import { fromTimestamp, toTimestamp } from '../../base/clock.ts';
import { limits } from '../../base/limits.ts';
import type { Attempt } from '../../job/attempt.ts';
import { isTerminal, type Job } from '../../job/job.ts';
import type { Check } from '../check.service.ts';
import type { LiveFinding } from '../finding.ts';

/** Ends of attempts that mean that the service itself, or what starts its plugins, died. */
const deaths: ReadonlySet<string> = new Set(['engine_crash', 'spawner_died']);

/** Finds jobs that were running each time the service died, and that will run again. */
export const findCrashLoops: Check = async ({ ledger, now }) => {
  const { crashesMin, crashWindowMs, attemptsRead } = limits.checks;
  const since = toTimestamp(fromTimestamp(now) - crashWindowMs);
  const attempts = await ledger.attempts.list({ status: 'crashed', limit: attemptsRead });
  const loops = groupCrashes(attempts, since).filter(({ crashes }) => crashes.length >= crashesMin);
  const found = await Promise.all(
    loops.map(async ({ jobId, crashes }) => {
      const job = await ledger.jobs.find(jobId);
      return job === undefined || isTerminal(job.status) ? [] : [describeLoop(job, crashes)];
    }),
  );
  return found.flat();
};

export interface CrashGroup {
  readonly jobId: string;
  /** The newest first. */
  readonly crashes: readonly Attempt[];
}

/** Groups attempts that a death of the service ended by their job, the job with the most first. */
export function groupCrashes(attempts: readonly Attempt[], since: string): CrashGroup[] {
  const recent = attempts.filter(
    ({ cause, completedAt }) => deaths.has(cause) && completedAt >= since,
  );
  return [...Map.groupBy(recent, ({ jobId }) => jobId)]
    .map(([jobId, crashes]) => ({ jobId, crashes }))
    .toSorted((a, b) => b.crashes.length - a.crashes.length);
}

function describeLoop(job: Job, crashes: readonly Attempt[]): LiveFinding {
  const { id, plugin, command, status, attempt } = job;
  const [newest] = crashes;
  const oldest = crashes.at(-1);
  const processes = new Set(crashes.map(({ processId }) => processId)).size;
  const times = `${crashes.length} times`;
  const state = status === 'running' ? 'runs again' : 'is queued again';
  return {
    kind: 'crash_loop',
    key: `${plugin}/${command}`,
    severity: 'error',
    category: 'service',
    impact: 'everything',
    message:
      `The service crashed ${times} while job ${id} of ${plugin} ${command} was running, ` +
      `and the job ${state} as attempt ${attempt}.`,
    evidence:
      `${processes} service ${processes === 1 ? 'process' : 'processes'} ended without a word ` +
      `since ${oldest?.completedAt ?? 'then'}, the last one before ${newest?.completedAt ?? 'now'}; ` +
      `after ${limits.crashesMax} crashes the job is dead`,
    fix:
      'Cancel the job, or disable its plugin. Repeat the command if the service is away for a moment. ' +
      'Then find out what it does to the service, such as using all of its memory.',
    commands: [`ductile job cancel ${id}`, `ductile plugin disable ${plugin}`],
    why: id,
    since: oldest?.completedAt,
    count: crashes.length,
    detail: { job_id: id, plugin, command, crashes: crashes.length, processes, attempt },
  };
}
