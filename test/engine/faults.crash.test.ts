import { describe, expect, test } from 'vitest';
import { isAlive } from '../support/hosts.ts';
import { databases, eventually } from '../support/instance.ts';
import { startLoad } from '../support/crash/load.ts';
import { makeRandom } from '../support/crash/random.ts';
import { findHelper, type Exit } from '../support/crash/server.ts';
import { makeCrashTest, type CrashTest } from '../support/crash/crash-test.ts';

const timeout = 90_000;
const killed: Exit = { code: null, signal: 'SIGKILL' };

describe.each(databases)('on %s', (database) => {
  test(
    'a job whose server is killed under it is finished by the next one',
    { timeout },
    async () => {
      const stage = await makeCrashTest(database);
      const first = await stage.start();
      const operation = await stage.client.enqueue({ hang_before: 2 });
      const { pid } = await stage.recorded(operation, { attempt: 1, phase: 'start' });
      await first.kill();
      await stage.start();
      await stage.recorded(operation, { attempt: 2, phase: 'end' });
      expect(isAlive(pid)).toBe(false);
      await stage.drain();
      const { faults, counts } = await stage.judge();
      expect(faults).toEqual([]);
      expect(counts).toMatchObject({ crashed: 1, repeated: 1, failed: 0, released: 0 });
      const { job, story } = await tell(stage, operation.jobId);
      expect(job).toMatchObject({ attempt: 2, crashCount: 1, retryCount: 0 });
      expect(story).toEqual([
        [1, 'crashed', 'engine_crash'],
        [2, 'succeeded', 'ok'],
      ]);
    },
  );

  test('a spawner that is killed under load costs no attempt', { timeout }, async () => {
    const stage = await makeCrashTest(database, { max_workers: 3 });
    const server = await stage.start();
    const load = startLoad(stage.client, makeRandom(1));
    for (let round = 0; round < 3; round += 1) {
      const helper = await eventually('there is a helper', () => findHelper(server.pid));
      const operation = await stage.client.enqueue({ hang_before: 2 });
      await stage.recorded(operation, { attempt: 1, phase: 'start' });
      process.kill(helper, 'SIGKILL');
      await stage.recorded(operation, { attempt: 2, phase: 'end' });
    }
    await load.stop();
    await stage.drain();
    expect(server.isAlive).toBe(true);
    const { faults, counts } = await stage.judge();
    expect(faults).toEqual([]);
    expect(counts.released).toBeGreaterThanOrEqual(3);
    expect(counts).toMatchObject({ crashed: 0, refused: 0, unknown: 0 });
  });

  test(
    'a job that kills every server is given up, and the others are not',
    { timeout },
    async () => {
      const stage = await makeCrashTest(database, { max_crashes: 3 });
      const poisoned = 'spawn.after:kill';
      const first = await stage.start(poisoned);
      const operation = await stage.client.enqueue();
      const { jobId = '' } = operation;
      expect(await first.exited).toEqual(killed);
      // It is tried again at once, and then only after a while.
      expect(await stage.launch(poisoned).exited).toEqual(killed);
      const third = await stage.start(poisoned);
      await eventually('the second crash is counted', async () => {
        const { body } = await stage.client.get(`/job/${jobId}`);
        return body['crash_count'] === 2 && body['next_retry_at'] !== null;
      });
      await third.stop();
      const { job: waiting } = await tell(stage, jobId);
      expect(Date.parse(waiting.nextRetryAt ?? '') - Date.now()).toBeGreaterThan(10_000);
      await stage.place.sql('update job_queue set next_retry_at = null where id = ?', jobId);
      expect(await stage.launch(poisoned).exited).toEqual(killed);
      await stage.start();
      await eventually('it is given up', async () => {
        const { body } = await stage.client.get(`/job/${jobId}`);
        return body['status'] === 'dead';
      });
      const innocent = await stage.client.enqueue();
      await stage.recorded(innocent, { phase: 'end' });
      await stage.drain();
      const { faults } = await stage.judge();
      expect(faults).toEqual([expect.stringContaining(`unfinished: ${jobId} is left dead`)]);
      const { job, story } = await tell(stage, jobId);
      expect(job).toMatchObject({ reason: 'crashes_exhausted', crashCount: 3, retryCount: 0 });
      expect(story.map(([, status]) => status)).toEqual(['crashed', 'crashed', 'crashed']);
      const told = await stage.withLedger((ledger) =>
        ledger.signals.list({ type: 'job.dead', limit: 9 }),
      );
      expect(told).toHaveLength(1);
      expect(told[0]).toMatchObject({ jobId, subjectId: jobId });
    },
  );
});

test(
  'a second server on the same state ends at once and names the first',
  { timeout },
  async () => {
    const stage = await makeCrashTest('sqlite');
    const first = await stage.start();
    const second = stage.launch();
    await expect(second.ready).rejects.toThrow();
    expect(await second.exited).toEqual({ code: 1, signal: null });
    expect(second.complaints).toContain(`process ${first.pid}`);
    expect(await stage.client.enqueue()).toMatchObject({ outcome: 'acknowledged' });
    await stage.drain();
    expect((await stage.judge()).faults).toEqual([]);
  },
);

type Told = readonly [attempt: number, status: string, cause: string];

async function tell(stage: CrashTest, jobId = '') {
  return stage.withLedger(async (ledger) => {
    const job = await ledger.jobs.find(jobId);
    if (job === undefined) throw new Error(`there is no job ${jobId}`);
    const attempts = await ledger.attempts.listByJob([jobId]);
    const story = attempts.map(({ attempt, status, cause }): Told => [attempt, status, cause]);
    return { job, story };
  });
}
