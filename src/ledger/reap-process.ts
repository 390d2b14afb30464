import { releaseDirective } from '../directive/deferred.sql.ts';
import { closeDirective } from '../directive/directive.sql.ts';
import { deleteProcess, isProcessAlive } from '../job/process.sql.ts';
import { settleClosings } from '../job/settle.sql.ts';
import { releaseProcessBranches } from '../pipeline/run/claim-branch.sql.ts';
import { noRunEvents } from '../pipeline/run/changes.ts';
import type { ReapRequest, Settlement } from './commit.ts';
import type { Transaction } from './dialect.ts';

/**
 * Closes what a dead process left: jobs, directives and branches of runs. It confirms under a lock
 * that the heartbeat is stale. A concurrent heartbeat waits and then finds its row gone.
 */
export async function reapProcess(tx: Transaction, request: ReapRequest): Promise<Settlement> {
  const { processId, staleMs, closings, directives = [], released = [] } = request;
  if (await isProcessAlive(tx, processId, staleMs)) {
    const verdicts = new Map(closings.map(({ job }) => [job.id, 'fenced' as const]));
    return { verdicts, enqueued: [], runEvents: noRunEvents, claimed: [] };
  }
  const settled = await settleClosings(tx, closings);
  for (const closing of directives) await closeDirective(tx, closing);
  for (const directive of released) await releaseDirective(tx, directive);
  await releaseProcessBranches(tx, processId, true);
  await releaseProcess(tx, processId);
  return { ...settled, claimed: [] };
}

/** Releases what a process has that stops, and deletes its row. */
export async function releaseProcess(tx: Transaction, processId: string): Promise<void> {
  await releaseProcessBranches(tx, processId, false);
  await deleteProcess(tx, processId);
}
