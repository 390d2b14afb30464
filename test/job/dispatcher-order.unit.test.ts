/** Results that the dispatcher settles together, and those that it keeps apart. */
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { ClaimRequest } from '../../src/job/types.ts';
import { closeUnstartedClaim } from '../../src/job/settle.service.ts';
import { makeClaimedJob } from '../support/claimed-job.ts';
import { makeAhead, soon, World } from './dispatcher-setup.ts';

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

test('only one end of a job is settled at a time, in order', async () => {
  const world = new World(1);
  const ends = ['first', 'second'].map((claimToken) => makeClaimedJob({ id: 'a', claimToken }));
  const other = makeClaimedJob({ id: 'b' });
  world.dispatcher.close([...ends, other].map(closeUnstartedClaim));
  await soon();
  expect(world.rounds.map((one) => one.ends)).toEqual([['a', 'b'], ['a']]);
  const tokens = world.published.flatMap(({ endedJobs = [] }) =>
    endedJobs.map((one) => one.claimToken),
  );
  expect(tokens).toEqual(['first', 'token', 'second']);
});

test('every commit is published, even one that only claimed jobs', async () => {
  const world = new World(1);
  world.queue = ['a'];
  world.dispatcher.startClaiming();
  await soon();
  expect(world.published.map(({ endedJobs }) => endedJobs)).toEqual([[]]);
  expect(world.running).toEqual(['a']);
});

test('a claim names the limit of the whole ledger, if there is one', async () => {
  const world = new World(1);
  const claims: (ClaimRequest | undefined)[] = [];
  world.onSettle = (claim) => claims.push(claim);
  world.dispatcher.startClaiming();
  await soon();
  world.most = 3;
  world.dispatcher.wake();
  await soon();
  expect(claims.map((claim) => claim?.workersMax)).toEqual([undefined, 3]);
  expect(claims[0]).not.toHaveProperty('workersMax');
  expect(claims[0]).toMatchObject({ processId: 'me', snapshotId: 'snapshot' });
});

test.each(['wake', 'notifyWork'] as const)(
  '%s starts waiting claims when there is a free slot',
  async (call) => {
    const world = await makeAhead();
    world.slots = 2;
    world.dispatcher[call]();
    expect(world.running).toEqual(['b', 'c']);
    await soon();
  },
);

test('a job of a claim in progress is released, too, when waiting claims are', async () => {
  const world = new World(1);
  world.queue = ['a', 'b', 'c'];
  world.dispatcher.startClaiming();
  await soon();
  await vi.advanceTimersByTimeAsync(1);
  world.onSettle = () => {
    world.onSettle = () => undefined;
    void world.dispatcher.releaseWaiting(() => true);
  };
  world.ends.get('a')?.();
  await soon();
  expect(world.running).toEqual(['b']);
  expect(world.rounds.at(-1)).toMatchObject({ ends: ['c'], causes: ['not_started'] });
});

test('the dispatcher is not idle while an attempt runs, however often the ledger responds', async () => {
  const world = new World(2);
  world.queue = ['a'];
  world.dispatcher.startClaiming();
  await soon();
  let isDrained = false;
  void world.dispatcher.awaitIdle().then(() => (isDrained = true));
  world.dispatcher.wake();
  await soon();
  expect(world.rounds).toHaveLength(2);
  expect(isDrained).toBe(false);
  world.ends.get('a')?.();
  await soon();
  expect(isDrained).toBe(true);
});
