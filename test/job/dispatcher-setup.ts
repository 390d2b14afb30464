import type { CommitEvents } from '../../src/engine/commit-events.ts';
import { unlimited } from '../../src/tenant/quota.service.ts';
import { makeContext } from '../support/context.ts';
import { expect, vi } from 'vitest';
import { DuctileError } from '../../src/base/errors.ts';
import { Dispatcher } from '../../src/job/dispatcher.service.ts';
import type { Generation } from '../../src/engine/generation.ts';
import type { WrittenSettlement } from '../../src/job/settle.service.ts';
import { makeSlotPool } from '../../src/job/slots.service.ts';
import { createBareReport } from '../../src/job/attempt.ts';
import { endAsReleased } from '../../src/job/outcome.ts';
import type { ClaimedJob, ClaimRequest } from '../../src/job/types.ts';
import type { Closing } from '../../src/ledger/commit.ts';
import { noRunEvents } from '../../src/pipeline/run/changes.ts';
import { makeClaimedJob } from '../support/claimed-job.ts';

const generation = {
  number: 1,
  snapshotId: 'snapshot',
} as Generation;

/** A ledger and processes whose responses come from the test. */
export class World {
  readonly rounds: { ends: string[]; causes: string[]; slots: number; atMs: number }[] = [];
  readonly published: CommitEvents[] = [];
  slots: number;
  /** The most jobs that may run in the whole ledger. */
  most: number | undefined;
  readonly ends = new Map<string, () => void>();
  readonly stops: string[] = [];
  queue: string[] = [];
  mayStart = true;
  down = false;
  /** Returned with each settlement: whether no later commit exists. */
  isLatest: (() => boolean) | undefined;
  /** Called while a settlement is in progress. */
  onSettle: (claim: ClaimRequest | undefined) => void = () => undefined;
  readonly dispatcher: Dispatcher;

  constructor(slots: number) {
    this.slots = slots;
    const quota = { ...unlimited, workers: () => this.most };
    const context = makeContext({ quota, generation });
    context.commits.subscribe((events) => this.published.push(events));
    this.dispatcher = new Dispatcher(
      context,
      { settle: (closings, claim) => this.#settle(closings, claim) },
      makeSlotPool(() => this.slots),
      { plugins: () => [], mayStart: () => this.mayStart },
      (job, signal) => this.#execute(job, signal),
    );
  }

  #settle(
    closings: readonly Closing[],
    claim: ClaimRequest | undefined,
  ): Promise<WrittenSettlement> {
    const slots = claim?.slots ?? 0;
    const ends = closings.map(({ job }) => job.id);
    const causes = closings.map(({ report }) => report.cause);
    this.rounds.push({ ends, causes, slots, atMs: Date.now() });
    this.onSettle(claim);
    if (this.down) return Promise.reject(new DuctileError('LEDGER_UNAVAILABLE', 'away'));
    const claimed = this.queue
      .splice(0, slots)
      .map((id) => makeClaimedJob({ id, claimToken: claim?.token ?? '' }));
    return Promise.resolve({
      verdicts: new Map(),
      enqueued: [],
      claimed,
      written: closings,
      runEvents: noRunEvents,
      isLatest: this.isLatest,
    });
  }

  #execute(job: ClaimedJob, signal: AbortSignal): Promise<Closing> {
    signal.addEventListener('abort', () => this.stops.push(`${job.id} ${String(signal.reason)}`));
    return new Promise((resolve) => {
      const report = createBareReport('released', 'shutdown', 'stopped');
      const closing = { job, claimToken: job.claimToken, report, ending: endAsReleased(job) };
      const end = (): void => resolve({ ...closing, signals: [], jobs: [] });
      this.ends.set(job.id, end);
      if (signal.aborted) end();
    });
  }

  get running(): string[] {
    return this.dispatcher.running.map(({ id }) => id);
  }
}

/** Runs the timers that are due now. */
export function soon(): Promise<unknown> {
  return vi.advanceTimersByTimeAsync(0);
}

/** A single slot whose first attempt took a millisecond: `a` has ended, `b` runs, `c` waits. */
export async function makeAhead(): Promise<World> {
  const world = new World(1);
  world.queue = ['a', 'b', 'c', 'd'];
  world.dispatcher.startClaiming();
  await soon();
  await vi.advanceTimersByTimeAsync(1);
  world.ends.get('a')?.();
  await soon();
  expect(world.rounds.at(-1)).toMatchObject({ ends: ['a'], slots: 2 });
  return world;
}
