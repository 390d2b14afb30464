/** Replays: the signals that they skip, the handlers that they start again, and where they continue. */
import { describe, expect, test } from 'vitest';
import { limits } from '../../src/base/limits.ts';
import { makeId } from '../../src/base/ids.ts';
import type { Ledger } from '../../src/ledger/ledger.ts';
import { ask, pause, resume } from '../support/direct.ts';
import { databases, eventually, makePlace, type Database } from '../support/instance.ts';
import { python, succeeds } from '../support/plugin-program.ts';

const routes = [{ event_type: 'order.paid', to: 'mail' }];
const thanks = { name: 'thanks', on: 'order.paid', steps: [{ id: 'thank', uses: 'other.poll' }] };
const failsOnce = python('ok() if os.path.exists("../../gate-mended") else fail(retry=False)');

/** Simulates many reported signals at once. */
async function emitMany(ledger: Ledger, count: number, data = '{"n":1}'): Promise<void> {
  const emissions = Array.from({ length: count }, () => {
    const id = makeId();
    const signal = { id, type: 'order.paid', source: 'shop', data, hops: 1, correlationId: id };
    return { signal, jobs: [], runs: [] };
  });
  await ledger.signals.emit(emissions);
}

async function open(database: Database, mail = succeeds) {
  const place = await makePlace({
    database,
    plugins: { mail: { program: mail }, other: { program: succeeds } },
    routes,
    pipelines: [thanks],
  });
  return { place, ...(await place.start()) };
}

const reported = { type: 'order.paid', source: 'shop', data: {}, actor: 'token:shop' };

describe.each(databases)('a replay on %s', (database) => {
  test('S-26 leaves out what was handled well, and does it again when it is forced to', async () => {
    const { engine, ledger, ended } = await open(database);
    const { signalId } = await engine.signals.emit(reported);
    const [job] = await ledger.jobs.list({ plugin: 'mail', limit: 9 });
    const [run] = await ledger.runs.list({ sourceEventId: signalId, limit: 9 });
    expect((await ended(job?.id ?? '')).status).toBe('succeeded');
    expect((await engine.waitForRun(run?.id ?? '', 20_000)).status).toBe('succeeded');
    const counts = { signals: 1, unhandled: 0, unopened: 0 };
    const safe = await ask(engine, 'signal.replay', { signal_id: signalId });
    expect(safe.result).toEqual({ ...counts, jobs: 0, runs: 0, skipped: 2 });
    expect(await ledger.jobs.list({ submittedBy: 'replay', limit: 9 })).toEqual([]);
    const one = await ask(engine, 'signal.replay', {
      signal_id: signalId,
      handler: 'mail',
      force: true,
    });
    expect(one.result).toEqual({ ...counts, jobs: 1, runs: 0, skipped: 0 });
    const all = await ask(engine, 'signal.replay', { signal_id: signalId, force: true });
    expect(all.result).toEqual({ ...counts, jobs: 1, runs: 1, skipped: 0 });
  });

  test('S-26 takes up what failed, or what nothing handled then', async () => {
    const { place, engine, ledger, ended } = await open(database, failsOnce);
    await emitMany(ledger, 1);
    const { signalId } = await engine.signals.emit(reported);
    const [failed] = await ledger.jobs.list({ plugin: 'mail', limit: 9 });
    expect((await ended(failed?.id ?? '')).status).toBe('failed');
    await place.openGate('mended');
    const { result } = await ask(engine, 'signal.replay', { source: 'shop', handler: 'mail' });
    expect(result).toMatchObject({ signals: 2, jobs: 2, skipped: 0 });
    const again = await ledger.jobs.list({ plugin: 'mail', submittedBy: 'replay', limit: 9 });
    for (const { id } of again) expect((await ended(id)).status).toBe('succeeded');
    expect(again.map(({ sourceEventId }) => sourceEventId)).toContain(signalId);
    const { result: third } = await ask(engine, 'signal.replay', {
      source: 'shop',
      handler: 'mail',
    });
    expect(third).toMatchObject({ signals: 2, jobs: 0, skipped: 2 });
  });

  test('S-27 for an unknown handler is refused, and starts nothing', async () => {
    const { engine, ledger } = await open(database);
    const pending = ask(engine, 'signal.replay', { type: 'order.paid', handler: 'mial' });
    await expect(pending).rejects.toMatchObject({
      code: 'INPUT_INVALID',
      place: 'handler',
      hint: expect.stringContaining('mail'),
    });
    expect(await ledger.directives.list({ type: 'signal.replay', limit: 1 })).toEqual([]);
  });

  test('that another process had begun continues after its last step', async () => {
    const { engine, ledger, place } = await open(database);
    await pause(engine);
    const steps = 3;
    await emitMany(ledger, steps * limits.bulkStepJobs);
    // The process dies after its first step: what it did stays, the directive is given back.
    const { id } = await ask(
      engine,
      'signal.replay',
      { type: 'order.paid', handler: 'mail' },
      {
        due: { at: '2999-01-01T00:00:00.000Z' },
      },
    );
    const signals = await ledger.signals.list({
      type: 'order.paid',
      order: 'oldest',
      limit: limits.bulkStepJobs,
    });
    const done = { jobs: signals.length, runs: 0, skipped: 0, unhandled: 0, unopened: 0 };
    const progress = {
      cursor: signals.at(-1)?.seq,
      upTo: (await ledger.signals.list({ type: 'order.paid', limit: 1 }))[0]?.seq,
      signals: signals.length,
      ...done,
    };
    await place.sql(
      `update directives set progress = ?, attempt = 1, run_at = '2000-01-01T00:00:00.000Z'
        where id = ?`,
      JSON.stringify(progress),
      id,
    );
    const ended = await eventually('it has ended', async () => {
      const directive = await ledger.directives.find(id ?? '');
      return directive?.status === 'completed' && directive;
    });
    const total = steps * limits.bulkStepJobs;
    expect(JSON.parse(ended.result ?? '')).toMatchObject({ signals: total, jobs: total });
    // The jobs of a finished step are not started here again.
    const jobs = await ledger.jobs.count({ plugin: 'mail', limit: total });
    expect(jobs).toBe(total - signals.length);
    expect(ended.attempt).toBe(2);
    await resume(engine);
  });

  test('is released when its process stops, and ended by the next process', async () => {
    const { engine, ledger, place, close } = await open(database);
    await pause(engine);
    await emitMany(ledger, 5 * limits.bulkStepJobs);
    const pending = ask(engine, 'signal.replay', { type: 'order.paid', handler: 'mail' });
    const id = await eventually('it has begun', async () => {
      const [directive] = await ledger.directives.list({ type: 'signal.replay', limit: 1 });
      return directive !== undefined && directive.progress !== null && directive.id;
    });
    await close();
    const { status } = await pending.catch(() => ({ status: 'unknown' }));
    const next = await place.start();
    const ended = await eventually('it has ended', async () => {
      const directive = await next.ledger.directives.find(id);
      return directive?.status === 'completed' && directive;
    });
    // A quick machine had ended it before the stop.
    expect(ended.attempt).toBe(1);
    expect(['completed', 'requested', 'unknown']).toContain(status);
    const jobs = await next.ledger.jobs.list({ plugin: 'mail', limit: 1000 });
    expect(new Set(jobs.map(({ sourceEventId }) => sourceEventId)).size).toBe(1000);
    expect(jobs).toHaveLength(1000);
  });

  test('reads no more at once than fits, however large signals are', async () => {
    const { engine, ledger } = await open(database);
    await pause(engine);
    const large = JSON.stringify({ text: 'x'.repeat(limits.payloadBytesMax - 100) });
    await emitMany(ledger, 6, large);
    const page = { type: 'order.paid', order: 'oldest', limit: 9 } as const;
    const first = await ledger.signals.list({ ...page, bytesMax: limits.replayStepBytes });
    expect(first.length).toBeLessThan(6);
    expect(await ledger.signals.list({ ...page, bytesMax: 1 })).toHaveLength(1);
    const { result } = await ask(engine, 'signal.replay', { type: 'order.paid', handler: 'mail' });
    expect(result).toMatchObject({ signals: 6, jobs: 6 });
  });
});

describe.each(databases)('a signal that was reported before, on %s', (database) => {
  test('S-06 starts nothing, unless that is asked for', async () => {
    const { engine, ledger } = await open(database);
    await pause(engine);
    const keyed = { ...reported, dedupeKey: 'once' };
    const { signalId } = await engine.signals.emit(keyed);
    const second = await engine.signals.emit(keyed);
    expect(second).toEqual({ signalId, created: false, handlers: 0 });
    expect(await ledger.jobs.list({ plugin: 'mail', limit: 9 })).toHaveLength(1);
    const again = await engine.signals.emit({ ...keyed, rerun: true });
    expect(again).toEqual({ signalId, created: false, handlers: 2 });
    expect(await ledger.signals.list({ type: 'order.paid', limit: 9 })).toHaveLength(1);
    const jobs = await ledger.jobs.list({ plugin: 'mail', order: 'oldest', limit: 9 });
    expect(jobs.map(({ submittedBy }) => submittedBy)).toEqual(['route', 'replay']);
    const [one, two] = jobs.map(({ idempotencyKey }) => idempotencyKey);
    expect(one).not.toBe(two);
    expect(await ledger.runs.list({ sourceEventId: signalId, limit: 9 })).toHaveLength(2);
    // A new signal is just handled, whatever the request says.
    const fresh = await engine.signals.emit({ ...reported, dedupeKey: 'other', rerun: true });
    expect(fresh.created).toBe(true);
    const own = await ledger.jobs.list({ plugin: 'mail', sourceEventId: fresh.signalId, limit: 9 });
    expect(own.map(({ submittedBy }) => submittedBy)).toEqual(['route']);
  });
});
