import { fromTimestamp, type Timestamp } from '../../base/clock.ts';
import { formatDuration } from '../../base/quantity.ts';
import { limits } from '../../base/limits.ts';
import type { Job } from '../../job/job.ts';
import type { Ledger, LedgerSubset } from '../../ledger/ledger.ts';
import {
  overlongAfterMs,
  readUsualDuration,
  type UsualDuration,
} from '../usual-duration.service.ts';
import type { Check } from '../check.service.ts';
import type { LiveFinding } from '../finding.ts';

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

/** One finding for all overlong jobs of a command: what makes one hang often makes all of them hang. */
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

/** When an attempt last recorded something, a signal or a job; undefined if it has recorded nothing. */
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
  /** How many jobs of the command are overlong. */
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
