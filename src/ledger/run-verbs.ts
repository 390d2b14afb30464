import type { Store, Transaction } from './dialect.ts';
import type { EnqueueBatch } from './commit.ts';
import type { Ledger } from './ledger.ts';
import { advanceBranch, claimBranches, prepareJoin } from '../pipeline/run/advance.sql.ts';
import { releaseBranch } from '../pipeline/run/advance-release.sql.ts';
import { enqueue } from '../job/enqueue.sql.ts';
import {
  findRun,
  listAdvancements,
  listBranches,
  listPauses,
  listQuestions,
  listRuns,
  listSteps,
  listWaitedSignals,
  rememberDefinitions,
} from '../pipeline/run/run.sql.ts';
import { beginRuns } from '../pipeline/run/start.sql.ts';
import { requireQueueRoom } from '../job/queue.sql.ts';
import { refusesRewind } from '../pipeline/run/retry-from.sql.ts';
import { areAwaited } from '../signal/signal.sql.ts';
import { findGraph, readBase, readContext } from '../pipeline/run/load-branch.sql.ts';
import { findStepSignal } from '../pipeline/run/step-event.sql.ts';
import type { RunVerbs } from '../pipeline/run/types.ts';

/** And those by which they begin, alone or with what else comes in. */
export function makeRunVerbs({
  find,
  read,
  write,
}: Store): Omit<RunVerbs, 'followHalts' | 'openSignals'> & Pick<Ledger, 'enqueue' | 'startRuns'> {
  return {
    enqueue: (batch) =>
      write(['enqueue'], async (tx) => {
        await requireRoom(tx, batch);
        const enqueued = await enqueue(tx, batch);
        await beginRuns(tx, batch.runs ?? []);
        return enqueued;
      }),
    startRuns: (batch) =>
      write(['enqueue'], async (tx) => {
        await requireRoom(tx, batch);
        const jobs = await enqueue(tx, batch);
        const { news, runs } = await beginRuns(tx, batch.runs ?? []);
        const advancing = news.advancing || (await areAwaited(tx, batch.signals ?? []));
        return { ...news, advancing, jobs, runs };
      }),
    rememberDefinitions: (graphs) => write(['other'], (tx) => rememberDefinitions(tx, graphs)),
    claimBranches: (request) => write(['other'], (tx) => claimBranches(tx, request)),
    async advance(request) {
      const join = await read((session) => prepareJoin(session, request));
      return write(['advance'], (tx) => advanceBranch(tx, request, join));
    },
    releaseBranch: (request) => write(['other'], (tx) => releaseBranch(tx, request)),
    basePayload: (key) => find((session) => readBase(session, key)),
    stepSignal: (place) => find((session) => findStepSignal(session, place)),
    definition: (hash) => find((session) => findGraph(session, hash)),
    run: (id) => find((session) => findRun(session, id)),
    contextOf: (id) => find((session) => readContext(session, id)),
    runs: (filter) => read((session) => listRuns(session, filter)),
    branches: (filter) => read((session) => listBranches(session, filter)),
    steps: (filter) => read((session) => listSteps(session, filter)),
    waitedSignals: (runId) => read((session) => listWaitedSignals(session, runId)),
    questions: (runIds) => read((session) => listQuestions(session, runIds)),
    pauses: (runIds) => read((session) => listPauses(session, runIds)),
    advancements: (runId, limit) => read((session) => listAdvancements(session, runId, limit)),
    refusesRewind: (runId, step) => read((session) => refusesRewind(session, runId, step)),
  };
}

async function requireRoom(
  tx: Transaction,
  { queueLimit, jobs, runs = [] }: EnqueueBatch,
): Promise<void> {
  if (queueLimit !== undefined) await requireQueueRoom(tx, queueLimit, jobs.length + runs.length);
}
