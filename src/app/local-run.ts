import { fromTimestamp, type Timestamp } from '../base/clock.ts';
import { limits } from '../base/limits.ts';
import type { Engine } from '../engine/engine.ts';
import { isTerminal, type Job } from '../job/job.ts';
import type { Branch } from '../pipeline/run/run.ts';

const LOOK_MS = 20;
/** How long is rested between two looks at something that takes its time. */
const LOOK_MS_MAX = 200;
/** What nobody takes up for so long waits for something else: a limit, a pause, its turn. */
const STALL_MS = 2000;
/** What is due so soon is not left for another time. */
const SOON_MS = 1000;

/**
 * Resolves when all that follows from a job has been done, as far as it can be done now: what is to be
 * tried again later, and runs that wait for people, signals or times, are left as they are.
 */
export async function workOff(
  engine: Engine,
  rootJobId: string,
  ms: number,
  over?: AbortSignal,
): Promise<void> {
  const until = performance.now() + ms;
  let [known, since, restMs] = ['', performance.now(), LOOK_MS];
  while (performance.now() < until) {
    if (over?.aborted === true) return;
    const open = await findOpen(engine, rootJobId);
    // What ends while it is looked at may have begun something else.
    if (open.length === 0 && (await findOpen(engine, rootJobId)).length === 0) return;
    const seen = open.join(' ');
    restMs = seen === known ? Math.min(2 * restMs, LOOK_MS_MAX) : LOOK_MS;
    // What runs here may be what the others wait for: the setting up of a plugin, or one of their key.
    const isMoving = seen !== known || isRunning(open) || engine.status().running.length > 0;
    if (isMoving) [known, since] = [seen, performance.now()];
    else if (performance.now() - since > STALL_MS) return;
    await new Promise((resolve) => setTimeout(resolve, restMs));
  }
}

function isRunning(open: readonly string[]): boolean {
  return open.some((one) => one.startsWith('running '));
}

/**
 * What is being done or could be, each with its state. Jobs are read last: what a branch waits for and is
 * not among them has ended meanwhile.
 */
async function findOpen({ ledger }: Engine, rootJobId: string): Promise<string[]> {
  const lineage = { rootJobId, status: ['queued', 'running'], limit: limits.pageRowsMax } as const;
  const runs = await ledger.runs.list(lineage);
  const branches = await Promise.all(
    runs.map(({ id: runId }) =>
      ledger.runs.listBranches({ runId, open: true, limit: limits.pageRowsMax }),
    ),
  );
  const jobs = await ledger.jobs.list(lineage);
  const known = new Set(jobs.map(({ id }) => id));
  const begun = runs.filter(({ status, dueAt }) => status === 'queued' && isSoon(dueAt));
  return [
    ...jobs.filter(isDue).map(({ id, status }) => `${status} ${id}`),
    ...begun.map(({ id }) => `queued ${id}`),
    ...branches
      .flat()
      .filter((branch) => isMoved(branch, known))
      .map(({ id, moves }) => `moving ${id} ${moves}`),
  ];
}

function isDue({ status, nextRetryAt }: Job): boolean {
  return !isTerminal(status) && isSoon(nextRetryAt);
}

/** Who waits without a time waits for its own branches, a signal or a person. */
function isMoved({ status, dueAt, claimedBy, jobId }: Branch, jobs: ReadonlySet<string>): boolean {
  if (claimedBy !== null) return true;
  if (status === 'running') return jobId !== null && !jobs.has(jobId);
  return (status === 'advancing' || dueAt !== null) && isSoon(dueAt);
}

function isSoon(at: Timestamp | null): boolean {
  return at === null || fromTimestamp(at) <= Date.now() + SOON_MS;
}
