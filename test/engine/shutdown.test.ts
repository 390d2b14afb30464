import pg from 'pg';
import { describe, expect, onTestFinished, test } from 'vitest';
import { openServer } from '../../src/app/server.ts';
import { overlayLedger } from '../../src/ledger/ledger.ts';
import { makePostgresDialect } from '../../src/ledger/postgres/store.ts';
import { openWithOverrides } from '../support/engine-overrides.ts';
import { isAlive } from '../support/hosts.ts';
import { collectLog, databases, eventually, makePlace } from '../support/instance.ts';
import { python, succeeds, waitsForGate } from '../support/plugin-program.ts';

describe.each(databases)('stopping on %s', (database) => {
  test('waits for what runs', async () => {
    const place = await makePlace({
      database,
      service: { shutdown_timeout: '20s' },
      plugins: { worker: { program: waitsForGate } },
    });
    const before = await place.start();
    const id = await before.submit('worker');
    await eventually('it runs', async () => (await place.notes()).length === 1);
    const closed = before.close();
    expect(before.engine.status().state).toBe('stopping');
    await expect(before.submit('worker')).rejects.toMatchObject({ code: 'STOPPING' });
    await place.openGate('1');
    await closed;
    const after = await place.start();
    const job = await after.ended(id);
    expect(job).toMatchObject({ status: 'succeeded', attempt: 1 });
    expect(await after.attempts(id)).toHaveLength(1);
  });

  test('releases what takes too long; the next process finishes it', async () => {
    const place = await makePlace({
      database,
      service: { shutdown_timeout: '50ms', max_workers: 2 },
      plugins: { worker: { program: waitsForGate } },
    });
    const before = await place.start();
    const ids = [await before.submit('worker'), await before.submit('worker')];
    const waits = await before.submit('worker');
    await eventually('two run', async () => (await place.notes()).length === 2);
    await before.close();
    for (const line of await place.notes()) expect(isAlive(Number(line.split(' ')[3]))).toBe(false);

    await place.openGate('1');
    await place.openGate('2');
    const after = await place.start();
    for (const id of ids) {
      expect(await after.ended(id)).toMatchObject({
        status: 'succeeded',
        attempt: 2,
        retryCount: 0,
        crashCount: 0,
        interruptCount: 0,
      });
      const rows = await after.attempts(id);
      expect(rows.map(({ status, cause }) => [status, cause])).toEqual([
        ['released', 'shutdown'],
        ['succeeded', 'ok'],
      ]);
      expect(rows.map(({ processId }) => processId)).toEqual([
        before.engine.processId,
        after.engine.processId,
      ]);
    }
    expect(await after.ended(waits)).toMatchObject({ status: 'succeeded', attempt: 1 });
    const processes = await after.ledger.processes.list();
    expect(processes.map(({ id }) => id)).toEqual([after.engine.processId]);
  });

  test('keeps a response that a plugin gives after SIGTERM', async () => {
    const program = python(`
def finish(*_): ok("finished in time", events=[{"type": "made"}])
signal.signal(signal.SIGTERM, finish)
note("begin")
wait_for("never")`);
    const place = await makePlace({
      database,
      plugins: { worker: { program }, next: { program: succeeds } },
      routes: [{ event_type: 'made', to: 'next' }],
    });
    const before = await place.start();
    const id = await before.submit('worker');
    await eventually('it runs', async () => (await place.notes()).length === 1);
    await before.close();
    const after = await place.start();
    expect(await after.ended(id)).toMatchObject({ status: 'succeeded', attempt: 1 });
    const [next] = await after.ledger.jobs.list({ parentJobId: id, limit: 9 });
    expect((await after.ended(next?.id ?? '')).status).toBe('succeeded');
  });
});

test('stopping twice is stopping once', async () => {
  const place = await makePlace({ plugins: { worker: { program: succeeds } } });
  const { engine, close, records } = await place.start();
  await Promise.all([engine.stop(), engine.stop(), close()]);
  await engine.stop();
  expect(engine.status().state).toBe('stopped');
  const logLines = records.filter(({ level }) => level === 'warn' || level === 'error');
  expect(logLines.filter(({ component }) => component !== 'config')).toEqual([]);
});

test('a second process on the same file is refused while the first runs', async () => {
  const place = await makePlace({ plugins: { worker: { program: succeeds } } });
  const first = await place.start();
  await expect(place.start()).rejects.toMatchObject({ code: 'INSTANCE_LOCKED' });
  await first.close();
  const second = await place.start();
  expect((await second.run('worker')).status).toBe('succeeded');
});

test('a start that waits for the lock of another host ends when the service is stopped', async () => {
  const { config } = await makePlace({
    database: 'postgres',
    plugins: { worker: { program: succeeds } },
  });
  if (config.state.kind !== 'postgres') throw new Error('it is a database');
  const { url, schema } = config.state;
  const other = new pg.Client({ connectionString: url });
  await other.connect();
  onTestFinished(() => other.end());
  await other.query(`begin; ${makePostgresDialect(schema).lockClaims}`);
  const { log } = collectLog();
  const stop = Promise.withResolvers<void>();
  const opening = openServer(config, log, stop.promise);
  await eventually('it waits', async () => {
    const waiting = await other.query(`select 1 from pg_locks where locktype = 'advisory'
      and not granted and pg_backend_pid() = any(pg_blocking_pids(pid))`);
    return waiting.rows.length > 0;
  });
  stop.resolve();
  await expect(opening).rejects.toMatchObject({ code: 'STOPPING' });
});

describe.each(databases)('a start on %s', (database) => {
  test('that waits for the ledger leaves nothing behind when it is stopped', async () => {
    const place = await makePlace({ database, plugins: { worker: { program: succeeds } } });
    const { log } = collectLog();
    const gate = Promise.withResolvers<void>();
    let isWaiting = false;
    const { engine, close } = await openWithOverrides(place.config, log, {
      ledger: (real) =>
        overlayLedger(real, {
          processes: {
            async heartbeat(beat) {
              isWaiting = true;
              await gate.promise;
              return await real.processes.heartbeat(beat);
            },
          },
        }),
    });
    onTestFinished(close);
    const starting = engine.start();
    await eventually('it waits', () => isWaiting);
    const stopping = engine.stop();
    gate.resolve();
    await expect(starting).rejects.toMatchObject({ code: 'STOPPING' });
    await stopping;
    expect(engine.status().state).toBe('stopped');
    expect(await engine.ledger.processes.list()).toEqual([]);
  });

  test('can be stopped right after it was requested', async () => {
    const place = await makePlace({ database, plugins: { worker: { program: succeeds } } });
    const { log } = collectLog();
    const { engine, close } = await openWithOverrides(place.config, log, {});
    onTestFinished(close);
    const starting = engine.start();
    await Promise.all([
      expect(starting).rejects.toMatchObject({ code: 'STOPPING' }),
      engine.stop(),
    ]);
    expect(await engine.ledger.processes.list()).toEqual([]);
  });
});
