import { limits } from '../base/limits.ts';
import type { Engine } from '../engine/engine.ts';
import type { Job } from '../job/job.ts';
import { isTerminal } from '../job/state.ts';
import type { Branch } from '../pipeline/run.ts';

const LOOK_MS = 20;
/** What nobody takes up for so long waits for something else: a limit, a pause, its turn. */
const STALL_MS = 2000;

/**
 * Resolves when all that follows from a job has been done, as far as it can be done now: what is to be
 * tried again later, and runs that wait for people, signals or times, are left as they are.
 */
export async function workOff(engine: Engine, rootJobId: string, ms: number): Promise<void> {
  const until = performance.now() + ms;
  let [known, since] = ['', performance.now()];
  while (performance.now() < until) {
    const open = await findOpen(engine, rootJobId);
    if (open.length === 0) return;
    const seen = open.join(' ');
    const isMoving = seen !== known || open.some((one) => one.startsWith('running '));
    if (isMoving) [known, since] = [seen, performance.now()];
    else if (performance.now() - since > STALL_MS) return;
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
  }
}

/** What is being done or could be, each with its state. */
async function findOpen({ ledger }: Engine, rootJobId: string): Promise<string[]> {
  const [jobs, runs] = await Promise.all([
    ledger.jobs({ rootJobId, status: ['queued', 'running'], limit: limits.pageRowsMax }),
    ledger.runs({ rootJobId, status: ['queued', 'running'], limit: limits.pageRowsMax }),
  ]);
  const branches = await Promise.all(
    runs.map(({ id: runId }) => ledger.branches({ runId, open: true, limit: limits.pageRowsMax })),
  );
  return [
    ...jobs.filter(isDue).map(({ id, status }) => `${status} ${id}`),
    ...runs.filter(({ status }) => status === 'queued').map(({ id }) => `queued ${id}`),
    ...branches
      .flat()
      .filter(isMoved)
      .map(({ id, moves }) => `advancing ${id} ${moves}`),
  ];
}

function isDue({ status, nextRetryAt }: Job): boolean {
  return !isTerminal(status) && nextRetryAt === null;
}

function isMoved({ status }: Branch): boolean {
  return status === 'advancing';
}
