import { describe, expect, test } from 'vitest';
import { DuctileError } from '../../src/base/errors.ts';
import type { Closing } from '../../src/ledger/commit.ts';
import { overlayLedger, type Ledger } from '../../src/ledger/ledger.ts';
import { databases, eventually, makePlace } from '../support/instance.ts';
import { python, succeeds, waitsForGate } from '../support/plugin-program.ts';

const emits = python('ok(events=[{"type": "made", "payload": {}}])');
const routes = [{ event_type: 'made', to: 'sink' }];

/** A ledger whose settle goes through `refuse` first. */
function refusing(refuse: (closings: readonly Closing[]) => Error | undefined) {
  return (real: Ledger): Ledger =>
    overlayLedger(real, {
      jobs: {
        settle(closings, claim) {
          const error = refuse(closings);
          return error === undefined ? real.jobs.settle(closings, claim) : Promise.reject(error);
        },
      },
    });
}

/**
 * Refuses all settlements until there are this many closings, so that they are settled as one
 * batch.
 */
function gathering(count: number, refuse: (closing: Closing) => boolean) {
  let gathered = false;
  return refusing((closings) => {
    gathered ||= closings.length >= count;
    if (closings.length > 0 && !gathered) return new DuctileError('LEDGER_UNAVAILABLE', 'not yet');
    return closings.some(refuse) ? new Error('cannot be stored') : undefined;
  });
}

describe.each(databases)('on %s', (database) => {
  test('a result that cannot be recorded fails its job and no other', async () => {
    const plugins = {
      worker: { program: emits },
      poison: { program: emits },
      sink: { program: succeeds },
      alarm: { program: succeeds },
    };
    const place = await makePlace({
      database,
      plugins,
      routes: [...routes, { event_type: 'job.dead', to: 'alarm' }],
    });
    const ledger = gathering(3, ({ job, ending }) => {
      return job.plugin === 'poison' && ending.status === 'succeeded';
    });
    const instance = await place.start({ ledger });
    const { submit, ended, attempts, records } = instance;
    const ids = await Promise.all([submit('worker'), submit('poison'), submit('worker')]);
    const [before, poison, after] = [await ended(ids[0]), await ended(ids[1]), await ended(ids[2])];
    expect(poison).toMatchObject({ status: 'failed', reason: 'settle_error', attempt: 1 });
    const [row] = await attempts(poison.id);
    expect(row).toMatchObject({
      status: 'failed',
      cause: 'settle_error',
      result: null,
      error: 'the result could not be recorded: cannot be stored',
      exitCode: 0,
    });
    const children = await instance.ledger.jobs.list({ parentJobId: poison.id, limit: 9 });
    expect(children.map(({ plugin }) => plugin)).toEqual(['alarm']);
    for (const job of [before, after]) {
      expect(job).toMatchObject({ status: 'succeeded', attempt: 1 });
      expect(await instance.ledger.jobs.list({ parentJobId: job.id, limit: 9 })).toHaveLength(1);
    }
    expect(records).toContainEqual(
      expect.objectContaining({
        level: 'error',
        message: 'an attempt could not be settled',
        job_id: poison.id,
      }),
    );
  });

  test('a job that cannot be settled at all holds up no other', async () => {
    let poisoned = true;
    const ledger = gathering(2, ({ job }) => poisoned && job.plugin === 'poison');
    const plugins = { worker: { program: succeeds }, poison: { program: succeeds } };
    const place = await makePlace({ database, plugins });
    const { submit, ended, run, engine } = await place.start({ ledger });
    const [poison, worker] = await Promise.all([submit('poison'), submit('worker')]);
    expect((await ended(worker)).status).toBe('succeeded');
    expect((await run('worker')).status).toBe('succeeded');
    expect(engine.status().state).toBe('running');
    poisoned = false;
    // The time decides whether the job was still released or had already failed.
    expect(['succeeded', 'failed']).toContain((await ended(poison)).status);
  });

  test('an outage keeps results until they can be settled', async () => {
    let down = false;
    const outage = <T extends object>(real: T): T =>
      new Proxy(real, {
        get(target, key) {
          const value: unknown = Reflect.get(target, key);
          if (typeof value === 'object' && value !== null) return outage(value);
          if (!down || typeof value !== 'function') return value;
          const error = new DuctileError('LEDGER_UNAVAILABLE', 'the database is away');
          return () => Promise.reject(error);
        },
      });
    const place = await makePlace({
      database,
      plugins: { worker: { program: waitsForGate }, sink: { program: succeeds } },
    });
    const { submit, ended, engine, attempts, records } = await place.start({ ledger: outage });
    const id = await submit('worker');
    await eventually('it runs', async () => (await place.notes()).length === 1);
    down = true;
    await place.openGate('1');
    await eventually('it is noticed', () => engine.status().state === 'degraded');
    const noticedAt = performance.now();
    expect(engine.status()).toMatchObject({ detail: 'the database is away' });
    await expect(submit('sink')).rejects.toMatchObject({ code: 'LEDGER_UNAVAILABLE' });
    // A late hint of the database may cause the second try at once.
    await eventually('it is tried again with its end, and the outage lasts', () => {
      const tries = records.filter(({ waiting }) => waiting === 1).length;
      return tries >= 2 && performance.now() - noticedAt >= 100;
    });
    down = false;
    expect(await ended(id)).toMatchObject({ status: 'succeeded', attempt: 1, retryCount: 0 });
    const [row, ...others] = await attempts(id);
    expect(others).toEqual([]);
    expect(row?.settleMs).toBeGreaterThanOrEqual(100);
    await eventually('it is well again', () => engine.status().state === 'running');
  });

  test('a claim whose response was lost is released by the next heartbeat', async () => {
    let lost = 0;
    const forgets = (real: Ledger): Ledger =>
      overlayLedger(real, {
        jobs: {
          async settle(closings, claim) {
            const settlement = await real.jobs.settle(closings, claim);
            if (lost > 0 || settlement.claimed.length === 0) return settlement;
            lost = settlement.claimed.length;
            throw new DuctileError('LEDGER_UNCERTAIN', 'the answer was lost');
          },
        },
      });
    const place = await makePlace({ database, plugins: { worker: { program: succeeds } } });
    const { submit, ended, attempts } = await place.start({ ledger: forgets });
    const id = await submit('worker');
    expect(await ended(id)).toMatchObject({ status: 'succeeded', attempt: 2, retryCount: 0 });
    expect(lost).toBe(1);
    const rows = await attempts(id);
    expect(rows.map(({ status, cause, pid }) => [status, cause, pid === null])).toEqual([
      ['released', 'unheld', true],
      ['succeeded', 'ok', false],
    ]);
  });

  test('a settlement whose answer was lost happened once', async () => {
    let lost = false;
    const forgets = (real: Ledger): Ledger =>
      overlayLedger(real, {
        jobs: {
          async settle(closings, claim) {
            const settlement = await real.jobs.settle(closings, claim);
            if (lost || closings.length === 0) return settlement;
            lost = true;
            throw new DuctileError('LEDGER_UNCERTAIN', 'the answer was lost');
          },
        },
      });
    const place = await makePlace({
      database,
      plugins: { worker: { program: emits }, sink: { program: succeeds } },
      routes,
    });
    const { submit, ended, attempts, ledger } = await place.start({ ledger: forgets });
    const id = await submit('worker');
    expect(await ended(id)).toMatchObject({ status: 'succeeded', attempt: 1 });
    const [child] = await ledger.jobs.list({ parentJobId: id, limit: 9 });
    expect((await ended(child?.id ?? '')).status).toBe('succeeded');
    expect(lost).toBe(true);
    expect(await attempts(id)).toHaveLength(1);
    expect(await ledger.jobs.list({ limit: 9 })).toHaveLength(2);
    expect(await ledger.signals.list({ limit: 9 })).toHaveLength(1);
  });

  test('a command that the plugin no longer has is refused for good', async () => {
    const place = await makePlace({ database, plugins: { worker: { program: succeeds } } });
    const { ledger, ended, attempts } = await place.start();
    const draft = { plugin: 'worker', command: 'dance', payload: '{}', actor: 'test' };
    const id = '01890000-0000-7000-8000-000000000001';
    await ledger.jobs.enqueue({ jobs: [{ ...draft, id, submittedBy: 'cli', maxAttempts: 4 }] });
    expect(await ended(id)).toMatchObject({ status: 'failed', reason: 'unknown_command' });
    const [row] = await attempts(id);
    expect(row).toMatchObject({ status: 'failed', cause: 'unknown_command', pid: null });
    expect(row?.error).toContain('dance');
    expect(await ledger.signals.list({ type: 'job.dead', jobId: id, limit: 9 })).toHaveLength(1);
  });
});
