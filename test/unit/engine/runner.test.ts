/** Who is given what was started ahead, and when its place is filled again. */
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { makeRunner } from '../../../src/engine/runner.ts';
import type { Catalog, Plugin } from '../../../src/plugin/catalog.ts';
import { makePrewarmPool } from '../../../src/plugin/prewarm.ts';
import type { Host, ProcessEnd } from '../../../src/plugin/process.ts';
import { makeSpec } from '../../support/hosts.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const turn = (): Promise<unknown> => vi.advanceTimersByTimeAsync(1);

/** A runner of one plugin; what it starts is counted, and ends when it is told to. */
function start(prewarm: number) {
  const ends: PromiseWithResolvers<ProcessEnd>[] = [];
  const begin = (): Promise<ProcessEnd> => {
    const end = Promise.withResolvers<ProcessEnd>();
    ends.push(end);
    return end.promise;
  };
  const run = vi.fn<Host['run']>(begin);
  const hold = vi.fn<Host['hold']>(() => ({
    spoiled: new Promise(() => undefined),
    feed: begin,
    discard: () => undefined,
  }));
  const host = { hold, run } as Partial<Host> as Host;
  const runner = makeRunner(host, makePrewarmPool({ host, log: () => undefined }));
  const about = { name: 'a', prewarm, fingerprint: '1', entrypoint: '/a', timeoutMs: () => 1000 };
  const plugin = about as Partial<Plugin> as Plugin;
  const { env } = makeSpec('/a');
  const catalog = { plugins: new Map([['a', plugin]]) } as Partial<Catalog> as Catalog;
  runner.prewarm({ catalog, environment: env });
  const attempt = (): Promise<ProcessEnd> =>
    runner.run(plugin, { ...makeSpec('/a'), env }, Buffer.from('request'), {});
  return { run, hold, attempt, ends };
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
