import { existsSync } from 'node:fs';
import { expect, test } from 'vitest';
import { findInstallPaths } from '../../src/app/install-paths.ts';
import { HOST_FULL_DELAY_MS } from '../../src/job/executor.service.ts';
import type { Runner } from '../../src/job/run-plugin.service.ts';
import type { ProcessEnd } from '../../src/plugin/process.ts';
import { waitForDeath } from '../support/hosts.ts';
import { eventually, makePlace } from '../support/instance.ts';
import { succeeds, waitsForGate } from '../support/plugin-program.ts';
import { findDescendants } from '../support/processes.ts';

async function findSpawner(): Promise<number> {
  const children = await findDescendants(process.pid);
  const found = children.filter(
    ({ parent, command }) => parent === process.pid && command.includes('spawner'),
  );
  expect(found).toHaveLength(1);
  return found[0]?.pid ?? 0;
}

const spawners = existsSync(findInstallPaths().nativeSpawner) ? ['native', 'node'] : ['node'];

test.each(spawners)('the death of the %s spawner is not charged to any job', async (spawner) => {
  const place = await makePlace({
    service: { spawner, max_workers: 3 },
    plugins: { worker: { program: waitsForGate } },
  });
  const { submit, ended, attempts, engine, run } = await place.start();
  expect(engine.status().spawner).toBe(spawner);
  const ids = [await submit('worker'), await submit('worker')];
  await eventually('both run', async () => (await place.notes()).length === 2);
  const pids = (await place.notes()).map((line) => Number(line.split(' ')[3]));
  await place.openGate('2');
  const before = await findSpawner();
  process.kill(before, 'SIGKILL');
  for (const id of ids) {
    expect(await ended(id)).toMatchObject({
      status: 'succeeded',
      attempt: 2,
      retryCount: 0,
      crashCount: 0,
      interruptCount: 0,
    });
    const rows = await attempts(id);
    expect(rows.map(({ status, cause }) => [status, cause])).toEqual([
      ['released', 'spawner_died'],
      ['succeeded', 'ok'],
    ]);
  }
  for (const pid of pids) await waitForDeath(pid);
  const ends = (await place.notes()).filter((line) => line.startsWith('end'));
  expect(ends.map((line) => line.split(' ')[2])).toEqual(['2', '2']);
  expect(await findSpawner()).not.toBe(before);
  await place.openGate('1');
  expect((await run('worker')).status).toBe('succeeded');
});

const noRoom: ProcessEnd = {
  exit: { kind: 'unstarted', code: 'EAGAIN', hostFull: true },
  stopped: undefined,
  pid: undefined,
  stdout: Buffer.alloc(0),
  stdoutOverflowed: false,
  stderr: Buffer.alloc(0),
  stderrTruncated: false,
  spawnMs: 0,
  runMs: 0,
  cpuMs: undefined,
  memoryPeakBytes: undefined,
};

test('a machine without room for more processes is not charged to any job, and claims rest', async () => {
  let full = true;
  let starts = 0;
  const runner = (real: Runner): Runner => ({
    ...real,
    run: (...given) => {
      starts += 1;
      return full ? Promise.resolve(noRoom) : real.run(...given);
    },
  });
  const place = await makePlace({
    service: { max_workers: 1 },
    plugins: { worker: { program: succeeds } },
  });
  const { submit, ended, attempts, ledger } = await place.start({ runner });
  const first = await submit('worker');
  await eventually('it was given back', async () => (await ledger.jobs.find(first))?.attempt === 2);
  const second = await submit('worker');
  full = false;
  const jobs = [await ended(first), await ended(second)];
  expect(starts).toBe(3);
  expect(jobs).toMatchObject([
    { status: 'succeeded', attempt: 2, retryCount: 0 },
    { status: 'succeeded', attempt: 1, retryCount: 0 },
  ]);
  const [row] = await attempts(first);
  expect(row).toMatchObject({ status: 'released', cause: 'host_full', pid: null });
  expect(row?.error).toContain('EAGAIN');
  const restMs = Date.parse(jobs[1]?.startedAt ?? '') - Date.parse(row?.completedAt ?? '');
  expect(restMs).toBeGreaterThan(HOST_FULL_DELAY_MS / 2);
});

test('a spawner that refuses because no heartbeat came gets no new request at once', async () => {
  let fenced = true;
  let starts = 0;
  const refused = {
    ...noRoom,
    exit: { ...noRoom.exit, hostFull: false },
    stopped: 'fenced',
  } as const;
  const runner = (real: Runner): Runner => ({
    ...real,
    run: (...given) => {
      starts += 1;
      return fenced ? Promise.resolve(refused) : real.run(...given);
    },
  });
  const place = await makePlace({
    service: { max_workers: 1 },
    plugins: { worker: { program: succeeds } },
  });
  const { submit, ended, attempts, ledger } = await place.start({ runner });
  const id = await submit('worker');
  await eventually(
    'it was given back',
    async () => ((await ledger.jobs.find(id))?.attempt ?? 1) > 1,
  );
  fenced = false;
  expect(await ended(id)).toMatchObject({ status: 'succeeded', attempt: 2, retryCount: 0 });
  expect(starts).toBe(2);
  expect(await attempts(id)).toMatchObject([{ status: 'released', cause: 'fenced' }, {}]);
});

test('a defect of the engine itself is not charged to any job and does not spin', async () => {
  let broken = true;
  const runner = (real: Runner): Runner => ({
    ...real,
    run: (...given) => (broken ? Promise.reject(new Error('a defect')) : real.run(...given)),
  });
  const place = await makePlace({ plugins: { worker: { program: succeeds } } });
  const { submit, ledger, attempts, records, run } = await place.start({ runner });
  const id = await submit('worker');
  const job = await eventually('it was given back', async () => {
    const found = await ledger.jobs.find(id);
    return found?.attempt === 2 ? found : undefined;
  });
  expect(job).toMatchObject({ status: 'queued', retryCount: 0 });
  const waitMs = Date.parse(job.nextRetryAt ?? '') - Date.parse(await ledger.now());
  expect(waitMs).toBeGreaterThan(5000);
  expect(await attempts(id)).toEqual([
    expect.objectContaining({ status: 'released', error: 'a defect' }),
  ]);
  expect(records).toContainEqual(
    expect.objectContaining({ level: 'error', job_id: id, error: 'a defect' }),
  );
  broken = false;
  expect((await run('worker')).status).toBe('succeeded');
});
