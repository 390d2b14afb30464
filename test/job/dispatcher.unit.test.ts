import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { makeAhead, soon, World } from './dispatcher-setup.ts';

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

describe('claims', () => {
  test('fill the free slots, and those that ended attempts free in the same commit', async () => {
    const world = new World(2);
    world.queue = ['a', 'b', 'c'];
    world.dispatcher.startClaiming();
    await soon();
    expect(world.running).toEqual(['a', 'b']);
    await vi.advanceTimersByTimeAsync(1000);
    world.ends.get('a')?.();
    await soon();
    expect(world.rounds.map(({ ends, slots }) => [ends, slots])).toEqual([
      [[], 2],
      [['a'], 1],
    ]);
    expect(world.running).toEqual(['b', 'c']);
  });

  test('count as held before their response arrives', async () => {
    const world = new World(1);
    world.queue = ['a'];
    const held: boolean[] = [];
    let token = '';
    world.onSettle = (claim) => {
      token = claim?.token ?? '';
      held.push(world.dispatcher.hasClaim('a', token));
    };
    world.dispatcher.startClaiming();
    await soon();
    expect(held).toEqual([true]);
    expect(world.dispatcher.hasClaim('a', token)).toBe(true);
    expect(world.dispatcher.hasClaim('a', 'another')).toBe(false);
  });

  test('that find nothing are not repeated until the dispatcher is woken', async () => {
    const world = new World(1);
    world.dispatcher.startClaiming();
    await vi.advanceTimersByTimeAsync(60_000);
    expect(world.rounds).toHaveLength(1);
    world.queue = ['a'];
    world.dispatcher.wake();
    await soon();
    expect(world.running).toEqual(['a']);
  });

  test('are not made while no job may start, but ended attempts are settled', async () => {
    const world = new World(2);
    world.queue = ['a', 'b', 'c'];
    world.dispatcher.startClaiming();
    await soon();
    world.mayStart = false;
    world.ends.get('a')?.();
    await soon();
    expect(world.rounds.at(-1)).toMatchObject({ ends: ['a'], slots: 0 });
    expect(world.running).toEqual(['b']);
    world.mayStart = true;
    world.dispatcher.retryNow();
    await soon();
    expect(world.running).toEqual(['b', 'c']);
  });

  describe('after a notification of new work', () => {
    test('are not repeated if the last claim came after the work', async () => {
      const world = new World(2);
      world.isLatest = () => true;
      world.dispatcher.startClaiming();
      await soon();
      world.dispatcher.notifyWork();
      await soon();
      expect(world.rounds).toHaveLength(1);
      world.dispatcher.wake();
      await soon();
      expect(world.rounds).toHaveLength(2);
    });

    test.for([
      ['something was written after the last one', { isLatest: () => false }],
      ['nobody knows what was written since', { isLatest: undefined }],
    ] as const)('are made when %s', async ([, { isLatest }]) => {
      const world = new World(2);
      world.isLatest = isLatest;
      world.dispatcher.startClaiming();
      await soon();
      world.queue = ['a'];
      world.dispatcher.notifyWork();
      await soon();
      expect(world.running).toEqual(['a']);
    });

    test('are repeated if the work is written while a claim is in progress', async () => {
      const world = new World(2);
      let writes = 0;
      world.onSettle = () => {
        const own = writes;
        world.isLatest = () => own === writes;
        if (world.rounds.length > 1) return;
        queueMicrotask(() => {
          writes += 1;
          world.queue = ['a'];
          world.dispatcher.notifyWork();
        });
      };
      world.dispatcher.startClaiming();
      await soon();
      expect(world.running).toEqual(['a']);
      expect(world.rounds).toHaveLength(2);
    });

    test('are repeated if the last claim had too few slots for all', async () => {
      const world = new World(1);
      world.isLatest = () => true;
      world.queue = ['a', 'b'];
      world.dispatcher.startClaiming();
      await soon();
      world.dispatcher.notifyWork();
      await soon();
      world.ends.get('a')?.();
      await soon();
      expect(world.running).toEqual(['b']);
    });

    test('are repeated if the last claim failed', async () => {
      const world = new World(1);
      let isLatest = true;
      world.isLatest = () => isLatest;
      world.dispatcher.startClaiming();
      await soon();
      isLatest = false;
      world.down = true;
      world.dispatcher.notifyWork();
      await soon();
      world.down = false;
      world.queue = ['a'];
      await vi.advanceTimersByTimeAsync(60_000);
      expect(world.running).toEqual(['a']);
    });
  });

  test('pause for the requested time, and then continue', async () => {
    const world = new World(1);
    world.dispatcher.pauseFor(1000);
    world.queue = ['a'];
    world.dispatcher.startClaiming();
    await vi.advanceTimersByTimeAsync(900);
    expect(world.rounds).toEqual([]);
    await vi.advanceTimersByTimeAsync(200);
    expect(world.running).toEqual(['a']);
  });

  test('stop on request, which waits for the claim in progress', async () => {
    const world = new World(2);
    world.queue = ['a'];
    let isShut = false;
    world.onSettle = () => void world.dispatcher.stopClaiming().then(() => (isShut = true));
    world.dispatcher.startClaiming();
    await soon();
    expect(isShut).toBe(true);
    expect(world.running).toEqual(['a']);
    world.queue = ['b'];
    world.dispatcher.wake();
    await soon();
    expect(world.running).toEqual(['a']);
    expect(world.rounds).toHaveLength(1);
  });
});

describe('claims ahead of the slots', () => {
  test('are held, and run in their order as soon as a slot is free', async () => {
    const world = await makeAhead();
    expect(world.running).toEqual(['b']);
    world.down = true;
    world.ends.get('b')?.();
    await soon();
    expect(world.running).toContain('c');
    world.down = false;
    await vi.advanceTimersByTimeAsync(1000);
    expect(world.rounds.at(-1)).toMatchObject({ ends: ['b'], slots: 1 });
  });

  test('are released when claiming stops', async () => {
    const world = await makeAhead();
    await world.dispatcher.stopClaiming();
    await soon();
    expect(world.rounds.at(-1)).toMatchObject({ ends: ['c'], causes: ['not_started'], slots: 0 });
    expect(world.running).toEqual(['b']);
    expect(world.ends.has('c')).toBe(false);
  });

  test('are released when their plugin is disabled', async () => {
    const world = await makeAhead();
    await world.dispatcher.releaseWaiting((plugin) => plugin === 'another');
    expect(world.rounds).toHaveLength(2);
    const held = world.dispatcher.releaseWaiting((plugin) => plugin === 'worker');
    await soon();
    await held;
    expect(world.rounds.at(2)).toMatchObject({ ends: ['c'], causes: ['not_started'] });
    expect(world.running).toContain('b');
    expect(world.ends.has('c')).toBe(false);
  });

  test('are released when the host is full', async () => {
    const world = await makeAhead();
    world.dispatcher.pauseFor(1000);
    await soon();
    expect(world.rounds.at(-1)).toMatchObject({ ends: ['c'], causes: ['not_started'], slots: 0 });
  });

  test('are released when the slot is not free soon', async () => {
    const world = await makeAhead();
    await vi.advanceTimersByTimeAsync(900);
    expect(world.rounds).toHaveLength(2);
    await vi.advanceTimersByTimeAsync(200);
    expect(world.rounds.at(2)).toMatchObject({ ends: ['c'], causes: ['not_started'] });
  });

  test('are released when they arrive after claiming stopped', async () => {
    const world = new World(1);
    world.queue = ['a', 'b', 'c'];
    world.dispatcher.startClaiming();
    await soon();
    await vi.advanceTimersByTimeAsync(1);
    world.onSettle = () => void world.dispatcher.stopClaiming();
    world.ends.get('a')?.();
    await soon();
    expect(world.running).toEqual(['b']);
    expect(world.rounds.at(-1)).toMatchObject({ ends: ['c'], causes: ['not_started'] });
  });

  test('are stopped without a slot', async () => {
    const world = await makeAhead();
    world.dispatcher.stopJob('c', 'cancelled');
    await soon();
    expect(world.rounds.at(-1)).toMatchObject({ ends: ['c'], causes: ['shutdown'] });
    expect(world.running).toEqual(['b']);
  });
});

describe('a ledger that cannot be written', () => {
  test('is tried again with a growing delay, and gets every closing', async () => {
    const world = new World(2);
    world.queue = ['a', 'b'];
    world.dispatcher.startClaiming();
    await soon();
    world.down = true;
    const downAt = Date.now();
    world.ends.get('a')?.();
    await vi.advanceTimersByTimeAsync(20_000);
    expect(world.dispatcher.trouble).toBe('away');
    const times = world.rounds.slice(1).map(({ atMs }) => atMs - downAt);
    expect(times).toEqual([0, 100, 300, 700, 1500, 3100, 6300, 11_300, 16_300]);
    world.ends.get('b')?.();
    world.down = false;
    await vi.advanceTimersByTimeAsync(5000);
    expect(world.rounds.at(-1)?.ends).toEqual(['a', 'b']);
    expect(world.dispatcher.trouble).toBeUndefined();
    expect(world.running).toEqual([]);
  });

  test('is tried again at once when it responds elsewhere', async () => {
    const world = new World(1);
    world.queue = ['a'];
    world.dispatcher.startClaiming();
    await soon();
    world.down = true;
    world.ends.get('a')?.();
    await vi.advanceTimersByTimeAsync(7000);
    const before = world.rounds.length;
    // Work that comes in says nothing about the ledger.
    world.dispatcher.wake();
    await soon();
    expect(world.rounds).toHaveLength(before);
    world.down = false;
    world.dispatcher.retryNow();
    await soon();
    expect(world.rounds.at(-1)?.ends).toEqual(['a']);
    expect(world.dispatcher.trouble).toBeUndefined();
    const after = world.rounds.length;
    await vi.advanceTimersByTimeAsync(60_000);
    expect(world.rounds).toHaveLength(after);
  });

  test('is not tried any more after it was abandoned', async () => {
    const world = new World(1);
    world.queue = ['a'];
    world.dispatcher.startClaiming();
    await soon();
    world.down = true;
    world.ends.get('a')?.();
    await soon();
    world.dispatcher.abandon();
    const before = world.rounds.length;
    await vi.advanceTimersByTimeAsync(60_000);
    world.dispatcher.wake();
    await vi.advanceTimersByTimeAsync(60_000);
    expect(world.rounds).toHaveLength(before);
  });
});

describe('awaiting the idle state', () => {
  test('waits for running attempts and for closings', async () => {
    const world = new World(1);
    world.queue = ['a'];
    world.dispatcher.startClaiming();
    await soon();
    let isDrained = false;
    void world.dispatcher.stopClaiming();
    void world.dispatcher.awaitIdle().then(() => (isDrained = true));
    await soon();
    expect(isDrained).toBe(false);
    world.dispatcher.stopAll('shutdown');
    expect(world.stops).toEqual(['a shutdown']);
    world.ends.get('a')?.();
    await soon();
    expect(isDrained).toBe(true);
    expect(world.rounds.at(-1)).toMatchObject({ ends: ['a'], slots: 0 });
  });

  test('ends at once when nothing runs', async () => {
    await new World(1).dispatcher.awaitIdle();
  });
});

test('only the job with this id is stopped', async () => {
  const world = new World(2);
  world.queue = ['a', 'b'];
  world.dispatcher.startClaiming();
  await soon();
  world.dispatcher.stopJob('b', 'cancelled');
  world.dispatcher.stopJob('nobody', 'cancelled');
  expect(world.stops).toEqual(['b cancelled']);
});

test('the duration of a commit is published with the ended attempts', async () => {
  const world = new World(1);
  world.down = true;
  world.dispatcher.startClaiming();
  await soon();
  expect(world.rounds).toHaveLength(1);
  expect(world.published).toEqual([]);
  world.down = false;
  await vi.advanceTimersByTimeAsync(1000);
  const times = world.published.map(({ settleMs }) => settleMs);
  expect(times).toEqual([expect.any(Number)]);
  expect(times[0]).toBeGreaterThanOrEqual(0);
});
