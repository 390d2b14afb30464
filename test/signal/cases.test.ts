/** The numbered cases of handlers of signals, and of retention. */
import { describe, expect, test } from 'vitest';
import { channel } from 'node:diagnostics_channel';
import { ask, pause } from '../support/direct.ts';
import { databases, eventually, makePlace } from '../support/instance.ts';
import { python, succeeds } from '../support/plugin-program.ts';

const fails = python('fail()');
const dies = python('os.abort()');
const recorder = python('note(json.dumps(request["event"])); ok()');
const paid = { type: 'order.paid', source: 'shop', data: { n: 1 }, actor: 'token:shop' };
const retry = { retry: { max_attempts: 2, backoff_base: '10ms' } };
const old = '2000-01-01T00:00:00.000Z';

describe.each(databases)('handlers on %s', (database) => {
  test("S-20 S-21 S-22 each has a job of its own: a failure or death doesn't affect the others", async () => {
    const place = await makePlace({
      database,
      plugins: {
        mail: { program: recorder },
        broken: { program: fails, settings: retry },
        dying: { program: dies, settings: retry },
      },
      routes: ['mail', 'broken', 'dying'].map((to) => ({ event_type: 'order.paid', to })),
    });
    const { engine, ledger, ended } = await place.start();
    const { signalId } = await engine.signals.emit(paid);
    const jobs = await ledger.jobs.list({ sourceEventId: signalId, limit: 9 });
    const ends = await Promise.all(jobs.map(async ({ id }) => ended(id)));
    const byPlugin = Object.fromEntries(ends.map((job) => [job.plugin, job]));
    expect(byPlugin['mail']).toMatchObject({ status: 'succeeded', attempt: 1 });
    expect(byPlugin['broken']).toMatchObject({ status: 'dead', attempt: 2 });
    expect(byPlugin['dying']).toMatchObject({ status: 'dead', attempt: 2 });
    const [note] = await place.notes();
    expect(JSON.parse(note ?? '')).toMatchObject({ event_id: signalId, payload: { n: 1 } });
  });

  test('S-23 S-24 a signal without handlers is kept, and a job does without its signal', async () => {
    const place = await makePlace({
      database,
      plugins: { mail: { program: recorder } },
      routes: [{ event_type: 'order.paid', to: 'mail' }],
    });
    const { engine, ledger, ended } = await place.start();
    await pause(engine);
    expect((await engine.signals.emit({ ...paid, type: 'order.lost' })).created).toBe(true);
    const { signalId } = await engine.signals.emit(paid);
    await place.sql('delete from signals where id = ?', signalId);
    await ask(engine, 'system.resume', {});
    const [job] = await ledger.jobs.list({ plugin: 'mail', limit: 1 });
    expect((await ended(job?.id ?? '')).status).toBe('succeeded');
  });

  test('S-25 neither the signal nor its jobs are there when they could not be written', async () => {
    const place = await makePlace({
      database,
      plugins: { mail: { program: succeeds } },
      routes: [{ event_type: 'order.paid', to: 'mail' }],
    });
    const { engine, ledger } = await place.start();
    await pause(engine);
    const { signalId } = await engine.signals.emit(paid);
    const [job] = await ledger.jobs.list({ sourceEventId: signalId, limit: 1 });
    // A run whose definition the ledger does not know cannot begin.
    const emission = {
      signal: { ...paid, id: 's2', data: '{}', hops: 1, correlationId: 's2' },
      jobs: [
        { ...(job as NonNullable<typeof job>), id: 'j2', sourceEventId: 's2', dedupe: undefined },
      ],
      runs: [{ id: 'r2' }],
    };
    await expect(ledger.signals.emit([emission as never])).rejects.toThrow();
    expect(await ledger.signals.list({ id: 's2', limit: 1 })).toEqual([]);
    expect(await ledger.jobs.find('j2')).toBeUndefined();
  });

  test('an emitted signal is counted and sent on a channel', async () => {
    const messages: unknown[] = [];
    const listen = (message: unknown): void => void messages.push(message);
    const emitted = channel('ductile:signal:emitted');
    emitted.subscribe(listen);
    try {
      const place = await makePlace({ database, plugins: { mail: { program: succeeds } } });
      const { engine } = await place.start();
      const keyed = { ...paid, dedupeKey: 'k' };
      const { signalId } = await engine.signals.emit(keyed);
      await engine.signals.emit(keyed);
      expect(engine.status().counts.signalsEmitted).toBe(1);
      expect(messages).toMatchObject([{ id: signalId, type: 'order.paid', source: 'shop' }]);
    } finally {
      emitted.unsubscribe(listen);
    }
  });
});

describe.each(databases)('retention on %s', (database) => {
  async function aged() {
    const place = await makePlace({ database, plugins: { mail: { program: succeeds } } });
    const before = await place.start();
    const { engine } = before;
    const { signalId: both } = await engine.signals.emit({ ...paid, occurredAt: old });
    const { signalId: toldLate } = await engine.signals.emit({ ...paid, occurredAt: old });
    const { signalId: young } = await engine.signals.emit(paid);
    await before.close();
    await place.sql('update signals set inserted_at = ? where id = ?', old, both);
    return { place, both, toldLate, young };
  }

  test('X-02 is a directive of the runtime: what is past both times goes, once', async () => {
    const { place, toldLate, young } = await aged();
    const { ledger } = await place.start();
    const done = await eventually('it is on record', async () => {
      const [one] = await ledger.directives.list({ type: 'system.retention', limit: 9 });
      return one?.status === 'completed' && one;
    });
    expect(done).toMatchObject({ actor: 'ductile', result: '{"rows":{"signals":1}}' });
    const left = await ledger.signals.list({ type: 'order.paid', order: 'oldest', limit: 9 });
    expect(left.map(({ id }) => id)).toEqual([toldLate, young]);
    expect(await ledger.directives.list({ type: 'system.retention', limit: 9 })).toHaveLength(1);
  });

  test('can be asked for, says first how much would go, and that it is gone then', async () => {
    const place = await makePlace({ database, plugins: { mail: { program: succeeds } } });
    const { engine, ledger } = await place.start();
    for (let n = 0; n < 3; n += 1) await engine.signals.emit(paid);
    const params = { what: ['signals'], older_than_ms: 0 };
    const { plan } = await ask(engine, 'system.prune', params, { dryRun: true });
    expect(plan).toEqual([
      '3 rows of signals older than 0s will be deleted.',
      'Deleted rows can be restored only from a backup.',
    ]);
    expect(await ledger.signals.list({ type: 'order.paid', limit: 9 })).toHaveLength(3);
    const { result } = await ask(engine, 'system.prune', params);
    expect(result).toMatchObject({ rows: { signals: expect.any(Number) } });
    expect(await ledger.signals.list({ type: 'order.paid', limit: 9 })).toEqual([]);
    const idle = await ask(engine, 'system.prune', {}, { dryRun: true });
    expect(idle.plan).toEqual(['No rows are old enough; nothing would change.']);
    const unnamed = ask(engine, 'system.prune', { older_than_ms: 0 });
    await expect(unnamed).rejects.toMatchObject({ code: 'INPUT_INVALID' });
  });
});
