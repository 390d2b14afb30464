/**
 * Checks a crash test after all work has ended: the responses to clients, the record of the plugins and
 * the ledger must agree.
 */
import type { Outcome } from './client.ts';
import { checkKeys, checkRepeats, checkSchedules, checkWorkflows } from './check-work.ts';
import { wasRequested, refOf, type Evidence, type SeenAttempt, type SeenJob } from './evidence.ts';
import { doneEvent, type RecordLine } from './recorder.ts';

export interface Verdict {
  /** Violations; empty if all guarantees hold. */
  readonly faults: readonly string[];
  readonly counts: Counts;
}

/** Counts of events that are allowed. */
export interface Counts extends Readonly<Record<Outcome, number>> {
  /** Unknown requests that were accepted. */
  readonly recovered: number;
  readonly jobs: number;
  /** Starts of jobs after their first. */
  readonly repeated: number;
  readonly crashed: number;
  readonly released: number;
  readonly failed: number;
  readonly runs: number;
  /** Jobs of schedules. */
  readonly ticks: number;
}

const failures: readonly string[] = ['failed', 'timed_out'];
const unfinished: readonly string[] = [...failures, 'crashed', 'released'];

export function check(evidence: Evidence): Verdict {
  const { jobs, attempts, record, problems, leftovers } = evidence;
  const attemptsOf = Map.groupBy(attempts, ({ jobId }) => jobId);
  const recordOf = Map.groupBy(record, ({ job_id }) => job_id);
  const ofJobs = jobs.flatMap((job) => {
    const rows = (attemptsOf.get(job.id) ?? []).toSorted((a, b) => a.attempt - b.attempt);
    const lines = recordOf.get(job.id) ?? [];
    return [...checkAttempts(job, rows), ...checkStarts(job, rows, lines, evidence)];
  });
  return {
    faults: [
      ...findLost(evidence),
      ...findUnexpected(evidence),
      ...ofJobs,
      ...findBroken(evidence),
      ...checkWorkflows(evidence),
      ...checkSchedules(evidence),
      ...checkKeys(evidence),
      ...checkRepeats(evidence),
      ...findSharedKeys(record),
      ...problems.map((problem) => `the ledger is not sound: ${problem}`),
      ...leftovers.map((pid) => `process ${pid} of a plugin outlived every server`),
    ],
    counts: count(evidence),
  };
}

/** Checks that every acknowledged job is in the ledger. */
function findLost({ history, jobs, runs }: Evidence): string[] {
  const known = new Set([...jobs, ...runs].map(({ id }) => id));
  return history
    .map(({ ref, outcome, jobId, runId = jobId }) => ({ ref, outcome, id: runId ?? '' }))
    .filter(({ outcome, id }) => outcome === 'acknowledged' && !known.has(id))
    .map(({ ref, id }) => `lost: ${ref} was acknowledged as ${id} and is gone`);
}

/**
 * Checks that every job in the ledger was requested once and not refused, or has a cause in the ledger.
 */
function findUnexpected({ history, jobs, runs }: Evidence): string[] {
  const requests = new Map(history.map((operation) => [operation.ref, operation]));
  const known = new Set(jobs.map(({ id }) => id));
  const faults: string[] = [];
  for (const { id, parentJobId } of jobs) {
    if (parentJobId === null || known.has(parentJobId)) continue;
    faults.push(`unexpected: ${id} descends from ${parentJobId}, which is not there`);
  }
  for (const [ref, roots] of Map.groupBy([...jobs.filter(wasRequested), ...runs], refOf)) {
    const { outcome, jobId, runId: acknowledgedId = jobId } = requests.get(ref) ?? {};
    const ids = roots.map(({ id }) => id).join(', ');
    if (outcome === undefined) faults.push(`unexpected: ${ids} was never asked for`);
    else if (outcome === 'refused') faults.push(`unexpected: ${ids} was refused as ${ref}`);
    else if (roots.length > 1) faults.push(`duplicated: ${ref} was asked for once, made ${ids}`);
    else if (acknowledgedId !== undefined && acknowledgedId !== ids)
      faults.push(`unexpected: ${ref} was acknowledged as ${acknowledgedId} but is ${ids}`);
  }
  return faults;
}

/** Checks that every job succeeded by exactly one attempt, the last of a sequence without gaps. */
function checkAttempts(job: SeenJob, rows: readonly SeenAttempt[]): string[] {
  const faults: string[] = [];
  const { id, status, lastError, retryCount } = job;
  if (status !== 'succeeded') faults.push(`unfinished: ${id} is left ${status}: ${lastError}`);
  const commits = rows.filter((row) => row.status === 'succeeded');
  if (commits.length > 1) faults.push(`double commit: ${id} succeeded ${commits.length} times`);
  if (status === 'succeeded' && commits.length === 0)
    faults.push(`no attempt at ${id} succeeded, though it did`);
  if (commits.length === 1 && rows.at(-1) !== commits[0])
    faults.push(`${id} was tried again after it had succeeded`);
  const numbers = rows.map(({ attempt }) => attempt);
  if (numbers.some((number, index) => number !== index + 1))
    faults.push(`the attempts at ${id} are ${numbers.join(', ')}`);
  const charged = rows.filter((row) => failures.includes(row.status)).length;
  if (retryCount !== charged)
    faults.push(`${id} was charged with ${retryCount} failures but had ${charged}`);
  return faults;
}

/** Compares the record of the plugins with the attempts. */
function checkStarts(
  job: SeenJob,
  rows: readonly SeenAttempt[],
  lines: readonly RecordLine[],
  { mayOverlap = false }: Evidence,
): string[] {
  const faults: string[] = [];
  const statusOf = new Map(rows.map(({ attempt, status }) => [attempt, status]));
  const starts = lines.filter(({ phase }) => phase === 'start');
  const ends = lines.filter(({ phase }) => phase === 'end');
  for (const [attempt, same] of Map.groupBy(starts, (line) => line.attempt)) {
    if (same.length > 1) faults.push(`attempt ${attempt} at ${job.id} ran ${same.length} times`);
    if (!statusOf.has(attempt)) faults.push(`attempt ${attempt} at ${job.id} ran without a row`);
    const earlier = starts.filter((line) => line.attempt < attempt);
    for (const line of earlier) {
      const status = statusOf.get(line.attempt) ?? 'not told of';
      if (unfinished.includes(status)) continue;
      const why = `attempt ${line.attempt} is ${status}`;
      faults.push(`unexplained: attempt ${attempt} at ${job.id} was run, though ${why}`);
    }
  }
  for (const [index, { attempt }] of starts.entries()) {
    const before = starts[index - 1]?.attempt ?? 0;
    if (attempt < before)
      faults.push(`zombie: attempt ${attempt} at ${job.id} was started after attempt ${before}`);
  }
  for (const { attempt, survivors } of starts) {
    if (mayOverlap || survivors.length === 0) continue;
    const pids = survivors.join(', ');
    faults.push(`overlap: ${pids} still ran when attempt ${attempt} at ${job.id} was started`);
  }
  for (const { attempt, status } of rows) {
    const done = ends.filter((line) => line.attempt === attempt).length;
    if (status === 'succeeded' && done !== 1)
      faults.push(`attempt ${attempt} at ${job.id} succeeded but did its work ${done} times`);
  }
  const keys = new Set(lines.map((line) => line.idempotency_key));
  if (keys.size > 1) faults.push(`${job.id} was run under ${keys.size} idempotency keys`);
  return faults;
}

/** Checks that a success and its consequences are one commit: one signal and one follower. */
function findBroken({ jobs, attempts, signals }: Evidence): string[] {
  const faults: string[] = [];
  const commitOf = new Map(
    attempts.filter(({ status }) => status === 'succeeded').map((row) => [row.jobId, row.attempt]),
  );
  const done = signals.filter(({ type }) => type === doneEvent);
  const doneBy = Map.groupBy(done, ({ jobId }) => jobId ?? '');
  const children = Map.groupBy(jobs, ({ parentJobId }) => parentJobId ?? '');
  for (const { id, payload } of jobs.filter(wasRequested)) {
    const doneSignals = doneBy.get(id) ?? [];
    const followers = children.get(id) ?? [];
    const attempt = commitOf.get(id);
    const expected = attempt === undefined ? 0 : 1;
    if (doneSignals.length !== expected)
      faults.push(`${id} has ${doneSignals.length} signals, not ${expected}`);
    // Only one job of each dedupe key has a follower.
    if (
      followers.length > expected ||
      (followers.length < expected && !payload.includes('"dedupe"'))
    )
      faults.push(`${id} has ${followers.length} followers, not ${expected}`);
    if (doneSignals.some((signal) => signal.jobAttempt !== attempt))
      faults.push(`the signal of ${id} is from another attempt than its success`);
    if (followers.some(({ sourceEventId }) => sourceEventId !== doneSignals[0]?.id))
      faults.push(`the follower of ${id} has another cause than its signal`);
  }
  const roots = new Set(jobs.filter(wasRequested).map(({ id }) => id));
  for (const { id, jobId } of done)
    if (!roots.has(jobId ?? '')) faults.push(`unexpected: signal ${id} is of no job`);
  return faults;
}

function findSharedKeys(record: readonly RecordLine[]): string[] {
  return [...Map.groupBy(record, (line) => line.idempotency_key)]
    .map(([key, lines]) => ({ key, ids: new Set(lines.map((line) => line.job_id)) }))
    .filter(({ ids }) => ids.size > 1)
    .map(({ key, ids }) => `${ids.size} jobs share the idempotency key ${key}`);
}

function count({ history, jobs, attempts, record, runs }: Evidence): Counts {
  const outcomes = Map.groupBy(history, ({ outcome }) => outcome);
  const unknown = outcomes.get('unknown') ?? [];
  const refs = new Set([...jobs.filter(wasRequested), ...runs].map(refOf));
  const starts = record.filter(({ phase }) => phase === 'start');
  const sum = (expected: readonly string[]): number =>
    attempts.filter(({ status }) => expected.includes(status)).length;
  return {
    acknowledged: outcomes.get('acknowledged')?.length ?? 0,
    refused: outcomes.get('refused')?.length ?? 0,
    unknown: unknown.length,
    recovered: unknown.filter(({ ref }) => refs.has(ref)).length,
    jobs: jobs.length,
    repeated: starts.length - new Set(starts.map((line) => line.job_id)).size,
    crashed: sum(['crashed']),
    released: sum(['released']),
    failed: sum(failures),
    runs: runs.length,
    ticks: jobs.filter(({ scheduleId }) => scheduleId !== null).length,
  };
}
