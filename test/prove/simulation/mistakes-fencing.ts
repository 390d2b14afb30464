/** Mistakes in the fencing of hosts: deadlines, heartbeats, and the right to reap. */
import { noConsequences } from '../../../src/pipeline/follow-job.ts';
import { createBareReport } from '../../../src/job/attempt.ts';
import { endAsCrashed } from '../../../src/job/outcome.ts';
import type { Job } from '../../../src/job/job.ts';
import type { Closing } from '../../../src/ledger/commit.ts';
import { overlayLedger, type Ledger } from '../../../src/ledger/ledger.ts';
import type { Spawner } from './spawner.ts';
import { CRASHES_MAX, HEARTBEAT_MS, REAP_AFTER_MS } from './world-setup.ts';
import type { Mistake } from './world.ts';

export const mistakesInFencing: Readonly<Record<string, Mistake>> = {
  'a spawner that ignores its deadline': renews(() => undefined),
  'a fence that comes later than the reaper': renews((ms) => ms + 2 * HEARTBEAT_MS),
  'a deadline that is renewed once and then believed': renews(onlyFirst()),
  'plugins that are started after the deadline': {
    spoil: (ledger, { spawner }) => {
      spawner.refusesLate = false;
      return ledger;
    },
  },
  'a heartbeat that is believed without its commit': beats((ledger) => async (beat) => {
    const silence = { known: true, running: [] };
    return await ledger.processes.heartbeat(beat).catch(() => silence);
  }),
  'a host that is well as soon as it is back': beats((ledger) => async (beat) => {
    const answer = await ledger.processes.heartbeat(beat);
    await reapAll(ledger, beat.id).catch(() => undefined);
    return answer;
  }),
};

/** The changed deadline; undefined for none. */
type Renewal = (ms: number, spawner: Spawner) => number | undefined;

function renews(change: Renewal): Mistake {
  return {
    spoil: (ledger, { spawner }) => {
      const renew = spawner.renew.bind(spawner);
      spawner.renew = (ms) => {
        const other = change(ms, spawner);
        if (other !== undefined) renew(other);
      };
      return ledger;
    },
  };
}

function onlyFirst(): Renewal {
  const renewed = new WeakSet<Spawner>();
  return (ms, spawner) => {
    if (renewed.has(spawner)) return undefined;
    renewed.add(spawner);
    return ms;
  };
}

function beats(change: (ledger: Ledger) => Ledger['processes']['heartbeat']): Mistake {
  return { spoil: (ledger) => overlayLedger(ledger, { processes: { heartbeat: change(ledger) } }) };
}

async function reapAll(ledger: Ledger, self: string): Promise<void> {
  const staleMs = REAP_AFTER_MS;
  for (const { processId, jobs } of await ledger.processes.listOrphans({ self, staleMs })) {
    await ledger.processes.reap({ processId, staleMs, closings: jobs.map(crashed) });
  }
}

function crashed(job: Job): Closing {
  return {
    job,
    claimToken: job.claimToken,
    report: createBareReport('crashed', 'engine_crash', 'it is silent'),
    ending: endAsCrashed(job, false, { crashesMax: CRASHES_MAX, suspectAfter: CRASHES_MAX }),
    ...noConsequences(),
  };
}
