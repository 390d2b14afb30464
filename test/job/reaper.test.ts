import { describe, expect, onTestFinished, test } from 'vitest';
import { makeId } from '../../src/base/ids.ts';
import type { JobDraft } from '../../src/job/job.ts';
import { cancel } from '../support/direct.ts';
import { databases, eventually, makePlace } from '../support/instance.ts';
import { succeeds, waitsForGate } from '../support/plugin-program.ts';

function draftFor(plugin: string): JobDraft {
  const work = { plugin, command: 'poll', payload: '{}', maxAttempts: 4 };
  return { ...work, id: makeId(), submittedBy: 'cli', actor: 'test' };
}

/** The settings of a host that soon presumes others dead. */
const quick = { heartbeat_interval: '100ms', reap_after: '2s' };
const service = { heartbeat_interval: '50ms', reap_after: '1s', runner_grace: '200ms' };

describe.each(databases)('on %s', (database) => {
  test('a job without a runner is dead after the grace time, and says why', async () => {
    const place = await makePlace({
      database,
      service,
      plugins: { alarm: { program: succeeds } },
      routes: [{ event_type: 'job.dead', to: 'alarm' }],
    });
    const { ledger, ended, attempts, records } = await place.start();
    const draft = draftFor('ghost');
    await ledger.jobs.enqueue({ jobs: [draft] });
    const job = await ended(draft.id);
    expect(job).toMatchObject({ status: 'dead', reason: 'no_runner', attempt: 1, retryCount: 0 });
    expect(job.lastError).toContain('ghost');
    const waitedMs = Date.parse(job.completedAt ?? '') - Date.parse(job.createdAt);
    expect(waitedMs).toBeGreaterThanOrEqual(200);
    expect(await attempts(draft.id)).toEqual([]);
    const [alarm] = await ledger.jobs.list({ parentJobId: draft.id, limit: 9 });
    expect((await ended(alarm?.id ?? '')).status).toBe('succeeded');
    expect(records).toContainEqual(
      expect.objectContaining({
        level: 'warn',
        message: 'job given up',
        job_id: draft.id,
        reason: 'no_runner',
      }),
    );
  });

  test('a job that another live process can run waits for it', async () => {
    const place = await makePlace({
      database,
      service,
      plugins: { worker: { program: succeeds } },
    });
    const { ledger, ended, run } = await place.start();
    const beat = { host: 'elsewhere', pid: 1, version: '1', slots: 1, spawner: 'native' };
    await ledger.processes.heartbeat({ ...beat, id: 'elsewhere', plugins: ['known'] });
    const far = '2999-01-01T00:00:00.000Z';
    await place.sql('update processes set last_heartbeat_at = ? where id = ?', far, 'elsewhere');
    const [known, ghost] = [draftFor('known'), draftFor('ghost')];
    await ledger.jobs.enqueue({ jobs: [known, ghost] });
    expect((await ended(ghost.id)).status).toBe('dead');
    expect((await ledger.jobs.find(known.id))?.status).toBe('queued');
    expect((await run('worker')).status).toBe('succeeded');
  });
});

test('the grace time of jobs starts when the last host with their plugin went away', async () => {
  const slow = { ...service, runner_grace: '1500ms' };
  const plugins = { worker: { program: succeeds } };
  const { ledger, ended } = await (
    await makePlace({ database: 'postgres', service: slow, plugins })
  ).start();
  const beat = { host: 'elsewhere', pid: 1, version: '1', slots: 1, spawner: 'native' };
  const elsewhere = { ...beat, id: 'elsewhere', plugins: ['known'] };
  const beating = setInterval(() => void ledger.processes.heartbeat(elsewhere), 100);
  onTestFinished(() => clearInterval(beating));
  const [known, ghost] = [draftFor('known'), draftFor('ghost')];
  await ledger.jobs.enqueue({ jobs: [known, ghost] });
  expect((await ended(ghost.id)).status).toBe('dead');
  clearInterval(beating);
  await ledger.processes.heartbeat(elsewhere);
  const leftAt = await ledger.now();
  await ledger.processes.leave('elsewhere');
  const job = await ended(known.id);
  expect(job).toMatchObject({ status: 'dead', reason: 'no_runner' });
  const waitedMs = Date.parse(job.completedAt ?? '') - Date.parse(leftAt);
  // The process may have been seen half a heartbeat earlier.
  expect(waitedMs).toBeGreaterThan(1000);
});

test('an expired claim is released although its process is alive', async () => {
  const place = await makePlace({
    database: 'postgres',
    plugins: { worker: { program: waitsForGate } },
  });
  const owner = await place.start();
  const id = await owner.submit('worker');
  await eventually('it runs', async () => (await place.notes()).length === 1);
  const other = await (await place.vary({ service: quick })).start();
  const past = '2000-01-01T00:00:00.000Z';
  await place.sql('update job_queue set claim_expires_at = ? where id = ?', past, id);
  await place.openGate('2');
  const job = await owner.ended(id);
  expect(job).toMatchObject({
    status: 'succeeded',
    attempt: 2,
    retryCount: 0,
    crashCount: 0,
    interruptCount: 1,
  });
  await place.openGate('1');
  await eventually('the late result is discarded', () =>
    owner.records.some(({ message }) => message.startsWith('a result came after its claim')),
  );
  const rows = await owner.attempts(id);
  expect(rows.map(({ status, cause }) => [status, cause])).toEqual([
    ['crashed', 'claim_expired'],
    ['succeeded', 'ok'],
  ]);
  expect(other.records).toContainEqual(
    expect.objectContaining({ level: 'warn', message: 'job recovered', cause: 'claim_expired' }),
  );
});

test('a job whose cancellation was requested is cancelled although its process died', async () => {
  const place = await makePlace({
    database: 'postgres',
    plugins: { worker: { program: waitsForGate } },
    service: { max_workers: 1, heartbeat_interval: '1h', reap_after: '3h' },
  });
  const silent = await place.start();
  const id = await silent.submit('worker');
  await eventually('it runs', async () => (await place.notes()).length === 1);
  const other = await (await place.vary({ service: quick })).start();
  expect((await cancel(other.engine, id)).status).toBe('running');
  expect(await other.ended(id)).toMatchObject({ status: 'cancelled', reason: 'cancelled' });
  expect(await other.attempts(id)).toEqual([
    expect.objectContaining({ status: 'crashed', cause: 'engine_crash' }),
  ]);
  expect(await other.ledger.signals.list({ type: 'job.dead', limit: 9 })).toEqual([]);
});
