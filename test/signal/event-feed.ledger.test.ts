/** The event feed has an order to which later commits only append. */
import { cancelRun } from '../../src/pipeline/run/change.sql.ts';
import type { DirectiveWork } from '../../src/ledger/directive-work.ts';
import { describe, expect, onTestFinished, test } from 'vitest';
import { makeId } from '../../src/base/ids.ts';
import type { EventCursor, EventRows, Position } from '../../src/signal/event-feed.sql.ts';
import type { Ledger } from '../../src/ledger/ledger.ts';
import type { SignalDraft } from '../../src/signal/signal.ts';
import { eventually } from '../support/instance.ts';
import { task } from '../pipeline/graphs.ts';
import { openBarrier } from '../support/ledger/barrier.ts';
import { carryOn, claimSteps, define, done, start } from '../support/ledger/runs.ts';
import { databases, openBench, openRaw, range } from '../support/ledger/bench.ts';
import { draft, fail, pausing } from '../support/ledger/drafts.ts';
import { useOwnServer } from '../support/postgres.ts';

useOwnServer();

const NOWHERE = { tx: 0, seq: 0 };
const START: EventCursor = {
  jobs: NOWHERE,
  signals: NOWHERE,
  attempts: NOWHERE,
  runs: NOWHERE,
};
const AMPLE = { rows: 10, bytes: 1_000_000 };

function signal(type: string, data = '{}'): SignalDraft {
  const id = makeId();
  return { id, type, source: 'test', data, hops: 0, correlationId: id };
}

/** Reads page by page, from the start; `readPage` says whether all of 40 were seen. */
function followBy(
  ledger: Ledger,
  read: (page: EventRows) => { readonly found: string[]; readonly next: Partial<EventCursor> },
): { readonly seen: readonly string[]; readonly readPage: () => Promise<boolean> } {
  const seen: string[] = [];
  let place = START;
  return {
    seen,
    async readPage() {
      const { found, next } = read(await ledger.events.list(place, { ...AMPLE, rows: 3 }));
      seen.push(...found);
      place = { ...place, ...next };
      return seen.length >= 40;
    },
  };
}

describe.each(databases)('events on %s', (kind) => {
  test('are read once each, page by page, while many write', async () => {
    const { ledger, open } = await openBench(kind);
    const second = kind === 'postgres' ? await open() : ledger;
    const writing = Promise.all(
      range(40).map((n) =>
        (n % 2 === 0 ? ledger : second).jobs.enqueue({ jobs: [], signals: [signal(`n.${n}`)] }),
      ),
    );
    const { seen, readPage } = followBy(ledger, ({ signals }) => ({
      found: signals.rows.map(({ type }) => type),
      next: { signals: signals.end },
    }));
    // Transactions of others on the same server may hold them up for a while.
    await eventually('all were read', readPage);
    await writing;
    expect(new Set(seen).size).toBe(40);
    await readPage();
    expect(seen).toHaveLength(40);
  });

  test('begin, after the end, with what comes next', async () => {
    const { ledger } = await openBench(kind);
    await ledger.jobs.enqueue({ jobs: [], signals: [signal('old')] });
    const end = await ledger.events.findEnd();
    await ledger.jobs.enqueue({ jobs: [], signals: [signal('new')] });
    const types = await eventually('the new one is there', async () => {
      const found = (await ledger.events.list(end, AMPLE)).signals.rows.map(({ type }) => type);
      return found.includes('new') && found;
    });
    // A read of the end during writes may return a few earlier events.
    if (kind === 'sqlite') expect(types).toEqual(['new']);
  });

  test('accepted jobs are read once each, in order, while many write', async () => {
    const { ledger, open } = await openBench(kind);
    const second = kind === 'postgres' ? await open() : ledger;
    const ids = range(40).map(() => makeId());
    const writing = Promise.all(
      ids.map((id, n) => (n % 2 === 0 ? ledger : second).jobs.enqueue({ jobs: [draft({ id })] })),
    );
    const { seen, readPage } = followBy(ledger, ({ jobs }) => ({
      found: jobs.rows.map(({ id }) => id),
      next: { jobs: jobs.end },
    }));
    await eventually('all were read', readPage);
    await writing;
    expect([...seen].sort()).toEqual([...ids].sort());
    await readPage();
    expect(seen).toHaveLength(40);
  });

  test('job events continue after the end with the next accepted job', async () => {
    const { ledger } = await openBench(kind);
    await ledger.jobs.enqueue({ jobs: [draft({ id: 'old' })] });
    const end = await ledger.events.findEnd();
    await ledger.jobs.enqueue({ jobs: [draft({ id: 'new' })] });
    await ledger.jobs.cancel('new');
    const ids = await eventually('the new one is there', async () => {
      const found = (await ledger.events.list(end, AMPLE)).jobs.rows.map(({ id }) => id);
      return found.includes('new') && found;
    });
    if (kind === 'sqlite') expect(ids).toEqual(['new']);
  });

  test('ended runs are read once each, in the order of their ends, while many end', async () => {
    const { ledger, open } = await openBench(kind);
    const second = kind === 'postgres' ? await open() : ledger;
    const graph = await define(ledger, [task('a')]);
    for (const _ of range(40)) await start(ledger, graph);
    const claimed = await claimSteps(ledger, graph);
    // The last started runs end first.
    const writing = Promise.all(
      claimed
        .toReversed()
        .map((job, n) => (n % 2 === 0 ? ledger : second).jobs.settle([done(job)])),
    );
    const { seen, readPage } = followBy(ledger, ({ runs }) => ({
      found: runs.rows.map(({ id }) => id),
      next: { runs: runs.end },
    }));
    await eventually('all were read', readPage);
    await writing;
    expect([...seen].sort()).toEqual(claimed.map(({ runId }) => runId ?? '').sort());
    await readPage();
    expect(seen).toHaveLength(40);
  });

  test('run events report success and cancellation; a halt is reported by a signal', async () => {
    const { ledger } = await openBench(kind);
    const graph = await define(ledger, [task('a')]);
    const [first, second, third] = [
      await start(ledger, graph),
      await start(ledger, graph),
      await start(ledger, graph),
    ];
    const cancel: DirectiveWork = (tx) => cancelRun(tx, third.id);
    await ledger.directives.create(pausing({ sameness: 'each' }, cancel));
    const end = (await ledger.events.findEnd()).runs;
    const [one, two] = await claimSteps(ledger, graph);
    if (one === undefined || two === undefined) throw new Error('two jobs were expected');
    await ledger.jobs.settle([fail(two)]);
    await ledger.jobs.settle([done(one)]);
    const ends = (after: Position) =>
      eventually('the last is there', async () => {
        const { rows } = (await ledger.events.list({ ...START, runs: after }, AMPLE)).runs;
        return rows.at(-1)?.id === first.id && rows.map(({ id, status }) => [id, status]);
      });
    const both = [
      [third.id, 'cancelled'],
      [first.id, 'succeeded'],
    ];
    expect(await ends(NOWHERE)).toEqual(both);
    if (kind === 'sqlite') expect(await ends(end)).toEqual(both.slice(1));
    expect(await ledger.signals.list({ type: 'run.halted', limit: 5 })).toMatchObject([
      { subjectId: second.id },
    ]);
  });

  test('run events continue when the runs that ended last are deleted', async () => {
    const { ledger, sql } = await openBench(kind);
    const graph = await define(ledger, [task('a')]);
    for (const _ of range(3)) await start(ledger, graph);
    await carryOn(ledger, graph);
    const last = await eventually('all can be seen', async () => {
      const { rows, end } = (await ledger.events.list(START, AMPLE)).runs;
      return rows.length === 3 && end;
    });
    for (const table of ['run_steps', 'run_branches', 'pipeline_runs', 'job_queue']) {
      await sql(`delete from ${table}`);
    }
    const next = await start(ledger, graph);
    await carryOn(ledger, graph);
    const ids = await eventually('the next is there', async () => {
      const { rows } = (await ledger.events.list({ ...START, runs: last }, AMPLE)).runs;
      return rows.length > 0 && rows.map(({ id }) => id);
    });
    expect(ids).toEqual([next.id]);
  });

  test('are read in pages of no more bytes than asked for, and never less than one', async () => {
    const { ledger } = await openBench(kind);
    const large = JSON.stringify({ text: 'x'.repeat(1000) });
    const types = range(5).map((n) => `large.${n}`);
    await ledger.jobs.enqueue({ jobs: [], signals: types.map((type) => signal(type, large)) });
    const pages: string[][] = [];
    for (const bytes of [2500, 10]) {
      const target = pages.flat().length + types.length;
      let place = START;
      await eventually('all were read', async () => {
        const { signals } = await ledger.events.list(place, { rows: 10, bytes });
        place = { ...place, signals: signals.end };
        if (signals.rows.length > 0) pages.push(signals.rows.map(({ type }) => type));
        return !signals.isCut && pages.flat().length === target;
      });
    }
    expect(pages.map((page) => page.length)).toEqual([2, 2, 1, 1, 1, 1, 1, 1]);
    expect(pages.flat()).toEqual([...types, ...types]);
  });
});

test('a job whose commit is slow is not passed by those with a higher number', async () => {
  const { ledger, place } = await openBench('postgres');
  await ledger.events.findEnd();
  const raw = openRaw(place);
  onTestFinished(() => raw.close());
  await raw.run('begin');
  await raw.run(
    `insert into job_queue (id, plugin, command, status, submitted_by, actor, created_at, ready_at,
      root_job_id, idempotency_key)
      values ('slow', 'echo', 'handle', 'queued', 'api', 'api:test', '2026-01-01T00:00:00.000Z',
        '2026-01-01T00:00:00.000Z', 'slow', 'slow')`,
  );
  const end = await ledger.events.findEnd();
  await ledger.jobs.enqueue({ jobs: [draft({ id: 'quick' })] });
  const held = await ledger.events.list(end, AMPLE);
  expect(held.jobs.rows).toEqual([]);
  expect(held.isPending).toBe(true);
  await raw.run('commit');
  const ids = await eventually('both are there', async () => {
    const { jobs } = await ledger.events.list({ ...START, jobs: held.jobs.end }, AMPLE);
    return jobs.rows.length === 2 && jobs.rows.map(({ id }) => id);
  });
  expect(ids).toEqual(['slow', 'quick']);
});

test('the first read waits a while for open transactions and then returns what is certain', async () => {
  const bench = await openBench('postgres');
  const { ledger, open } = bench;
  const job = draft();
  await ledger.jobs.enqueue({ jobs: [job] });
  const barrier = await openBarrier(bench);
  await barrier.hold('select pg_current_xact_id()');
  const newcomer = await open();
  const first = await newcomer.events.list(START, AMPLE);
  expect(first.jobs.rows).toEqual([]);
  expect(first.isPending).toBe(true);
  await barrier.lift();
  const ids = await eventually('it is over', async () => {
    const { jobs } = await newcomer.events.list(START, AMPLE);
    return jobs.rows.length > 0 && jobs.rows.map(({ id }) => id);
  });
  expect(ids).toEqual([job.id]);
});

test('a schema from another PostgreSQL gets a new order and a new epoch', async () => {
  const { ledger, sql, open } = await openBench('postgres');
  await ledger.jobs.enqueue({ jobs: [], signals: [signal('moved')] });
  const epoch = await ledger.meta.read('epoch');
  await sql('update signals set tx = 9000000000000');
  expect((await ledger.events.list(START, AMPLE)).signals.rows).toEqual([]);
  const moved = await open();
  expect(await moved.meta.read('epoch')).not.toBe(epoch);
  await moved.jobs.enqueue({ jobs: [], signals: [signal('later')] });
  const types = await eventually('both are there', async () => {
    const { signals } = await moved.events.list(START, AMPLE);
    return signals.rows.length === 2 && signals.rows.map(({ type }) => type);
  });
  expect(types).toEqual(['moved', 'later']);
});

test('ends of runs come behind those that were copied from a ledger with other numbers', async () => {
  const { ledger, sql } = await openBench('sqlite');
  const graph = await define(ledger, [task('a')]);
  await start(ledger, graph);
  await carryOn(ledger, graph);
  await sql('update pipeline_runs set end_tx = 9000000');
  const { runs } = await ledger.events.findEnd();
  const next = await start(ledger, graph);
  await carryOn(ledger, graph);
  const { rows } = (await ledger.events.list({ ...START, runs }, AMPLE)).runs;
  expect(rows.map(({ id }) => id)).toEqual([next.id]);
});
