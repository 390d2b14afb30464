import { describe, expect, test } from 'vitest';
import { isAlive } from '../support/hosts.ts';
import { databases, eventually } from '../support/instance.ts';
import type { Operation } from '../support/crash/client.ts';
import { startLoad } from '../support/crash/load.ts';
import { makeRandom } from '../support/crash/random.ts';
import { findSpawner, type Exit } from '../support/crash/server.ts';
import { makeCrashTest, type CrashTest } from '../support/crash/crash-test.ts';

const killed: Exit = { code: null, signal: 'SIGKILL' };

describe.each(databases)('on %s', (database) => {
  test('a job whose server is killed under it is finished by the next one', async () => {
    const crashTest = await makeCrashTest(database);
    const first = await crashTest.start();
    const operation = await crashTest.client.enqueue({ hang_before: 2 });
    const { pid } = await crashTest.recorded(operation, { attempt: 1, phase: 'start' });
    await first.kill();
    await crashTest.start();
    await crashTest.recorded(operation, { attempt: 2, phase: 'end' });
    expect(isAlive(pid)).toBe(false);
    await crashTest.drain();
    const { faults, counts } = await crashTest.verify();
    expect(faults).toEqual([]);
    expect(counts).toMatchObject({ crashed: 1, repeated: 1, failed: 0, released: 0 });
    const { job, story } = await readStory(crashTest, operation.jobId);
    expect(job).toMatchObject({ attempt: 2, crashCount: 1, retryCount: 0 });
    expect(story).toEqual([
      [1, 'crashed', 'engine_crash'],
      [2, 'succeeded', 'ok'],
    ]);
  });

  test('a spawner that is killed under load costs no attempt', async () => {
    const crashTest = await makeCrashTest(database, { max_workers: 3 });
    const server = await crashTest.start();
    const load = startLoad(crashTest.client, makeRandom(1));
    for (let round = 0; round < 3; round += 1) {
      const spawner = await eventually('there is a helper', () => findSpawner(server.pid));
      const operation = await startHanging(crashTest);
      process.kill(spawner, 'SIGKILL');
      await crashTest.recorded(operation, { attempt: 2, phase: 'end' });
    }
    await load.stop();
    await crashTest.drain();
    expect(server.isAlive).toBe(true);
    const { faults, counts } = await crashTest.verify();
    expect(faults).toEqual([]);
    expect(counts.released).toBeGreaterThanOrEqual(3);
    expect(counts).toMatchObject({ crashed: 0, refused: 0, unknown: 0 });
  });

  test('a job that kills every server is given up, and the others are not', async () => {
    const crashTest = await makeCrashTest(database, { max_crashes: 3 });
    const poisoned = 'spawn.after:kill';
    const first = await crashTest.start(poisoned);
    const operation = await crashTest.client.enqueue();
    const { jobId = '' } = operation;
    expect(await first.exited).toEqual(killed);
    // The job is retried immediately after the first crash, and with a delay after the second.
    expect(await crashTest.launch(poisoned).exited).toEqual(killed);
    const third = await crashTest.start(poisoned);
    await eventually('the second crash is counted', async () => {
      const { body } = await crashTest.client.get(`/job/${jobId}`);
      return body['crash_count'] === 2 && body['next_retry_at'] !== null;
    });
    await third.stop();
    const { job: waiting } = await readStory(crashTest, jobId);
    expect(Date.parse(waiting.nextRetryAt ?? '') - Date.now()).toBeGreaterThan(10_000);
    await crashTest.place.sql('update job_queue set next_retry_at = null where id = ?', jobId);
    expect(await crashTest.launch(poisoned).exited).toEqual(killed);
    await crashTest.start();
    await eventually('it is given up', async () => {
      const { body } = await crashTest.client.get(`/job/${jobId}`);
      return body['status'] === 'dead';
    });
    const innocent = await crashTest.client.enqueue();
    await crashTest.recorded(innocent, { phase: 'end' });
    await crashTest.drain();
    const { faults } = await crashTest.verify();
    expect(faults).toEqual([expect.stringContaining(`unfinished: ${jobId} is left dead`)]);
    const { job, story } = await readStory(crashTest, jobId);
    expect(job).toMatchObject({ reason: 'crashes_exhausted', crashCount: 3, retryCount: 0 });
    expect(story.map(([, status]) => status)).toEqual(['crashed', 'crashed', 'crashed']);
    const signals = await crashTest.withLedger((ledger) =>
      ledger.signals.list({ type: 'job.dead', limit: 9 }),
    );
    expect(signals).toHaveLength(1);
    expect(signals[0]).toMatchObject({ jobId, subjectId: jobId });
  });
});

test('a second server on the same state ends at once and names the first', async () => {
  const crashTest = await makeCrashTest('sqlite');
  const first = await crashTest.start();
  const second = crashTest.launch();
  await expect(second.ready).rejects.toThrow();
  expect(await second.exited).toEqual({ code: 1, signal: null });
  expect(second.complaints).toContain(`process ${first.pid}`);
  expect(await crashTest.client.enqueue()).toMatchObject({ outcome: 'acknowledged' });
  await crashTest.drain();
  expect((await crashTest.verify()).faults).toEqual([]);
});

/**
 * Starts a job whose first attempt hangs. On a busy machine, an attempt that finds no slot in time is
 * released without a start, and the next one doesn't hang. Then another job takes its place.
 */
async function startHanging(crashTest: CrashTest): Promise<Operation> {
  for (;;) {
    const operation = await crashTest.client.enqueue({ hang_before: 2 });
    const { attempt } = await crashTest.recorded(operation, { phase: 'start' });
    if (attempt === 1) return operation;
  }
}

type AttemptSummary = readonly [attempt: number, status: string, cause: string];

async function readStory(crashTest: CrashTest, jobId = '') {
  return crashTest.withLedger(async (ledger) => {
    const job = await ledger.jobs.find(jobId);
    if (job === undefined) throw new Error(`there is no job ${jobId}`);
    const attempts = await ledger.attempts.listByJob([jobId]);
    const story = attempts.map(({ attempt, status, cause }): AttemptSummary => [
      attempt,
      status,
      cause,
    ]);
    return { job, story };
  });
}
