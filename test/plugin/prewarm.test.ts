/** Processes started ahead of their request: held ones over each spawner, and the pool of them. */
import { readdirSync } from 'node:fs';
import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { limits } from '../../src/base/limits.ts';
import { makePrewarmPool, type PrewarmPool } from '../../src/plugin/prewarm.ts';
import type { HeldProcess, Host, ProcessSpec } from '../../src/plugin/process.ts';
import {
  builds,
  isAlive,
  makeSpec,
  optionsOf,
  parentOf,
  startHost,
  useNativeSpawner,
  waitForDeath,
  waitUntil,
} from '../support/hosts.ts';

const spawnerBuilds = useNativeSpawner();

describe.each(builds)('a held process of the %s spawner', (build) => {
  const start = (): Promise<Host> => startHost(optionsOf(build, spawnerBuilds.pathOf(build)));
  const request = Buffer.from('request');

  test('waits for its request and answers it', async () => {
    const host = await start();
    const held = host.hold(makeSpec('echoes-stdin'));
    let pid = 0;
    const end = await held.feed(request, { onStarted: (started) => (pid = started) });
    expect(end).toMatchObject({ exit: { kind: 'exited', code: 0 }, stopped: undefined });
    expect(end.stdout.toString()).toBe('request');
    expect(end.pid).toBe(pid);
  });

  test('counts its time from the request', async () => {
    const host = await start();
    const held = host.hold(makeSpec('hangs', { timeoutMs: 300 }));
    await host.run(makeSpec('hangs', { timeoutMs: 400 }), request);
    const end = await held.feed(request);
    expect(end.stopped).toBe('timeout');
    expect(end.runMs).toBeGreaterThanOrEqual(299);
  });

  test.each(['hangs', 'trickles-for-ever'])(
    '%s for as long as its request allows',
    async (name) => {
      const host = await start();
      const held = host.hold(makeSpec(name));
      if (name === 'trickles-for-ever') await held.spoiled;
      const end = await held.feed(request, { timeoutMs: 50 });
      expect(end.stopped).toBe('timeout');
      expect(end.runMs).toBeLessThan(5000);
    },
  );

  test('can be cancelled', async () => {
    const host = await start();
    const controller = new AbortController();
    const held = host.hold(makeSpec('hangs'));
    const end = held.feed(request, {
      signal: controller.signal,
      onStarted: () => controller.abort(),
    });
    expect((await end).stopped).toBe('cancelled');
  });

  test.each(['prints-before-request', 'exits-before-reading', 'no-such-file'])(
    '%s is spoiled, and feeding it runs another one',
    async (name) => {
      const host = await start();
      const spec = makeSpec(name);
      const held = host.hold(spec);
      await held.spoiled;
      const [fed, cold] = [await held.feed(request), await host.run(spec, request)];
      expect(fed.exit).toEqual(cold.exit);
      expect(fed.stdout.equals(cold.stdout)).toBe(true);
    },
  );

  test('that dies while it gets its request costs no attempt', async () => {
    const host = await start();
    const ends = Array.from({ length: 20 }, () => {
      const held = host.hold(makeSpec('prints-before-request'));
      return held.feed(request);
    });
    for (const end of await Promise.all(ends)) {
      expect(end.exit).toEqual({ kind: 'exited', code: 0 });
      expect(end.stdout.toString()).toBe('too early\nrequest');
    }
  });

  test('that dies of its request is an ordinary end', async () => {
    const host = await start();
    const held = host.hold(makeSpec('kills-itself'));
    const end = await held.feed(Buffer.from('SEGV\n'));
    expect(end.exit).toEqual({ kind: 'signalled', signal: 'SIGSEGV' });
  });

  test('is gone when it is discarded', async () => {
    const host = await start();
    const held = host.hold(makeSpec('hangs'));
    const pid = await findHeld(host);
    held.discard();
    await waitForDeath(pid);
    expect(() => held.feed(request)).toThrow(expect.objectContaining({ code: 'INTERNAL' }));
  });

  test('is spoiled when the spawner dies', async () => {
    const host = await start();
    const held = host.hold(makeSpec('echoes-stdin'));
    process.kill(parentOf(await findHeld(host)), 'SIGKILL');
    await held.spoiled;
    expect((await held.feed(request)).stdout.toString()).toBe('request');
  });
});

/** The pid of the one process that is held: a sibling of one that we can ask. */
async function findHeld(host: Host): Promise<number> {
  const controller = new AbortController();
  const started = Promise.withResolvers<number>();
  const options = { signal: controller.signal, onStarted: started.resolve };
  const end = host.run(makeSpec('hangs'), Buffer.alloc(0), options);
  const sibling = await started.promise;
  const spawner = parentOf(sibling);
  const pids = readdirSync('/proc').map(Number);
  const found = pids.find((pid) => pid > 0 && pid !== sibling && parentOf(pid) === spawner);
  controller.abort();
  await end;
  return found ?? 0;
}

test.each(builds)('the pool keeps real processes of the %s spawner ready', async (build) => {
  const host = await startHost(optionsOf(build, spawnerBuilds.pathOf(build)));
  const pool = makePrewarmPool({ host, log: () => {} });
  onTestFinished(() => pool.stop());
  pool.setTarget('a', { fingerprint: '1', spec: makeSpec('echoes-stdin'), count: 2 });
  const pids = new Set<number>();
  for (let turn = 0; turn < 5; turn += 1) {
    let held: HeldProcess | undefined;
    await waitUntil('one waits', () => (held = pool.claim('a', '1')) !== undefined);
    const end = await held?.feed(Buffer.from(`request ${turn}`));
    expect(end?.stdout.toString()).toBe(`request ${turn}`);
    pids.add(end?.pid ?? 0);
  }
  expect(pids.size).toBe(5);
  pool.stop();
  for (const pid of pids) expect(isAlive(pid)).toBe(false);
});

describe('the pool', () => {
  interface Fake {
    readonly spec: ProcessSpec;
    readonly held: HeldProcess;
    spoil(): void;
    discarded: boolean;
  }
  let started: Fake[];
  let pool: PrewarmPool;

  function hold(spec: ProcessSpec): HeldProcess {
    const spoiled = Promise.withResolvers<void>();
    const fake: Fake = {
      spec,
      discarded: false,
      spoil: spoiled.resolve,
      held: {
        spoiled: spoiled.promise,
        feed: () => Promise.reject(new Error('not in these tests')),
        discard: () => void (fake.discarded = true),
      },
    };
    started.push(fake);
    return fake.held;
  }
  const want = (fingerprint: string, count: number, entrypoint = '/a') => {
    return { fingerprint, count, spec: makeSpec(entrypoint) };
  };
  /** Runs due timers, and those that they create, a millisecond later. */
  async function advance(ms: number): Promise<void> {
    await vi.advanceTimersByTimeAsync(ms);
    await vi.advanceTimersByTimeAsync(1);
  }
  const settle = (): Promise<void> => advance(0);

  beforeEach(() => {
    vi.useFakeTimers();
    started = [];
    pool = makePrewarmPool({ host: { hold }, log: () => {}, processesMax: 5 });
  });
  afterEach(() => {
    pool.stop();
    vi.useRealTimers();
  });

  test('starts as many as are wanted and replaces a used one when it has ended', async () => {
    pool.setTarget('a', want('1', 2));
    await settle();
    expect(started).toHaveLength(2);
    expect(pool.claim('a', '1')).toBe(started[0]?.held);
    pool.setTarget('a', want('1', 2));
    await advance(limits.prewarmRefillMs - 5);
    expect(started).toHaveLength(2);
    pool.ended();
    await settle();
    expect(started).toHaveLength(3);
    expect(started.map(({ discarded }) => discarded)).toEqual([false, false, false]);
  });

  test('or while it still runs, after a while', async () => {
    pool.setTarget('a', want('1', 1));
    await settle();
    pool.claim('a', '1');
    await advance(limits.prewarmRefillMs);
    expect(started).toHaveLength(2);
    pool.ended();
    await settle();
    expect(started).toHaveLength(2);
  });

  test('gives the room of a key that is dropped to the others', async () => {
    pool.setTarget('a', want('1', 4));
    pool.setTarget('b', want('1', 4, '/b'));
    await settle();
    pool.drop('a');
    await settle();
    expect(started.slice(5).map(({ spec }) => spec.entrypoint)).toEqual(['/b', '/b']);
  });

  test('has none for another fingerprint, another key, or no plugin', async () => {
    pool.setTarget('a', want('1', 1));
    await settle();
    expect(pool.claim('a', '2')).toBeUndefined();
    expect(pool.claim('b', '1')).toBeUndefined();
    expect(pool.claim('a', '1')).toBeDefined();
    expect(pool.claim('a', '1')).toBeUndefined();
  });

  test('drops all of a key when the fingerprint changes', async () => {
    pool.setTarget('a', want('1', 2));
    await settle();
    pool.setTarget('a', want('2', 1, '/b'));
    await settle();
    expect(started.map(({ discarded }) => discarded)).toEqual([true, true, false]);
    expect(pool.claim('a', '1')).toBeUndefined();
    expect(started[2]?.spec.entrypoint).toBe('/b');
    expect(pool.claim('a', '2')).toBe(started[2]?.held);
  });

  test('drops what is more than wanted', async () => {
    pool.setTarget('a', want('1', 3));
    await settle();
    pool.setTarget('a', want('1', 1));
    await settle();
    expect(started.map(({ discarded }) => discarded)).toEqual([false, true, true]);
  });

  test('shares its room between the keys and gives free room to the next', async () => {
    pool.setTarget('a', want('1', 4));
    pool.setTarget('b', want('1', 4, '/b'));
    await settle();
    const programs = started.map(({ spec }) => spec.entrypoint);
    expect(programs).toEqual(['/a', '/b', '/a', '/b', '/a']);
    pool.setTarget('a', want('1', 0));
    await settle();
    expect(started.slice(5).map(({ spec }) => spec.entrypoint)).toEqual(['/b', '/b']);
  });

  test('replaces what has waited too long', async () => {
    pool.setTarget('a', want('1', 1));
    await settle();
    await advance(limits.prewarmAgeMs);
    expect(started.map(({ discarded }) => discarded)).toEqual([true, false]);
    expect(pool.claim('a', '1')).toBe(started[1]?.held);
  });

  test('replaces spoiled processes, ever later while they spoil', async () => {
    pool.setTarget('a', want('1', 1));
    await settle();
    for (const [failures, factor] of [1, 2, 4].entries()) {
      started[failures]?.spoil();
      await vi.advanceTimersByTimeAsync(limits.prewarmBackoffMs * factor - 1);
      expect(started).toHaveLength(failures + 1);
      await advance(1);
      expect(started).toHaveLength(failures + 2);
    }
    expect(pool.claim('a', '1')).toBe(started[3]?.held);
    pool.ended();
    await settle();
    started[4]?.spoil();
    await advance(limits.prewarmBackoffMs);
    expect(started).toHaveLength(6);
  });

  test('counts what is lost together as one failure', async () => {
    pool.setTarget('a', want('1', 3));
    await settle();
    for (const fake of started) fake.spoil();
    await advance(limits.prewarmBackoffMs);
    expect(started).toHaveLength(6);
  });

  test('ignores that one spoils after it was used', async () => {
    pool.setTarget('a', want('1', 1));
    await settle();
    pool.claim('a', '1');
    pool.ended();
    await settle();
    started[0]?.spoil();
    await advance(limits.prewarmBackoffMs);
    expect(started).toHaveLength(2);
    expect(pool.claim('a', '1')).toBe(started[1]?.held);
  });

  test('starts nothing more once it is stopped', async () => {
    pool.setTarget('a', want('1', 2));
    await settle();
    pool.stop();
    started[0]?.spoil();
    await advance(limits.prewarmAgeMs);
    expect(started).toHaveLength(2);
    expect(started.every(({ discarded }) => discarded)).toBe(true);
  });
});
