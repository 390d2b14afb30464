/** A thread that works on the same ledger as others, as fast as possible. */
import { noRules } from '../../../src/ledger/rules.ts';
import { parentPort, workerData } from 'node:worker_threads';
import type { ClaimedJob } from '../../../src/job/types.ts';
import type { Closing } from '../../../src/ledger/commit.ts';
import type { Ledger } from '../../../src/ledger/ledger.ts';
import { openLedger, type LedgerLocation } from '../../../src/ledger/open.ts';
import { beat, claimable, draft, lenient, release, request, strict, succeed } from './drafts.ts';

export interface Race {
  readonly place: LedgerLocation;
  readonly name: string;
  readonly rounds: number;
  readonly parallelism: number;
}

export interface RaceResult {
  readonly name: string;
  /** Keys whose job this thread added, with the job. */
  readonly added: readonly (readonly [string, string])[];
  readonly succeeded: readonly string[];
  readonly fenced: number;
  /** Maximum of concurrently running jobs. */
  readonly runningMax: number;
  /** Maximum of concurrently running jobs with the dependency key. */
  readonly inTurnMax: number;
}

const { place, name, rounds, parallelism } = workerData as Race;
const ledger = await openLedger(place, noRules);
parentPort?.postMessage(await race(ledger), []);
await ledger.close();

async function race(on: Ledger): Promise<RaceResult> {
  await on.processes.heartbeat(beat(name));
  const added: [string, string][] = [];
  const succeeded: string[] = [];
  let [fenced, runningMax, inTurnMax, idle] = [0, 0, 0, 0];
  for (let round = 0; idle < 3; round += 1) {
    if (round < rounds) added.push(...(await enqueueRound(on, round)));
    const plugins = [claimable('echo', { parallelism })];
    const claimed = await on.jobs.claim(request(name, { slots: 3, plugins }));
    const running = await on.jobs.list({ status: ['running'], limit: 100 });
    runningMax = Math.max(runningMax, running.length);
    const inTurn = running.filter(({ dependencyKey }) => dependencyKey !== null);
    inTurnMax = Math.max(inTurnMax, inTurn.length);
    const { verdicts } = await on.jobs.settle(claimed.map((job) => conclude(job, round)));
    for (const [id, verdict] of verdicts) {
      if (verdict === 'fenced') fenced += 1;
      else if (claimed.some((job) => job.id === id && job.attempt > 1)) succeeded.push(id);
    }
    const { ready, running: left } = await on.jobs.countQueue();
    idle = round >= rounds && ready + left === 0 ? idle + 1 : 0;
  }
  return { name, added, succeeded, fenced, runningMax, inTurnMax };
}

/** Enqueues jobs with keys that all threads share, and jobs that must run in sequence. */
async function enqueueRound(on: Ledger, round: number): Promise<[string, string][]> {
  const key = `shared ${round}`;
  const jobs = [
    draft({ dedupe: strict(key) }),
    draft({ dedupe: lenient('one by one', 0) }),
    draft({ dependencyKey: 'in turn' }),
  ];
  const [result] = await on.jobs.enqueue({ jobs });
  return result?.duplicateOf === undefined && result !== undefined ? [[key, result.jobId]] : [];
}

/** Releases the first attempt; lets the second succeed and write to the state. */
function conclude(job: ClaimedJob, round: number): Closing {
  if (job.attempt === 1) return release(job);
  const value = JSON.stringify({ [`${name} ${round} ${job.id}`]: 1 });
  if (round % 2 === 0) return succeed(job, { state: { kind: 'merge', value } });
  return succeed(job, { state: { kind: 'snapshot', factType: 'f', mirror: false, value } });
}
