/** A caller that waits for a job or a run is notified of its end, wherever that happens. */
import { cancelRun } from '../../src/pipeline/run/change.sql.ts';
import { describe, expect, test, vi } from 'vitest';
import { makeCompletion } from '../../src/job/completion.service.ts';
import type { KnownEnds } from '../../src/job/types.ts';
import type { Ledger } from '../../src/ledger/ledger.ts';
import { split, task } from '../pipeline/graphs.ts';
import { carryOn, claimSteps, define, done, start } from '../support/ledger/runs.ts';
import { databases, only, openBench, range, type Bench } from '../support/ledger/bench.ts';
import {
  beat,
  claimAs,
  draft,
  fail,
  pausing,
  retryLater,
  startOne,
  succeed,
} from '../support/ledger/drafts.ts';

const patience = { timeout: 120_000, interval: 5 };
/** A wait so long that only a notified caller returns in time. */
const NEVER_MS = 1_000_000_000;
const LONG_MS = 30_000;

/** The ids of the notifications that a ledger gets after it started to listen. */
async function listen(ledger: Ledger): Promise<string[]> {
  const notified: string[] = [];
  const listener = vi.fn<() => void>();
  ledger.onEnds((ids) => {
    listener();
    notified.push(...(ids ?? []));
  });
  // A new listener is notified once without ids, because it may have missed some.
  if (ledger.kind === 'postgres')
    await vi.waitFor(() => expect(listener).toHaveBeenCalled(), patience);
  return notified;
}

const flow = [split('both', ['l', 'r']), task('l'), task('r')];

describe.each(databases)('ends on %s', (kind) => {
  test('job ends are reported by the process that settles them, and only when they are final', async () => {
    const { ledger } = await openBench(kind);
    const notified = await listen(ledger);
    const job = await startOne(ledger, 'p1');
    await ledger.jobs.settle([retryLater(job, 0)]);
    expect(notified).toEqual([]);
    const [again] = await claimAs(ledger, 'p1');
    if (again === undefined) throw new Error('it was to be done again');
    await ledger.jobs.settle([succeed(again)]);
    expect(notified).toEqual([job.id]);
  });

  test('job ends are reported with their result when this very commit closed them', async () => {
    const { ledger } = await openBench(kind);
    const notified: (KnownEnds | undefined)[] = [];
    const closing = succeed(await startOne(ledger, 'p1'));
    const { id } = closing.job;
    ledger.onEnds((ids, known) => void (ids?.includes(id) && notified.push(known)));
    await ledger.jobs.settle([closing]);
    await ledger.jobs.settle([closing]);
    const end = { status: 'succeeded', result: closing.report.result };
    expect(notified).toEqual([new Map([[id, end]]), new Map()]);
  });

  test('run ends are reported with the end of their last job', async () => {
    const { ledger } = await openBench(kind);
    const notified = await listen(ledger);
    const graph = await define(ledger, flow);
    const run = await start(ledger, graph);
    const [l, r] = await claimSteps(ledger, graph);
    if (l === undefined || r === undefined) throw new Error('two jobs were expected');
    await ledger.jobs.settle([done(l)]);
    expect(notified).toEqual([l.id]);
    await ledger.jobs.settle([fail(r)]);
    expect(notified).toEqual([l.id, r.id, run.id]);
  });

  test('are reported once more to a process that repeats a request', async () => {
    const { ledger } = await openBench(kind);
    const notified = await listen(ledger);
    const graph = await define(ledger, [task('a')]);
    const run = await start(ledger, graph);
    const closing = done(only(await claimSteps(ledger, graph)));
    await ledger.jobs.settle([closing]);
    expect(notified).toEqual([closing.job.id, run.id]);
    const { verdicts, runEvents } = await ledger.jobs.settle([closing]);
    expect(verdicts.get(closing.job.id)).toBe('settled');
    expect(notified).toEqual([closing.job.id, run.id, closing.job.id, run.id]);
    expect(runEvents).toMatchObject({ queued: true, advancing: true });
  });

  test('are reported when a waiting job is cancelled, with its run', async () => {
    const { ledger } = await openBench(kind);
    const notified = await listen(ledger);
    const graph = await define(ledger, [task('a')]);
    const run = await start(ledger, graph);
    await ledger.jobs.cancel(run.firstJobId);
    expect(notified).toEqual([run.firstJobId, run.id]);
  });

  test('are reported when a run is cancelled, with the jobs that never start', async () => {
    const { ledger } = await openBench(kind);
    const notified = await listen(ledger);
    const graph = await define(ledger, [task('a')]);
    const run = await start(ledger, graph);
    await ledger.directives.create(pausing({ sameness: 'each' }, (tx) => cancelRun(tx, run.id)));
    expect(notified.toSorted()).toEqual([run.firstJobId, run.id].toSorted());
  });

  test('are reported for the jobs of a dead process', async () => {
    const { ledger } = await openBench(kind);
    const notified = await listen(ledger);
    const job = await startOne(ledger, 'p1');
    await ledger.processes.reap({ processId: 'p1', staleMs: 0, closings: [fail(job)] });
    expect(notified).toEqual([job.id]);
  });
});

describe('ends on another host', () => {
  async function twoHosts(): Promise<
    Bench & { readonly other: Ledger; readonly notified: string[] }
  > {
    const bench = await openBench('postgres');
    const other = await bench.open();
    return { ...bench, other, notified: await listen(bench.ledger) };
  }

  test('are reported for awaited jobs, and for no others', async () => {
    const { ledger, other, notified } = await twoHosts();
    const [quiet, awaited] = [draft(), draft({ isAwaited: true })];
    await ledger.jobs.enqueue({ jobs: [quiet, awaited] });
    const jobs = await claimAs(other, 'p2');
    await other.jobs.settle(jobs.map((job) => succeed(job)));
    await vi.waitFor(() => expect(notified).toEqual([awaited.id]), patience);
  });

  test('are reported for an awaited run, and for a job that is awaited later', async () => {
    const { ledger, other, notified } = await twoHosts();
    const graph = await define(ledger, flow);
    const run = await start(ledger, graph, {}, { isAwaited: true });
    const late = await start(ledger, graph);
    await start(ledger, graph);
    await ledger.awaitEnd('run', late.id);
    await carryOn(other, graph);
    await vi.waitFor(() => expect(notified).toHaveLength(2), patience);
    expect(notified.toSorted()).toEqual([run.id, late.id].toSorted());
  });

  test('are reported to all who wait for the same', async () => {
    const { ledger, open, other, notified } = await twoHosts();
    const third = await open();
    const notifiedThird = await listen(third);
    const job = draft({ isAwaited: true });
    await ledger.jobs.enqueue({ jobs: [job] });
    await third.awaitEnd('job', job.id);
    await other.jobs.settle((await claimAs(other, 'p2')).map((one) => succeed(one)));
    await vi.waitFor(
      () => expect([notified, notifiedThird]).toEqual([[job.id], [job.id]]),
      patience,
    );
  });

  test('are reported however many there are', async () => {
    const { ledger, other, notified } = await twoHosts();
    const jobs = range(400).map(() => draft({ isAwaited: true }));
    await ledger.jobs.enqueue({ jobs });
    await other.processes.heartbeat(beat('p2'));
    const claimed = await claimAs(other, 'p2', { slots: 400 });
    await other.jobs.settle(claimed.map((job) => succeed(job)));
    await vi.waitFor(() => expect(notified).toHaveLength(400), patience);
    expect(new Set(notified)).toEqual(new Set(jobs.map(({ id }) => id)));
  });

  test('wake a caller that began to wait before, meanwhile or after', async () => {
    const { ledger, other } = await twoHosts();
    const waiters = makeCompletion(ledger, NEVER_MS);
    for (const n of range(40)) {
      const isAwaited = n % 2 === 0;
      const job = draft({ isAwaited });
      await ledger.jobs.enqueue({ jobs: [job] });
      const claimed = only(await claimAs(other, 'p2'));
      const settling = n % 4 < 2 ? other.jobs.settle([succeed(claimed)]) : undefined;
      const waiting = waiters.waitFor(job.id, LONG_MS);
      await (settling ?? other.jobs.settle([succeed(claimed)]));
      expect((await waiting).status).toBe('succeeded');
    }
  });
});
