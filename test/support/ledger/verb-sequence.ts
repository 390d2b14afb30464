/** Random sequences of calls, for which a ledger must return the same results as the model. */
import fc from 'fast-check';
import { expect } from 'vitest';
import { makeId, makeToken } from '../../../src/base/ids.ts';
import type { Job } from '../../../src/job/job.ts';
import type { Closing } from '../../../src/ledger/commit.ts';
import type { Ledger } from '../../../src/ledger/ledger.ts';
import { Model } from './model.ts';
import type { Raw } from './bench.ts';
import {
  beat,
  claimable,
  crash,
  draft,
  endAsCancelled,
  fail,
  lenient,
  release,
  request,
  retryLater,
  strict,
  succeed,
} from './drafts.ts';

/** Runs a sequence on an empty ledger, and compares it with the model regularly. */
export async function follow(
  place: Pick<World, 'ledger' | 'raw'>,
  sequence: readonly Action[],
): Promise<Model> {
  await clear(place.raw);
  const world: World = { ...place, model: new Model(), claimed: [] };
  const ended = new Map<string, string>();
  for (const [index, act] of sequence.entries()) {
    await act.run(world);
    if (index % 10 === 9) await verify(world, ended);
  }
  await verify(world, ended);
  return world.model;
}

const plugins = ['a', 'b', 'c'].map((name, index) => claimable(name, { parallelism: 1 + index }));
const processes = ['p1', 'p2'] as const;

const ends: Record<string, (job: Job) => Closing> = {
  succeed: (job) => succeed(job),
  fail: (job) => fail(job),
  retry: (job) => retryLater(job, 60_000),
  repeat: (job) => retryLater(job, 0),
  release,
  crash: (job) => crash(job),
  blame: (job) => crash(job, true),
  stop: endAsCancelled,
};

interface World {
  readonly ledger: Ledger;
  readonly raw: Raw;
  readonly model: Model;
  /** Every claimed job, including lost claims. */
  readonly claimed: Job[];
}

export interface Action {
  readonly [fc.toStringMethod]: () => string;
  readonly run: (world: World) => Promise<void>;
}

function action(name: string, run: Action['run']): Action {
  return { run, [fc.toStringMethod]: () => name };
}

const process = fc.constantFrom(...processes);
const nth = fc.nat(1000);

const enqueue = fc
  .record({
    plugin: fc.constantFrom('a', 'b', 'c', 'c', 'unknown'),
    dedupe: fc.option(fc.constantFrom(strict('x'), lenient('x'), lenient('y')), { nil: undefined }),
    dependencyKey: fc.option(fc.constantFrom('k', 'l'), { nil: undefined }),
  })
  .map(({ plugin, dedupe, dependencyKey }) =>
    action(`enqueue ${plugin} ${JSON.stringify([dedupe, dependencyKey])}`, async (world) => {
      const { ledger, model } = world;
      const jobDraft = draft({
        plugin,
        maxAttempts: 2,
        ...(dedupe === undefined ? {} : { dedupe }),
        ...(dependencyKey === undefined ? {} : { dependencyKey }),
      });
      const [result] = await ledger.jobs.enqueue({ jobs: [jobDraft] });
      expect(result).toEqual(model.enqueue(jobDraft));
    }),
  );

const claim = fc
  .record({ process, slots: fc.integer({ min: 1, max: 4 }) })
  .map(({ process: processId, slots }) =>
    action(`claim ${processId} ${slots}`, async ({ ledger, raw, model, claimed }) => {
      const claimRequest = request(processId, { slots, plugins });
      const isKeyed = model.jobs.some(({ dependencyKey }) => dependencyKey !== undefined);
      const rows = isKeyed ? await raw.run('select ready_at from job_queue order by seq') : [];
      for (const [index, row] of rows.entries()) {
        Object.assign(model.jobs[index] ?? {}, { readyAt: row['ready_at'] });
      }
      const found = await ledger.jobs.claim(claimRequest);
      expect(found.map(({ id }) => id)).toEqual(model.claim(claimRequest));
      claimed.push(...found);
    }),
  );

const settle = fc
  .record({ nth, how: fc.constantFrom(...Object.keys(ends)), isOwn: fc.boolean() })
  .map(({ nth: place, how, isOwn }) =>
    action(`settle ${place} ${how} ${isOwn}`, async ({ ledger, model, claimed }) => {
      const job = claimed[place % Math.max(1, claimed.length)];
      const end = ends[how];
      if (job === undefined || end === undefined) return;
      const closing = isOwn ? end(job) : { ...end(job), claimToken: makeToken() };
      const { verdicts } = await ledger.jobs.settle([closing]);
      expect([...verdicts]).toEqual([[job.id, model.settle(closing)]]);
    }),
  );

const cancel = nth.map((place) =>
  action(`cancel ${place}`, async ({ ledger, model }) => {
    const { jobs } = model;
    const id = jobs[place % Math.max(1, jobs.length)]?.id ?? makeId();
    expect(await ledger.jobs.cancel(id)).toBe(model.cancel(id));
  }),
);

const reap = process.map((processId) =>
  action(`reap ${processId}`, async ({ ledger, model }) => {
    const orphans = await ledger.processes.listOrphans({ self: 'nobody', staleMs: 0 });
    const jobs = orphans.find((orphan) => orphan.processId === processId)?.jobs ?? [];
    const running = model.jobs.filter(({ owner }) => owner === processId);
    expect(jobs.map(({ id }) => id)).toEqual(running.map(({ id }) => id));
    const closings = jobs.map((job) => (job.cancelRequestedAt ? endAsCancelled(job) : crash(job)));
    const { verdicts } = await ledger.processes.reap({ processId, staleMs: 0, closings });
    expect([...verdicts.values()]).toEqual(model.reap(processId, closings));
  }),
);

const live = process.map((processId) =>
  action(`live ${processId}`, async ({ ledger, model }) => {
    const { known, running } = await ledger.processes.heartbeat(beat(processId));
    expect(known).toBe(model.processes.has(processId));
    model.processes.add(processId);
    expect(running.map(({ jobId }) => jobId).toSorted()).toEqual(
      model.jobs
        .filter(({ owner }) => owner === processId)
        .map(({ id }) => id)
        .toSorted(),
    );
  }),
);

const pass = fc.constant(
  action('pass', async ({ ledger, raw, model }) => {
    const long = '2000-01-01T00:00:00.000Z';
    await raw.run('update job_queue set next_retry_at = ? where next_retry_at is not null', [long]);
    await raw.run('update job_dedupe set blocks_until = ? where blocks_until is not null', [long]);
    expect((await ledger.jobs.promote()).promoted).toBe(model.pass());
  }),
);

export const actions = fc.array(
  fc.oneof(
    { weight: 6, arbitrary: enqueue },
    { weight: 6, arbitrary: claim },
    { weight: 8, arbitrary: settle },
    { weight: 2, arbitrary: cancel },
    { weight: 1, arbitrary: reap },
    { weight: 3, arbitrary: live },
    { weight: 2, arbitrary: pass },
  ),
  { minLength: 10, maxLength: 60, size: 'max' },
);

/** Compares the ledger with the model, and checks that final states stay final. */
async function verify({ ledger, model }: World, ended: Map<string, string>): Promise<void> {
  const jobs = await ledger.jobs.list({ limit: 1000, order: 'oldest' });
  expect(jobs.map(({ id, status, attempt }) => [id, status, attempt])).toEqual(
    model.jobs.map(({ id, status, attempt }) => [id, status, attempt]),
  );
  for (const { id, status } of jobs) {
    expect(status).toBe(ended.get(id) ?? status);
    if (status !== 'queued' && status !== 'running') ended.set(id, status);
  }
  const attempts = await ledger.attempts.listByJob(jobs.map(({ id }) => id));
  const logged = attempts.map((attempt) => [
    attempt.jobId,
    String(attempt.attempt),
    attempt.claimToken,
    attempt.status,
    attempt.cause,
  ]);
  const inOrder = (lines: readonly (readonly unknown[])[]) => lines.map(String).toSorted();
  expect(inOrder(logged)).toEqual(inOrder(model.log));
  expect(await ledger.check()).toEqual([]);
}

async function clear({ run }: Raw): Promise<void> {
  for (const table of ['job_queue', 'job_log', 'job_dedupe', 'processes']) {
    await run(`delete from ${table}`);
  }
}
