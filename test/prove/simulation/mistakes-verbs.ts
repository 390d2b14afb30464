/** Mistakes around the ledger's verbs, in the engine's use of them, and in the start of plugins. */
import { makeId } from '../../../src/base/ids.ts';
import type { Ending } from '../../../src/job/outcome.ts';
import type { ClaimedJob, ClaimRequest } from '../../../src/job/types.ts';
import type { Closing } from '../../../src/ledger/commit.ts';
import { overlayLedger, type Ledger, type LedgerOverlay } from '../../../src/ledger/ledger.ts';
import { noRunEvents } from '../../../src/pipeline/run/changes.ts';
import type { Mistake } from './world.ts';

type Verbs = LedgerOverlay;

function verbs(change: (ledger: Ledger) => Verbs): Mistake {
  return { spoil: (ledger) => overlayLedger(ledger, change(ledger)) };
}

/** Changes the ends of attempts. */
function ends(change: (closing: Closing) => Closing): Mistake {
  return verbs((ledger) => ({
    jobs: {
      settle: (closings, claim) => ledger.jobs.settle(closings.map(change), claim),
    },
  }));
}

function ending(change: (closing: Closing) => Partial<Ending>): Mistake {
  return ends((closing) => ({ ...closing, ending: { ...closing.ending, ...change(closing) } }));
}

function claims(change: (claim: ClaimRequest) => ClaimRequest): Mistake {
  return verbs((ledger) => ({
    jobs: {
      settle: (closings, claim) => ledger.jobs.settle(closings, claim && change(claim)),
    },
  }));
}

function claimed(change: (jobs: readonly ClaimedJob[]) => readonly ClaimedJob[]): Mistake {
  return verbs((ledger) => ({
    jobs: {
      async settle(closings, claim) {
        const settlement = await ledger.jobs.settle(closings, claim);
        return { ...settlement, claimed: change(settlement.claimed) };
      },
    },
  }));
}

function reaps(change: (closing: Closing) => Closing): Mistake {
  return verbs((ledger) => ({
    processes: {
      reap: (request) =>
        ledger.processes.reap({ ...request, closings: request.closings.map(change) }),
    },
  }));
}

const acceptance: Readonly<Record<string, Mistake>> = {
  'an answer before the commit': verbs((ledger) => ({
    jobs: {
      enqueue: (batch) => {
        ledger.jobs.enqueue(batch).catch(() => undefined);
        return Promise.resolve(batch.jobs.map(({ id }) => ({ jobId: id })));
      },
    },
  })),
  'an answer although the commit failed': verbs((ledger) => ({
    jobs: {
      enqueue: (batch) =>
        ledger.jobs.enqueue(batch).catch(() => batch.jobs.map(({ id }) => ({ jobId: id }))),
    },
  })),
  'a run that is answered although it failed': verbs((ledger) => ({
    runs: {
      start: (batch) =>
        ledger.runs.start(batch).catch(() => ({
          ...noRunEvents,
          jobs: [],
          runs: (batch.runs ?? []).map(({ id }) => ({ runId: id, status: 'running' as const })),
        })),
    },
  })),
  'an id of our own for what has one': verbs((ledger) => ({
    jobs: {
      async enqueue(batch) {
        const jobs = batch.jobs.map((job) => ({ ...job, id: makeId() }));
        await ledger.jobs.enqueue({ ...batch, jobs });
        return batch.jobs.map(({ id }) => ({ jobId: id }));
      },
    },
  })),
  'keys that are not looked at': verbs((ledger) => ({
    jobs: {
      enqueue: (batch) =>
        ledger.jobs.enqueue({
          ...batch,
          jobs: batch.jobs.map((job) =>
            job.dedupe ? { ...job, dedupe: { ...job.dedupe, blockInFlight: false } } : job,
          ),
        }),
    },
  })),
};

const settling: Readonly<Record<string, Mistake>> = {
  'signals that are lost': ends((closing) => ({ ...closing, signals: [] })),
  'jobs that do not follow': ends((closing) => ({ ...closing, jobs: [] })),
  'a state that is lost': ends(({ job, claimToken, report, ending: end, signals, jobs }) => ({
    job,
    claimToken,
    report,
    ending: end,
    signals,
    jobs,
  })),
  'signals that come after the commit': verbs((ledger) => ({
    jobs: {
      async settle(closings, claim) {
        const bare = closings.map((closing) => ({ ...closing, signals: [], jobs: [] }));
        const settlement = await ledger.jobs.settle(bare, claim);
        const signals = closings.flatMap((closing) => closing.signals);
        const jobs = closings.flatMap((closing) => closing.jobs);
        if (signals.length > 0) await ledger.jobs.enqueue({ signals, jobs });
        return settlement;
      },
    },
  })),
  'a failure that counts as a success': ending(({ ending: { status } }) =>
    status === 'dead' ? { status: 'succeeded', reason: null } : {},
  ),
  'a failure that is not charged': ending(({ job }) => ({ retryCount: job.retryCount })),
  'a shutdown that is charged': ending(({ job, report }) =>
    report.status === 'released' ? { retryCount: job.retryCount + 1 } : {},
  ),
  'retries without end': ending(({ ending: { status } }) =>
    status === 'dead' || status === 'timed_out' ? { status: 'queued', reason: null } : {},
  ),
  'the token of somebody else': ends((closing) => ({ ...closing, claimToken: 'another' })),
  'ends that are believed without being written': verbs((ledger) => ({
    jobs: {
      async settle(closings, claim) {
        const settlement = await ledger.jobs.settle([], claim);
        const verdicts = new Map(closings.map(({ job }) => [job.id, 'settled' as const]));
        return { ...settlement, verdicts };
      },
    },
    processes: {
      heartbeat: async (beat) => ({ ...(await ledger.processes.heartbeat(beat)), running: [] }),
    },
  })),
};

const claiming: Readonly<Record<string, Mistake>> = {
  'claims beyond what may run at once': claims((claim) => ({
    ...claim,
    plugins: claim.plugins.map((plugin) => ({ ...plugin, parallelism: 100 })),
  })),
  'claims that last for no time': claims((claim) => ({
    ...claim,
    plugins: claim.plugins.map((plugin) => ({
      ...plugin,
      leaseMs: {},
      leaseDefaultMs: 0,
    })),
  })),
  'one token for all claims': claims((claim) => ({ ...claim, token: 'always the same' })),
  'claims that are begun twice': claimed((jobs) => [
    ...jobs,
    ...jobs.map((job) => ({ ...job, claimToken: `${job.claimToken} ` })),
  ]),
  'claims that have lost count': claimed((jobs) =>
    jobs.map((job) => ({ ...job, attempt: job.attempt + 1 })),
  ),
  'a state from before': claimed((jobs) => jobs.map((job) => ({ ...job, state: '{}' }))),
};

const dying: Readonly<Record<string, Mistake>> = {
  'processes that outlive their engine': {
    spoil: (ledger, { spawner }) => {
      spawner.die = () => undefined;
      return ledger;
    },
  },
  'a fleet that is dead when one starts': {
    spoil: (ledger) => ({ ...ledger, kind: 'sqlite' }),
  },
  'a patience that is too short': verbs((ledger) => ({
    processes: {
      listOrphans: (request) =>
        ledger.processes.listOrphans({ ...request, staleMs: request.staleMs / 4 }),
      reap: (request) => ledger.processes.reap({ ...request, staleMs: request.staleMs / 4 }),
    },
  })),
  'the dead that nobody finds': verbs(() => ({
    processes: { listOrphans: () => Promise.resolve([]) },
  })),
  'the dead whose jobs stay with them': verbs((ledger) => ({
    processes: {
      reap: (request) => ledger.processes.reap({ ...request, closings: [] }),
    },
  })),
  'a crash that is charged as a failure': reaps((closing) => ({
    ...closing,
    ending: { ...closing.ending, retryCount: closing.ending.retryCount + 1 },
  })),
  'crashes without end': reaps((closing) => ({
    ...closing,
    ending: { ...closing.ending, status: 'queued', reason: null, delayMs: 0 },
  })),
};

const timing: Readonly<Record<string, Mistake>> = {
  'schedules that fire twice': verbs((ledger) => ({
    schedules: {
      fire: (request) =>
        ledger.schedules.fire({
          ...request,
          firings: request.firings.map((firing) =>
            firing.act.kind === 'fire'
              ? { ...firing, act: { ...firing.act, jobs: firing.act.jobs.flatMap(twice) } }
              : firing,
          ),
        }),
    },
  })),
  'schedules that nobody looks at': verbs((ledger) => ({
    schedules: {
      listDue: async (request) => ({ ...(await ledger.schedules.listDue(request)), due: [] }),
    },
  })),
  'delayed jobs that nobody looks at': verbs(() => ({
    jobs: {
      promote: () => Promise.resolve({ promoted: 0, nextInMs: undefined }),
    },
  })),
};

export const mistakesInVerbs = { ...settling, ...claiming, ...timing, ...acceptance, ...dying };

function twice<T extends { readonly schedule?: { readonly id: string; readonly slot: string } }>(
  job: T,
): T[] {
  const { schedule } = job;
  if (schedule === undefined) return [job];
  return [job, { ...job, id: makeId(), schedule: { ...schedule, slot: `${schedule.slot}b` } }];
}
