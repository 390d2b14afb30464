/** Jobs of one dependency key, and servers that die while one of them has it. */
import { expect, test } from 'vitest';
import type { Operation } from '../support/crash/client.ts';
import { makeCrashTest, type CrashTest } from '../support/crash/crash-test.ts';

const timeout = 90_000;
const JOBS = 4;
const DONE = 'end,recorder';

/** Asks for jobs of one key, and one that has none. */
async function ask(stage: CrashTest, hanging = 0): Promise<Operation[]> {
  const operations: Operation[] = [];
  for (let job = 0; job < JOBS; job += 1) {
    operations.push(
      await stage.client.enqueue({ key: 'k', ...(job < hanging ? { hang_before: 2 } : {}) }),
    );
  }
  operations.push(await stage.client.enqueue());
  return operations;
}

/** All are done, each once, and none of the key while another one was: the record tells who still lived. */
async function expectOneByOne(stage: CrashTest, jobs = JOBS + 1): Promise<void> {
  await stage.drain();
  const { faults, counts } = await stage.judge();
  expect(faults).toEqual([]);
  expect(counts.acknowledged).toBe(jobs);
  const ends = (await stage.record()).filter(
    ({ phase, plugin }) => [phase, plugin].join() === DONE,
  );
  expect(new Set(ends.map(({ job_id: id }) => id)).size).toBe(jobs);
}

test('a holder that dies with its server gives the key back', { timeout }, async () => {
  const stage = await makeCrashTest('sqlite');
  const first = await stage.start();
  const [holder = { ref: 0, outcome: 'unknown' }, , , , free] = await ask(stage, 1);
  await stage.recorded(holder, { phase: 'start' });
  if (free !== undefined) await stage.recorded(free, { phase: 'end' });
  const waiting = await stage.client.get(`/jobs?status=queued`);
  expect(waiting.body['total']).toBe(JOBS - 1);
  await first.kill();
  await stage.start();
  await expectOneByOne(stage);
});

// A loss at each of these points depends on the surrounding transaction, which is the same on both
// databases.
test.each([
  ['claim.before-commit', 'postgres'],
  ['claim.after-commit', 'sqlite'],
  ['settle.before-commit', 'sqlite'],
  ['settle.after-commit', 'postgres'],
] as const)('a server that is killed at %s on %s loses no key', { timeout }, async (probe, on) => {
  const stage = await makeCrashTest(on, { max_workers: 3 });
  await stage.withLedger((ledger) => ledger.meta.write('paused', '1'));
  const victim = await stage.start(`${probe}:kill:${probe.startsWith('claim') ? 1 : 2}`);
  await ask(stage);
  await stage.client.post('/system/resume').catch(() => 'it may die before it answers');
  expect(await victim.exited).toEqual({ code: null, signal: 'SIGKILL' });
  await stage.start();
  await expectOneByOne(stage);
});

test('another host continues with the key when its holder is dead', { timeout }, async () => {
  const stage = await makeCrashTest('postgres', { poll_interval: '1h' });
  const first = await stage.start();
  const [holder = { ref: 0, outcome: 'unknown' }] = await ask(stage, 1);
  await stage.recorded(holder, { phase: 'start' });
  await stage.start();
  const more = await stage.client.enqueue({ key: 'k' });
  expect(more.outcome).toBe('acknowledged');
  await first.kill();
  await expectOneByOne(stage, JOBS + 2);
});
