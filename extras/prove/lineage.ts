import type { Timestamp } from '../../src/base/clock.ts';
import type { Job } from '../../src/job/job.ts';
import type { Ledger } from '../../src/ledger/ledger.ts';
import type { Run } from '../../src/pipeline/run/run.ts';
import type { TestUnit } from './test-plan.ts';

/** Everything that followed from one request. */
export interface Lineage {
  readonly jobs: readonly Pick<
    Job,
    'id' | 'plugin' | 'command' | 'status' | 'stepId' | 'idempotencyKey' | 'lastError'
  >[];
  readonly runs: readonly Pick<
    Run,
    'id' | 'pipeline' | 'status' | 'haltedAtStep' | 'haltMessage'
  >[];
}

/** Limit of the jobs that one request may cause in a rehearsal. */
export const LINEAGE_MAX = 500;

/** Finds the root job of a run or a job. */
export async function findRoot(ledger: Ledger, id: string): Promise<string | undefined> {
  return ((await ledger.runs.find(id)) ?? (await ledger.jobs.find(id)))?.rootJobId;
}

export async function hasLineageEnded(ledger: Ledger, rootJobId: string): Promise<boolean> {
  const runs = await ledger.runs.list({ rootJobId, status: ['queued', 'running'], limit: 1 });
  if (runs.length > 0) return false;
  const jobs = await ledger.jobs.list({ rootJobId, status: ['queued', 'running'], limit: 1 });
  return jobs.length === 0;
}

export async function readLineage(ledger: Ledger, rootJobId: string): Promise<Lineage> {
  const [jobs, runs] = await Promise.all([
    ledger.jobs.list({ rootJobId, limit: LINEAGE_MAX }),
    ledger.runs.list({ rootJobId, limit: LINEAGE_MAX }),
  ]);
  return { jobs, runs };
}

/** Describes the outcome without ids and times: equal texts mean equal outcomes. */
export function outcomeOf({ jobs, runs }: Lineage): string {
  const lines = [
    ...runs.map(({ pipeline, status, haltedAtStep }) =>
      `${pipeline} ${status} ${haltedAtStep ?? ''}`.trim(),
    ),
    ...jobs.map(({ plugin, command, stepId, status }) =>
      `${stepId ?? '-'} ${plugin}.${command} ${status}`.trim(),
    ),
  ];
  return lines.toSorted().join('\n');
}

/** Lists the jobs or runs of a unit that requests started since a time. */
export async function readRoots(
  ledger: Ledger,
  { name, target }: TestUnit,
  since: Timestamp,
): Promise<string[]> {
  const limit = LINEAGE_MAX;
  const roots: string[] = [];
  for (let beforeSeq = Number.MAX_SAFE_INTEGER; ;) {
    const page = { limit, beforeSeq };
    const rows =
      target === undefined
        ? await ledger.runs.list({ pipeline: name, ...page })
        : await ledger.jobs.list({ ...target, submittedBy: 'cli', from: since, ...page });
    const fresh = rows.filter(({ createdAt }) => createdAt >= since);
    // Leave out work that events and other jobs started.
    const own = fresh.filter((row) => row.parentJobId === null && row.submittedBy === 'cli');
    roots.push(...own.map(({ id }) => id));
    if (fresh.length < limit) return roots;
    beforeSeq = fresh.at(-1)?.seq ?? 0;
  }
}
