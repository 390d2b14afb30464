/** Jobs of one dependency key, and servers that die while one of them has it. */
import { expect, test } from 'vitest';
import type { Operation } from '../support/crash/client.ts';
import { makeCrashTest, type CrashTest } from '../support/crash/crash-test.ts';

const JOBS = 4;
const DONE = 'end,recorder';

/** Asks for jobs of one key, and one that has none. */
async function ask(crashTest: CrashTest, hanging = 0): Promise<Operation[]> {
  const operations: Operation[] = [];
  for (let job = 0; job < JOBS; job += 1) {
    operations.push(
      await crashTest.client.enqueue({ key: 'k', ...(job < hanging ? { hang_before: 2 } : {}) }),
    );
  }
  operations.push(await crashTest.client.enqueue());
  return operations;
}

/** All jobs are done, each once, and jobs with the same key never ran at the same time. */
async function expectOneByOne(crashTest: CrashTest, jobs = JOBS + 1): Promise<void> {
  await crashTest.drain();
  const { faults, counts } = await crashTest.verify();
  expect(faults).toEqual([]);
  expect(counts.acknowledged).toBe(jobs);
  const ends = (await crashTest.record()).filter(
    ({ phase, plugin }) => [phase, plugin].join() === DONE,
  );
  expect(new Set(ends.map(({ job_id: id }) => id)).size).toBe(jobs);
}

test('a holder that dies with its server gives the key back', async () => {
  const crashTest = await makeCrashTest('sqlite');
  const first = await crashTest.start();
  const [holder = { ref: 0, outcome: 'unknown' }, , , , free] = await ask(crashTest, 1);
  await crashTest.recorded(holder, { phase: 'start' });
  if (free !== undefined) await crashTest.recorded(free, { phase: 'end' });
  const waiting = await crashTest.client.get(`/jobs?status=queued`);
  expect(waiting.body['total']).toBe(JOBS - 1);
  await first.kill();
  await crashTest.start();
  await expectOneByOne(crashTest);
});

// A loss at each of these points depends on the surrounding transaction, which is the same on both
// databases.
test.each([
  ['claim.before-commit', 'postgres'],
  ['claim.after-commit', 'sqlite'],
  ['settle.before-commit', 'sqlite'],
  ['settle.after-commit', 'postgres'],
] as const)('a server that is killed at %s on %s loses no key', async (probe, on) => {
  const crashTest = await makeCrashTest(on, { max_workers: 3 });
  await crashTest.withLedger((ledger) => ledger.meta.write('paused', '1'));
  const victim = await crashTest.start(`${probe}:kill:${probe.startsWith('claim') ? 1 : 2}`);
  await ask(crashTest);
  await crashTest.client.post('/system/resume').catch(() => 'it may die before it answers');
  expect(await victim.exited).toEqual({ code: null, signal: 'SIGKILL' });
  await crashTest.start();
  await expectOneByOne(crashTest);
});

test('another host continues with the key when its holder is dead', async () => {
  const crashTest = await makeCrashTest('postgres', { poll_interval: '1h' });
  const first = await crashTest.start();
  const [holder = { ref: 0, outcome: 'unknown' }] = await ask(crashTest, 1);
  await crashTest.recorded(holder, { phase: 'start' });
  await crashTest.start();
  const more = await crashTest.client.enqueue({ key: 'k' });
  expect(more.outcome).toBe('acknowledged');
  await first.kill();
  await expectOneByOne(crashTest, JOBS + 2);
});
