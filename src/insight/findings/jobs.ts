import { limits } from '../../base/limits.ts';
import type { DeadJob } from '../types.ts';
import { type Check, type CheckContext, showText } from '../check.service.ts';
import { findingId, type LiveFinding, groupUnacknowledged, toFindingWindow } from '../finding.ts';
import { fromTimestamp, type Timestamp, toTimestamp } from '../../base/clock.ts';
import { formatDuration } from '../../base/quantity.ts';
import { type Job, isTerminal } from '../../job/job.ts';
import type { Ledger, LedgerSubset } from '../../ledger/ledger.ts';
import {
  overlongAfterMs,
  readUsualDuration,
  type UsualDuration,
} from '../usual-duration.service.ts';
import type { Attempt } from '../../job/attempt.ts';

const KIND = 'job_dead';

/** Finds commands with dead jobs that weren't retried, one finding for each command. */
export const findDeadJobs: Check = async (context) => {
  const all = await context.ledger.jobs.listDead(toFindingWindow(context.now));
  // An init can't be retried as a job; `plugin_not_set_up` reports it.
  const jobs = all.filter(({ command }) => command !== 'init');
  const keyOf = ({ plugin, command }: DeadJob): string => `${plugin}/${command}`;
  const groups = groupUnacknowledged(jobs, KIND, keyOf, context).slice(0, limits.findingGroupsMax);
  return await Promise.all(groups.map(([key, group]) => describeDead(key, group, context)));
};

async function describeDead(
  key: string,
  dead: readonly DeadJob[],
  { ledger }: CheckContext,
): Promise<LiveFinding> {
  const [newest] = dead;
  const { id = '', plugin = '', command = '' } = newest ?? {};
  const count = dead.length;
  const shown = await showText(ledger, newest?.lastError ?? null, newest ?? {});
  const acknowledge = `ductile incident acknowledge ${findingId({ kind: KIND, key })}`;
  const retry =
    count === 1
      ? `ductile job retry ${id}`
      : `ductile jobs retry --plugin ${plugin} --command ${command} --status dead`;
  return {
    kind: KIND,
    key,
    severity: 'error',
    category: 'jobs',
    impact: 'item',
    message:
      count === 1
        ? `A job of ${plugin} ${command} is dead: its work was not done.`
        : `${count} jobs of ${plugin} ${command} are dead: their work was not done.`,
    evidence: `job ${id} ended with attempt ${newest?.attempt ?? 1}: ${shown}`,
    fix: 'Fix the cause, then retry. Acknowledge the finding if the work is no longer needed.',
    commands: [retry, acknowledge],
    why: id,
    since: dead.at(-1)?.completedAt,
    count,
    detail: { plugin, command, job_ids: dead.slice(0, limits.findingIdsMax).map((job) => job.id) },
  };
}

/** Finds running jobs that hold a key or a worker slot for far longer than their command usually does. */
export const findOverlongJobs: Check = async ({ ledger, now }) => {
  const { overlongMinMs, runningRead } = limits.checks;
  const { jobs } = await ledger.jobs.page({
    status: ['running'],
    order: 'oldest',
    limit: runningRead,
  });
  const old = jobs.filter(({ startedAt }) => ageOf(startedAt, now) >= overlongMinMs);
  const groups = [...Map.groupBy(old, ({ plugin, command }) => `${plugin}/${command}`).values()];
  const found = await Promise.all(groups.map((group) => checkGroup(ledger, group, now)));
  return found.flat();
};

/** Checks the running jobs of a command. They share one finding, because they often hang together. */
async function checkGroup(
  ledger: Ledger,
  jobs: readonly Job[],
  now: Timestamp,
): Promise<LiveFinding[]> {
  const [first] = jobs;
  if (first === undefined) return [];
  const usual = await readUsualDuration(ledger, first);
  const overlong = jobs
    .filter(({ startedAt }) => ageOf(startedAt, now) >= overlongAfterMs(usual))
    .toSorted((a, b) => ((a.startedAt ?? '') < (b.startedAt ?? '') ? -1 : 1));
  const [oldest] = overlong;
  if (oldest === undefined) return [];
  const lastRecordAt = await readLastRecord(ledger, oldest);
  return [describeOverlong(oldest, { usual, lastRecordAt, now, count: overlong.length })];
}

/** Reads when an attempt last caused a signal or a job. Undefined if it caused none. */
async function readLastRecord(
  ledger: LedgerSubset<'jobs.list' | 'signals.list'>,
  { id, startedAt }: Job,
): Promise<Timestamp | undefined> {
  const [signals, jobs] = await Promise.all([
    ledger.signals.list({ jobId: id, limit: 1 }),
    ledger.jobs.list({ parentJobId: id, limit: 1 }),
  ]);
  const moments = [...signals.map((one) => one.insertedAt), ...jobs.map((one) => one.createdAt)];
  return moments
    .filter((moment) => moment > (startedAt ?? ''))
    .toSorted()
    .at(-1);
}

function ageOf(startedAt: Timestamp | null, now: Timestamp): number {
  return startedAt === null ? 0 : fromTimestamp(now) - fromTimestamp(startedAt);
}

interface OverlongFacts {
  readonly usual: UsualDuration | undefined;
  readonly lastRecordAt: Timestamp | undefined;
  readonly now: Timestamp;
  /** The number of overlong jobs of the command. */
  readonly count: number;
}

function describeOverlong(job: Job, facts: OverlongFacts): LiveFinding {
  const { usual, lastRecordAt, now, count } = facts;
  const { id, plugin, command, dependencyKey, dedupeKey, startedAt, attempt } = job;
  const ageMs = ageOf(startedAt, now);
  const age = formatDuration(ageMs - (ageMs % 1000));
  const held = dependencyKey === null ? 'a worker slot' : `the dependency key ${dependencyKey}`;
  const others = count === 1 ? '' : `; ${count - 1} more of its command are overlong, too`;
  const silence =
    lastRecordAt === undefined
      ? 'has recorded nothing since'
      : `last recorded something at ${lastRecordAt}`;
  const takes =
    usual === undefined
      ? 'it has no history to compare with'
      : `95 % of its last ${usual.attempts} attempts took at most ${formatDuration(usual.p95Ms)}`;
  return {
    kind: 'job_overlong',
    key: `${plugin}/${command}`,
    severity: usual === undefined ? 'info' : 'warning',
    category: 'jobs',
    impact: dependencyKey === null ? 'item' : 'part',
    message: `Job ${id} of ${plugin} ${command} has held ${held} for ${age}${others}.`,
    evidence: `attempt ${attempt} started at ${startedAt ?? 'an unknown time'} and ${silence}; ${takes}`,
    fix: 'Cancel the job if it hangs. Jobs that wait for its key or slot start then.',
    commands: [`ductile job cancel ${id}`, `ductile job inspect ${id}`],
    why: id,
    since: startedAt,
    count,
    detail: {
      job_id: id,
      plugin,
      command,
      dependency_key: dependencyKey,
      dedupe_key: dedupeKey,
      running_ms: ageMs,
      last_record_at: lastRecordAt ?? null,
      usual_p95_ms: usual?.p95Ms ?? null,
    },
  };
}

/** Causes of attempts that ended because the service or its spawner died. */
const deaths: ReadonlySet<string> = new Set(['engine_crash', 'spawner_died']);

/** Finds jobs that ran each time the service died, and that will run again. */
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

interface CrashGroup {
  readonly jobId: string;
  /** Newest first. */
  readonly crashes: readonly Attempt[];
}

/** Groups attempts that ended because the service died by job, the job with most crashes first. */
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
