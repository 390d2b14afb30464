/** The use of prewarmed processes, and their replacement. */
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { limits } from '../../src/base/limits.ts';
import { makeRunner } from '../../src/job/run-plugin.service.ts';
import type { Catalog, Plugin } from '../../src/plugin/catalog.ts';
import { makePrewarmPool } from '../../src/plugin/prewarm.ts';
import type { Host, ProcessEnd } from '../../src/plugin/process.ts';
import { makeSpec } from '../support/hosts.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const turn = (): Promise<unknown> => vi.advanceTimersByTimeAsync(1);

/** A runner of one plugin. It counts the processes that it starts; the test ends them. */
function start(prewarm: number | undefined) {
  const ends: PromiseWithResolvers<ProcessEnd>[] = [];
  const begin = (): Promise<ProcessEnd> => {
    const end = Promise.withResolvers<ProcessEnd>();
    ends.push(end);
    return end.promise;
  };
  const run = vi.fn<Host['run']>(begin);
  const discard = vi.fn<() => void>();
  const spoiled = new Promise<void>(() => undefined);
  const hold = vi.fn<Host['hold']>(() => ({ spoiled, feed: begin, discard }));
  const host = { hold, run } as Partial<Host> as Host;
  const runner = makeRunner(host, makePrewarmPool({ host, log: () => undefined }));
  const about = { name: 'a', prewarm, fingerprint: '1', entrypoint: '/a', timeoutMs: () => 1000 };
  const plugin = about as Partial<Plugin> as Plugin;
  const { env } = makeSpec('/a');
  const reload = (plugins: Catalog['plugins'] = new Map([['a', plugin]])): void => {
    const catalog = { plugins } as Partial<Catalog> as Catalog;
    runner.prewarm({ catalog, environment: env });
  };
  reload();
  const attempt = (isAwaited = true): Promise<ProcessEnd> =>
    runner.run(plugin, { ...makeSpec('/a'), env }, Buffer.from('request'), {
      traceparent: '00-1',
      isAwaited,
    });
  /** From its beginning to its end. */
  const attemptAll = async (isAwaited = true): Promise<void> => {
    const end = attempt(isAwaited);
    ends.at(-1)?.resolve({} as ProcessEnd);
    await end;
    await turn();
  };
  return { run, hold, discard, reload, attempt, attemptAll, ends };
}

test('a plugin that is not prewarmed has a process of its own', async () => {
  const { run, hold, attempt, ends } = start(0);
  await turn();
  const end = attempt();
  ends[0]?.resolve({} as ProcessEnd);
  await end;
  expect(run).toHaveBeenCalledOnce();
  expect(hold).not.toHaveBeenCalled();
});

test.each(['resolve', 'reject'] as const)(
  'the place of one that was fed is filled when its end is there (%s)',
  async (how) => {
    const { run, hold, attempt, ends } = start(1);
    await turn();
    expect(hold).toHaveBeenCalledOnce();
    const end = attempt();
    await turn();
    expect(run).not.toHaveBeenCalled();
    expect(hold).toHaveBeenCalledOnce();
    if (how === 'resolve') ends[0]?.resolve({} as ProcessEnd);
    else ends[0]?.reject(new Error('the helper died'));
    await end.catch(() => undefined);
    await turn();
    expect(hold).toHaveBeenCalledTimes(2);
  },
);

test("a process that is started for an attempt gets its trace context, and a standby process doesn't", async () => {
  const { run, hold, attemptAll } = start(undefined);
  await attemptAll();
  await attemptAll();
  expect(run.mock.lastCall?.[0].env).toMatchObject({ TRACEPARENT: '00-1' });
  expect(hold.mock.lastCall?.[0].env).not.toHaveProperty('TRACEPARENT');
});

test('a plugin that had to wait twice gets a standby process', async () => {
  const { run, hold, attemptAll } = start(undefined);
  await attemptAll();
  expect(hold).not.toHaveBeenCalled();
  await attemptAll();
  expect(hold).toHaveBeenCalledOnce();
  expect(run).toHaveBeenCalledTimes(2);
  await attemptAll();
  expect(run).toHaveBeenCalledTimes(2);
  expect(hold).toHaveBeenCalledTimes(2);
});

test('no process stands by if no attempt waits', async () => {
  const { hold, attemptAll } = start(undefined);
  for (let count = 0; count < 3; count += 1) await attemptAll(false);
  expect(hold).not.toHaveBeenCalled();
});

test('no process stands by for attempts that waited long ago', async () => {
  const { hold, attemptAll } = start(undefined);
  await attemptAll();
  await vi.advanceTimersByTimeAsync(limits.standbyMs);
  await attemptAll();
  expect(hold).not.toHaveBeenCalled();
});

test('a standby process is ended when it was not needed for a while', async () => {
  const { run, hold, discard, attemptAll } = start(undefined);
  await attemptAll();
  await attemptAll();
  await vi.advanceTimersByTimeAsync(limits.standbyMs / 2);
  await attemptAll();
  await vi.advanceTimersByTimeAsync(limits.standbyMs - 10);
  expect(hold).toHaveBeenCalledTimes(2);
  expect(discard).not.toHaveBeenCalled();
  await vi.advanceTimersByTimeAsync(10);
  expect(discard).toHaveBeenCalledOnce();
  await attemptAll();
  expect(run).toHaveBeenCalledTimes(3);
  expect(hold).toHaveBeenCalledTimes(2);
});

test('no standby process is started while another one is starting', async () => {
  const { run, hold, attempt, attemptAll, ends } = start(undefined);
  await attemptAll();
  const long = attempt();
  await attemptAll();
  expect(hold).not.toHaveBeenCalled();
  ends[1]?.resolve({} as ProcessEnd);
  await long;
  await turn();
  expect(hold).toHaveBeenCalledOnce();
  expect(run).toHaveBeenCalledTimes(3);
});

test('an attempt without a caller may use a standby process, and another takes its place', async () => {
  const { run, hold, attemptAll } = start(undefined);
  await attemptAll();
  await attemptAll();
  await attemptAll(false);
  expect(run).toHaveBeenCalledTimes(2);
  expect(hold).toHaveBeenCalledTimes(2);
});

test('an attempt from before a reload starts no standby process', async () => {
  const { hold, discard, reload, attempt, attemptAll, ends } = start(undefined);
  await attemptAll();
  await attemptAll();
  const before = attempt();
  reload(new Map());
  ends.at(-1)?.resolve({} as ProcessEnd);
  await before;
  await turn();
  expect(hold).toHaveBeenCalledOnce();
  expect(discard).not.toHaveBeenCalled();
});

test('a reload ends standby processes', async () => {
  const { discard, reload, attemptAll } = start(undefined);
  await attemptAll();
  await attemptAll();
  reload();
  expect(discard).toHaveBeenCalledOnce();
});
