import { describe, expect, test } from 'vitest';
import { cancel, pause, resume } from '../support/direct.ts';
import { isAlive } from '../support/hosts.ts';
import { databases, eventually, makePlace, type TestPlace } from '../support/instance.ts';
import { python, succeeds, waitsForGate } from '../support/plugin-program.ts';

async function pidOfFirst(place: TestPlace): Promise<number> {
  const line = await eventually('it has begun', async () => (await place.notes())[0]);
  return Number(line.split(' ').at(-1));
}

describe.each(databases)('cancelling on %s', (database) => {
  test('a job that waits means that it never starts', async () => {
    const plugins = { worker: { program: waitsForGate } };
    const place = await makePlace({ database, plugins, service: { max_workers: 1 } });
    const { submit, ended, engine, attempts, ledger } = await place.start();
    const first = await submit('worker');
    await pidOfFirst(place);
    const second = await submit('worker');
    const waiter = ended(second);
    expect(await cancel(engine, second)).toMatchObject({
      status: 'cancelled',
      reason: 'cancelled',
    });
    expect((await waiter).status).toBe('cancelled');
    await place.openGate('1');
    expect((await ended(first)).status).toBe('succeeded');
    expect(await attempts(second)).toEqual([]);
    expect((await place.notes()).filter((line) => line.includes(second))).toEqual([]);
    expect(await ledger.signals.list({ type: 'job.dead', limit: 9 })).toEqual([]);
  });

  test('a job that runs stops it, and nothing is retried', async () => {
    const place = await makePlace({ database, plugins: { worker: { program: waitsForGate } } });
    const { submit, ended, engine, attempts, ledger } = await place.start();
    const id = await submit('worker');
    const pid = await pidOfFirst(place);
    await cancel(engine, id);
    const job = await ended(id);
    expect(job).toMatchObject({ status: 'cancelled', reason: 'cancelled', retryCount: 0 });
    expect(isAlive(pid)).toBe(false);
    expect(await attempts(id)).toEqual([
      expect.objectContaining({ status: 'cancelled', cause: 'cancelled', signal: 'SIGTERM' }),
    ]);
    expect(await ledger.signals.list({ type: 'job.dead', limit: 9 })).toEqual([]);
  });

  test('a job that waits for its next attempt ends it there', async () => {
    const settings = { retry: { backoff_base: '1h' } };
    const plugins = { worker: { program: python('fail()'), settings } };
    const place = await makePlace({ database, plugins });
    const { submit, engine, attempts, ledger } = await place.start();
    const id = await submit('worker');
    await eventually('it failed once', async () => (await ledger.jobs.find(id))?.attempt === 2);
    expect(await cancel(engine, id)).toMatchObject({ status: 'cancelled', retryCount: 1 });
    expect(await attempts(id)).toHaveLength(1);
  });

  test('an ended job changes nothing, and an unknown job is an error', async () => {
    const place = await makePlace({ database, plugins: { worker: { program: succeeds } } });
    const { run, engine } = await place.start();
    const { id } = await run('worker');
    expect(await cancel(engine, id)).toMatchObject({ id, status: 'succeeded' });
    await expect(cancel(engine, 'nobody')).rejects.toMatchObject({ code: 'JOB_NOT_FOUND' });
  });
});

test('cancelling from another host stops the job where it runs', async () => {
  const place = await makePlace({
    database: 'postgres',
    plugins: { worker: { program: waitsForGate } },
  });
  const owner = await place.start();
  const id = await owner.submit('worker');
  const pid = await pidOfFirst(place);
  const other = await place.start();
  await cancel(other.engine, id);
  expect((await other.ended(id)).status).toBe('cancelled');
  expect(isAlive(pid)).toBe(false);
  const [row] = await owner.attempts(id);
  expect(row).toMatchObject({ cause: 'cancelled', processId: owner.engine.processId });
});

test('a failure that comes while the job is being cancelled is the end of it', async () => {
  const program = python(`
def give_up(*_): fail("interrupted")
signal.signal(signal.SIGTERM, give_up)
note("begin", os.getpid())
wait_for("never")`);
  const place = await makePlace({ plugins: { worker: { program } } });
  const { submit, ended, engine, attempts } = await place.start();
  const id = await submit('worker');
  await pidOfFirst(place);
  await cancel(engine, id);
  expect(await ended(id)).toMatchObject({ status: 'cancelled', attempt: 1 });
  const [row] = await attempts(id);
  expect(JSON.parse(row?.result ?? '')).toMatchObject({ error: 'interrupted' });
});

describe.each(databases)('pausing on %s', (database) => {
  test('starts nothing new until it is resumed; running jobs continue', async () => {
    const place = await makePlace({ database, plugins: { worker: { program: waitsForGate } } });
    const { submit, ended, engine, ledger } = await place.start();
    const first = await submit('worker');
    await pidOfFirst(place);
    await pause(engine);
    expect(engine.status().state).toBe('paused');
    const second = await submit('worker');
    await place.openGate('1');
    expect((await ended(first)).status).toBe('succeeded');
    expect((await ledger.jobs.find(second))?.status).toBe('queued');
    await resume(engine);
    expect(engine.status().state).toBe('running');
    expect((await ended(second)).status).toBe('succeeded');
  });

  test('outlives the process', async () => {
    const place = await makePlace({ database, plugins: { worker: { program: succeeds } } });
    const before = await place.start();
    await pause(before.engine);
    const id = await before.submit('worker');
    await before.close();
    const after = await place.start();
    expect(after.engine.status().state).toBe('paused');
    expect((await after.ledger.jobs.find(id))?.status).toBe('queued');
    await resume(after.engine);
    expect((await after.ended(id)).status).toBe('succeeded');
  });
});

test('pausing one host pauses the others', async () => {
  const place = await makePlace({
    database: 'postgres',
    plugins: { worker: { program: succeeds } },
  });
  const [one, two] = [await place.start(), await place.start()];
  await pause(one.engine);
  await eventually('the other is paused', () => two.engine.status().state === 'paused');
  const id = await two.submit('worker');
  expect((await two.ledger.jobs.find(id))?.status).toBe('queued');
  await resume(two.engine);
  await eventually('the first goes on', () => one.engine.status().state === 'running');
  expect((await one.ended(id)).status).toBe('succeeded');
});
