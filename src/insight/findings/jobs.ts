import { fromTimestamp, type Timestamp, toTimestamp } from '../../base/clock.ts';
import { limits } from '../../base/limits.ts';
import { formatDuration } from '../../base/quantity.ts';
import type { Attempt } from '../../job/attempt.ts';
import { type Job, isTerminal } from '../../job/job.ts';
import type { LedgerSubset } from '../../ledger/ledger.ts';
import { defineFinding, type CheckContext, showText } from '../define-finding.service.ts';
import { acknowledgeCommand, groupUnacknowledged, toFindingWindow } from '../finding.ts';
import {
  describeUsual,
  overlongAfterMs,
  readUsualDuration,
  type ProgressFacts,
} from '../usual-duration.service.ts';

export const jobDead = defineFinding({
  kind: 'job_dead',
  condition:
    'A job failed for good in the last 7 days and was not retried. Jobs of a run count with the run.',
  rank: { severity: 'error', category: 'jobs', impact: 'item' },
  fix: 'Fix the cause, then retry. Acknowledge the finding if the work is no longer needed.',
  command: 'ductile job retry JOB',
  incident: 'found',
  isAcknowledgeable: true,
  async find(context) {
    const { ledger, now } = context;
    const all = await ledger.jobs.listDead(toFindingWindow(now));
    // An init can't be retried as a job; `plugin_not_set_up` reports it.
    const jobs = all.filter(({ command }) => command !== 'init');
    const groups = groupUnacknowledged(jobs, 'job_dead', keyOf, context);
    return await Promise.all(
      groups.slice(0, limits.findingGroupsMax).map(async ([key, dead]) => {
        const [newest] = dead;
        return {
          key,
          dead,
          error: await showText(ledger, newest?.lastError ?? null, newest ?? {}),
        };
      }),
    );
  },
  describe({ key, dead, error }) {
    const { id = '', plugin = '', command = '', attempt = 1 } = dead[0] ?? {};
    const count = dead.length;
    const retry =
      count === 1
        ? `ductile job retry ${id}`
        : `ductile jobs retry --plugin ${plugin} --command ${command} --status dead`;
    return {
      key,
      message:
        count === 1
          ? `A job of ${plugin} ${command} is dead: its work was not done.`
          : `${count} jobs of ${plugin} ${command} are dead: their work was not done.`,
      evidence: `job ${id} ended with attempt ${attempt}: ${error}`,
      commands: [retry, acknowledgeCommand('job_dead', key)],
      why: id,
      since: dead.at(-1)?.completedAt,
      count,
      detail: {
        plugin,
        command,
        job_ids: dead.slice(0, limits.findingIdsMax).map((job) => job.id),
      },
    };
  },
});

function keyOf({ plugin, command }: Pick<Job, 'plugin' | 'command'>): string {
  return `${plugin}/${command}`;
}

interface OverlongJobs extends ProgressFacts {
  /** The oldest overlong job of its command. */
  readonly job: Job;
  /** The number of overlong jobs of the command. */
  readonly count: number;
}

export const jobOverlong = defineFinding<OverlongJobs>({
  kind: 'job_overlong',
  condition:
    'A job has run for over a minute, and 5 times as long as 95 % of the last attempts of its command.',
  rank: { severity: 'warning', category: 'jobs', impact: 'item' },
  fix: 'Cancel the job if it hangs. Jobs that wait for its key or slot start then.',
  command: 'ductile job cancel JOB',
  incident: 'found',
  async find(context) {
    const { overlongMinMs, runningRead } = limits.checks;
    const { jobs } = await context.ledger.jobs.page({
      status: ['running'],
      order: 'oldest',
      limit: runningRead,
    });
    const old = jobs.filter(({ startedAt }) => ageOf(startedAt, context.now) >= overlongMinMs);
    const groups = [...Map.groupBy(old, keyOf).values()];
    return (await Promise.all(groups.map((group) => findOverlong(group, context)))).flat();
  },
  describe({ job, startedAt, lastRecordAt, usual, now, count }) {
    const { id, plugin, command, dependencyKey, dedupeKey, attempt } = job;
    const ageMs = ageOf(startedAt, now);
    const age = formatDuration(ageMs - (ageMs % 1000));
    const held = dependencyKey === null ? 'a worker slot' : `the dependency key ${dependencyKey}`;
    const others = count === 1 ? '' : `; ${count - 1} more of its command are overlong, too`;
    const silence =
      lastRecordAt === undefined
        ? 'has recorded nothing since'
        : `last recorded something at ${lastRecordAt}`;
    return {
      key: keyOf(job),
      severity: usual === undefined ? 'info' : 'warning',
      impact: dependencyKey === null ? 'item' : 'part',
      message: `Job ${id} of ${plugin} ${command} has held ${held} for ${age}${others}.`,
      evidence: `attempt ${attempt} started at ${startedAt} and ${silence}; ${describeUsual(usual)}`,
      commands: [`ductile job cancel ${id}`, `ductile job show ${id}`],
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
  },
});

function ageOf(startedAt: Timestamp | null, now: Timestamp): number {
  return startedAt === null ? 0 : fromTimestamp(now) - fromTimestamp(startedAt);
}

/** Finds overlong jobs of one command. They share a finding, because they often hang together. */
async function findOverlong(
  jobs: readonly Job[],
  { ledger, now }: CheckContext,
): Promise<OverlongJobs[]> {
  const [first] = jobs;
  if (first === undefined) return [];
  const usual = await readUsualDuration(ledger, first);
  const overlong = jobs
    .filter(({ startedAt }) => ageOf(startedAt, now) >= overlongAfterMs(usual))
    .toSorted((a, b) => ((a.startedAt ?? '') < (b.startedAt ?? '') ? -1 : 1));
  const [job] = overlong;
  if (job === undefined) return [];
  const startedAt = job.startedAt ?? now;
  const lastRecordAt = await readLastRecord(ledger, { id: job.id, startedAt });
  return [{ job, startedAt, lastRecordAt, usual, now, count: overlong.length }];
}

/** Reads when an attempt last caused a signal or a job. Undefined if it caused none. */
export async function readLastRecord(
  ledger: LedgerSubset<'jobs.list' | 'signals.list'>,
  { id, startedAt }: { readonly id: string; readonly startedAt: Timestamp },
): Promise<Timestamp | undefined> {
  const [signals, jobs] = await Promise.all([
    ledger.signals.list({ jobId: id, limit: 1 }),
    ledger.jobs.list({ parentJobId: id, limit: 1 }),
  ]);
  const moments = [...signals.map((one) => one.insertedAt), ...jobs.map((one) => one.createdAt)];
  return moments
    .filter((moment) => moment > startedAt)
    .toSorted()
    .at(-1);
}

export const crashLoop = defineFinding({
  kind: 'crash_loop',
  condition:
    'The service crashed 3 times within an hour while the same job was running, and the job is not over.',
  rank: { severity: 'error', category: 'service', impact: 'everything' },
  fix:
    'Cancel the job, or disable its plugin. ' +
    'Run the command again if the service is not reachable. ' +
    'Then find out what the job does to the service, such as using all of its memory.',
  command: 'ductile job cancel JOB',
  incident: 'found',
  async find({ ledger, now }) {
    const { crashesMin, crashWindowMs, attemptsRead } = limits.checks;
    const since = toTimestamp(fromTimestamp(now) - crashWindowMs);
    const attempts = await ledger.attempts.list({ status: 'crashed', limit: attemptsRead });
    const loops = groupCrashes(attempts, since).filter(
      ({ crashes }) => crashes.length >= crashesMin,
    );
    const found = await Promise.all(
      loops.map(async ({ jobId, crashes }) => {
        const job = await ledger.jobs.find(jobId);
        return job === undefined || isTerminal(job.status) ? [] : [{ job, crashes }];
      }),
    );
    return found.flat();
  },
  describe({ job, crashes }) {
    const { id, plugin, command, status, attempt } = job;
    const [newest] = crashes;
    const oldest = crashes.at(-1);
    const processes = new Set(crashes.map(({ processId }) => processId)).size;
    const state = status === 'running' ? 'runs again' : 'is queued again';
    return {
      key: keyOf(job),
      message:
        `The service crashed ${crashes.length} times while job ${id} of ${plugin} ${command} was running, ` +
        `and the job ${state} as attempt ${attempt}.`,
      evidence:
        `${processes} service ${processes === 1 ? 'process' : 'processes'} ended without a shutdown ` +
        `since ${oldest?.completedAt ?? 'then'}, the last one before ${newest?.completedAt ?? 'now'}; ` +
        `after ${limits.crashesMax} crashes the job is dead`,
      commands: [`ductile job cancel ${id}`, `ductile plugin disable ${plugin}`],
      why: id,
      since: oldest?.completedAt,
      count: crashes.length,
      detail: { job_id: id, plugin, command, crashes: crashes.length, processes, attempt },
    };
  },
});

/** Causes of attempts that ended because the service or its spawner died. */
const deaths: ReadonlySet<string> = new Set(['engine_crash', 'spawner_died']);

/** Groups attempts that ended because the service died by job, the job with most crashes first. */
export function groupCrashes(
  attempts: readonly Attempt[],
  since: string,
): { readonly jobId: string; readonly crashes: readonly Attempt[] }[] {
  const recent = attempts.filter(
    ({ cause, completedAt }) => deaths.has(cause) && completedAt >= since,
  );
  return [...Map.groupBy(recent, ({ jobId }) => jobId)]
    .map(([jobId, crashes]) => ({ jobId, crashes }))
    .toSorted((a, b) => b.crashes.length - a.crashes.length);
}
