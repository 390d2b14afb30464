import type { Attempt } from '../../src/job/attempt.ts';
import type { AcceptedRequest } from './client.ts';
import { outcomeOf, type Lineage } from './lineage.ts';
import type { RecordLine } from './stub-record.ts';
import type { Kill } from './supervisor.ts';

/** Evidence from three sources: the accepted requests, the record of the stubs, and the ledger. */
export interface Evidence {
  readonly requests: readonly AcceptedRequest[];
  /** By the id of the request; undefined if the work is missing or never ended. */
  readonly lineages: ReadonlyMap<string, Lineage | undefined>;
  /** Outcome of each unit without kills. */
  readonly baseline: ReadonlyMap<string, string>;
  readonly attempts: readonly Pick<Attempt, 'jobId' | 'attempt' | 'status'>[];
  readonly record: readonly RecordLine[];
  /** Runs and jobs that no request explains. */
  readonly strays: readonly string[];
}

export interface Violations {
  readonly lost: readonly string[];
  readonly twice: readonly string[];
  readonly different: readonly string[];
  /** Attempts that were repeated because the one before was interrupted. */
  readonly repeated: number;
}

/** Checks that all accepted work was done exactly once, with the same outcome as without kills. */
export function findViolations(evidence: Evidence): Violations {
  const { requests, lineages, baseline, record } = evidence;
  const lost: string[] = [];
  const different: string[] = [];
  for (const { unit, id } of requests) {
    const lineage = lineages.get(id);
    if (lineage === undefined) lost.push(`${unit} was accepted as ${id} and did not finish`);
    else if (outcomeOf(lineage) !== baseline.get(unit))
      different.push(
        `${unit} (${id}) ended differently than without kills: ${describeFailure(lineage)}`,
      );
  }
  const starts = record.filter(({ phase }) => phase === 'start');
  return {
    lost,
    different,
    twice: [...evidence.strays.map((id) => `${id} was not requested`), ...findTwice(evidence)],
    repeated: starts.length - new Set(starts.map((line) => line.job_id)).size,
  };
}

function findTwice({ attempts, record, lineages }: Evidence): string[] {
  const found: string[] = [];
  const commits = attempts.filter(({ status }) => status === 'succeeded');
  for (const [jobId, same] of Map.groupBy(commits, (attempt) => attempt.jobId))
    if (same.length > 1) found.push(`${jobId} succeeded ${same.length} times`);
  const starts = record.filter(({ phase }) => phase === 'start');
  const startsByAttempt = Map.groupBy(
    starts,
    (line) => `attempt ${line.attempt} at ${line.job_id}`,
  );
  for (const [name, same] of startsByAttempt)
    if (same.length > 1) found.push(`${name} was started ${same.length} times`);
  // A later attempt after a settled success would do the work a second time.
  const succeededAt = new Map(commits.map(({ jobId, attempt }) => [jobId, attempt]));
  for (const { job_id: jobId, attempt } of starts) {
    const last = succeededAt.get(jobId);
    if (last !== undefined && attempt > last) found.push(`${jobId} was run after it had succeeded`);
  }
  const jobs = [...lineages.values()].flatMap((lineage) => lineage?.jobs ?? []);
  for (const [key, same] of Map.groupBy(jobs, (job) => job.idempotencyKey))
    if (same.length > 1) found.push(`${same.length} jobs do the work ${key}`);
  return found;
}

function describeFailure({ jobs, runs }: Lineage): string {
  const halted = runs.find(({ haltMessage }) => haltMessage !== null);
  const failed = jobs.find(({ lastError, status }) => lastError !== null && status !== 'succeeded');
  const reason = halted?.haltMessage ?? failed?.lastError ?? 'other steps ran';
  return reason.slice(0, 300);
}

export interface Spread {
  readonly n: number;
  readonly p50: number;
  readonly p99: number;
  readonly max: number;
}

/**
 * Measures recovery: from a kill to the first plugin process that starts after it. If a plugin was
 * killed, only its own job counts. A kill that another one follows before the recovery isn't
 * counted, nor is one after which nothing was left to do.
 */
export function recoveryOf(
  kind: Kill['kind'],
  kills: readonly Kill[],
  record: readonly RecordLine[],
): Spread | null {
  const starts = record
    .filter(({ phase }) => phase === 'start')
    .toSorted((a, b) => a.born - b.born);
  const processKills = kills.filter((kill) => kill.kind !== 'plugin');
  const samples = kills
    .filter((kill) => kill.kind === kind)
    .flatMap(({ atMs, jobId }) => {
      const next = starts.find(
        (line) => line.born > atMs && (jobId === undefined || line.job_id === jobId),
      );
      if (next === undefined) return [];
      if (processKills.some((other) => other.atMs > atMs && other.atMs < next.born)) return [];
      return [Math.round(next.at - atMs)];
    });
  return samples.length === 0 ? null : spreadOf(samples);
}

function spreadOf(samples: readonly number[]): Spread {
  const sorted = samples.toSorted((a, b) => a - b);
  const at = (share: number): number => sorted[Math.ceil(sorted.length * share) - 1] ?? 0;
  return { n: sorted.length, p50: at(0.5), p99: at(0.99), max: at(1) };
}
