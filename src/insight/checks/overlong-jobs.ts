import { fromTimestamp, type Timestamp } from '../../base/clock.ts';
import { formatDuration } from '../../base/duration.ts';
import { limits } from '../../base/limits.ts';
import type { Job } from '../../job/job.ts';
import type { Ledger } from '../../ledger/ledger.ts';
import { overlongAfterMs, readUsualDuration, type UsualDuration } from '../usual-duration.ts';
import type { Check } from '../check.ts';
import type { LiveFinding } from '../finding.ts';

/** Finds running jobs that hold a key or a worker slot for far longer than their command usually does. */
export const findOverlongJobs: Check = async ({ ledger, now }) => {
  const { overlongMinMs, runningRead } = limits.checks;
  const { jobs } = await ledger.jobPage({
    status: ['running'],
    order: 'oldest',
    limit: runningRead,
  });
  const old = jobs.filter(({ startedAt }) => ageOf(startedAt, now) >= overlongMinMs);
  const found = await Promise.all(
    old.map(async (job) => {
      const usual = await readUsualDuration(ledger, job);
      const isOverlong = ageOf(job.startedAt, now) >= overlongAfterMs(usual);
      if (!isOverlong) return [];
      return [
        describeOverlong(job, { usual, lastRecordAt: await readLastRecord(ledger, job), now }),
      ];
    }),
  );
  return found.flat();
};

/** When an attempt last recorded something, a signal or a job; undefined if it has recorded nothing. */
async function readLastRecord(
  ledger: Pick<Ledger, 'jobs' | 'signals'>,
  { id, startedAt }: Job,
): Promise<Timestamp | undefined> {
  const [signals, jobs] = await Promise.all([
    ledger.signals({ jobId: id, limit: 1 }),
    ledger.jobs({ parentJobId: id, limit: 1 }),
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
}

function describeOverlong(job: Job, { usual, lastRecordAt, now }: OverlongFacts): LiveFinding {
  const { id, plugin, command, dependencyKey, dedupeKey, startedAt, attempt } = job;
  const ageMs = ageOf(startedAt, now);
  const age = formatDuration(ageMs - (ageMs % 1000));
  const held = dependencyKey === null ? 'a worker slot' : `the dependency key ${dependencyKey}`;
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
    key: id,
    severity: usual === undefined ? 'info' : 'warning',
    category: 'jobs',
    impact: dependencyKey === null ? 'item' : 'part',
    message: `Job ${id} of ${plugin} ${command} has held ${held} for ${age}.`,
    evidence: `attempt ${attempt} started at ${startedAt ?? 'an unknown time'} and ${silence}; ${takes}`,
    fix: 'Cancel the job if it hangs. Jobs that wait for its key or slot start then.',
    commands: [`ductile job cancel ${id}`, `ductile job inspect ${id}`],
    why: id,
    since: startedAt,
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
