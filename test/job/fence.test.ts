import { describe, expect, test } from 'vitest';
import { DuctileError } from '../../src/base/errors.ts';
import { overlayLedger, type Ledger } from '../../src/ledger/ledger.ts';
import {
  databases,
  eventually,
  makePlace,
  type LogRecords,
  type TestPlace,
} from '../support/instance.ts';
import { python, succeeds } from '../support/plugin-program.ts';

const emits = python(`
note("begin", attempt)
wait_for(str(attempt))
ok(f"attempt {attempt}", events=[{"type": "made", "payload": {}}], state_updates={"by": attempt})`);

const setup = {
  plugins: { worker: { program: emits }, sink: { program: succeeds } },
  routes: [{ event_type: 'made', to: 'sink' }],
};

function begun(place: TestPlace, attempt: number): Promise<boolean> {
  const line = `begin ${attempt}`;
  return eventually(`attempt ${attempt} has begun`, async () =>
    (await place.notes()).includes(line),
  );
}

function isFenced(records: LogRecords): boolean {
  return records.some(
    ({ level, message }) => level === 'warn' && message.startsWith('a result came after its claim'),
  );
}

/** Simulates another process that gave up on the claim. */
function takeClaim(place: TestPlace, jobId: string): Promise<void> {
  return place.sql(
    `update job_queue set status = 'queued', attempt = attempt + 1, claim_token = null,
      claimed_by = null, claim_expires_at = null where id = ?`,
    jobId,
  );
}

describe.each(databases)('a claim that was lost on %s', (database) => {
  test('lets its late result change nothing', async () => {
    const place = await makePlace({ ...setup, database });
    const { submit, ended, ledger, attempts, records } = await place.start();
    const id = await submit('worker');
    await begun(place, 1);
    await takeClaim(place, id);
    await begun(place, 2);
    await place.openGate('2');
    expect(await ended(id)).toMatchObject({ status: 'succeeded', attempt: 2 });
    await place.openGate('1');
    await eventually('the first result is discarded', () => isFenced(records));
    const rows = await attempts(id);
    expect(rows.map(({ attempt, status }) => [attempt, status])).toEqual([[2, 'succeeded']]);
    expect(JSON.parse(await ledger.plugins.readState('worker'))).toEqual({ by: 2 });
    expect(await ledger.jobs.list({ parentJobId: id, limit: 9 })).toHaveLength(1);
    expect(await ledger.signals.list({ jobId: id, limit: 9 })).toHaveLength(1);
  });

  test('and claimed again here is not forgotten when the first attempt ends', async () => {
    const place = await makePlace({ ...setup, database });
    const { submit, ended, records, engine, attempts } = await place.start();
    const id = await submit('worker');
    await begun(place, 1);
    await takeClaim(place, id);
    await begun(place, 2);
    expect(engine.status().running).toHaveLength(2);
    await place.openGate('1');
    await eventually('the first result is discarded', () => isFenced(records));
    expect(engine.status().running).toEqual([expect.objectContaining({ jobId: id })]);
    await place.openGate('2');
    expect(await ended(id)).toMatchObject({ status: 'succeeded', attempt: 2, retryCount: 0 });
    expect(await attempts(id)).toEqual([expect.objectContaining({ attempt: 2, cause: 'ok' })]);
  });

  test('lets only one of two results count that come in the same moment', async () => {
    let shut = true;
    const keepsOut = (real: Ledger): Ledger =>
      overlayLedger(real, {
        jobs: {
          settle(closings, claim) {
            if (!shut || closings.length === 0) return real.jobs.settle(closings, claim);
            return Promise.reject(new DuctileError('LEDGER_UNAVAILABLE', 'not yet'));
          },
        },
      });
    const place = await makePlace({ ...setup, database });
    const instance = await place.start({ ledger: keepsOut });
    const { submit, ended, records, ledger, attempts } = instance;
    const id = await submit('worker');
    await begun(place, 1);
    await takeClaim(place, id);
    await begun(place, 2);
    await Promise.all([place.openGate('1'), place.openGate('2')]);
    await eventually('both have answered', () => {
      return records.filter(({ message }) => message === 'attempt ended').length === 2;
    });
    shut = false;
    expect(await ended(id)).toMatchObject({ status: 'succeeded', attempt: 2 });
    await eventually('the first result is discarded', () => isFenced(records));
    expect(await attempts(id)).toHaveLength(1);
    expect(await ledger.signals.list({ jobId: id, limit: 9 })).toHaveLength(1);
    expect(await ledger.jobs.list({ parentJobId: id, limit: 9 })).toHaveLength(1);
  });
});

test('a process whose lease has run out claims nothing before its next heartbeat', async () => {
  let isAway = false;
  let isHeard = true;
  /** The jobs that it requested with the end of its attempt, and the result. */
  const ends: { readonly slots: number; readonly isAway: boolean }[] = [];
  const away = new DuctileError('LEDGER_UNAVAILABLE', 'not yet');
  const seam = (real: Ledger): Ledger =>
    overlayLedger(real, {
      processes: {
        heartbeat: (beat) => (isHeard ? real.processes.heartbeat(beat) : Promise.reject(away)),
      },
      jobs: {
        settle(closings, claim) {
          if (closings.length > 0) ends.push({ slots: claim?.slots ?? 0, isAway });
          return isAway ? Promise.reject(away) : real.jobs.settle(closings, claim);
        },
      },
    });
  const place = await makePlace({
    ...setup,
    database: 'postgres',
    service: { heartbeat_interval: '100ms', reap_after: '1500ms', poll_interval: '1h' },
  });
  const { submit, ended, attempts } = await place.start({ ledger: seam });
  const id = await submit('worker');
  await begun(place, 1);
  isAway = true;
  isHeard = false;
  // By then it has rested from the end of its attempt.
  await eventually('it has often tried in vain', () => ends.length === 5);
  isAway = false;
  await eventually('the end is settled', () => ends.at(-1)?.isAway === false);
  expect(ends.at(-1)).toEqual({ slots: 0, isAway: false });
  await place.openGate('2');
  isHeard = true;
  expect(await ended(id)).toMatchObject({ status: 'succeeded', attempt: 2 });
  expect((await attempts(id)).map(({ cause }) => cause)).toEqual(['fenced', 'ok']);
});
