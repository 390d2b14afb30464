import { makeContext } from '../support/context.ts';
import type { Generation } from '../../src/engine/generation.ts';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { makeReaper, type Reaper } from '../../src/job/reaper.service.ts';
import type { Ledger } from '../../src/ledger/ledger.ts';
import type { Orphan } from '../../src/job/types.ts';

const EVERY_MS = 100;

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

/** Two others are dead; whether this process may say so can change between any two of its steps. */
function makeJudge(mayReap: () => boolean): { reaper: Reaper; reaped: string[] } {
  const reaped: string[] = [];
  const dead = (processId: string): Orphan => ({ processId, jobs: [], directives: [] });
  const ledger = {
    processes: {
      listOrphans: () => Promise.resolve([dead('one'), dead('two')]),
      reap: ({ processId }: { readonly processId: string }) => {
        reaped.push(processId);
        return Promise.resolve({ verdicts: new Map() });
      },
      listLivePlugins: () => Promise.resolve([]),
    },
    jobs: {
      listExpiredClaims: () => Promise.resolve([]),
      listUnrunnable: () => Promise.resolve([]),
    },
  } as unknown as Ledger;
  const service = { reapAfterMs: 1000, runnerGraceMs: 1000, heartbeatIntervalMs: EVERY_MS };
  const catalog = { plugins: new Map(), unloaded: new Map() };
  const generation = { config: { service }, catalog } as unknown as Generation;
  const reaper = makeReaper(makeContext({ ledger, generation }), mayReap, undefined);
  return { reaper, reaped };
}

test.for([
  { times: Infinity, reaped: ['one', 'two'] },
  // The answer came after a standstill of the database, in which everybody fell silent.
  { times: 1, reaped: [] },
  { times: 2, reaped: ['one'] },
  { times: 0, reaped: [] },
])('a process that may judge $times times reaps $reaped', async ({ times, reaped }) => {
  let asked = 0;
  const judge = makeJudge(() => (asked += 1) <= times);
  await judge.reaper.start();
  // The first round comes at once.
  await vi.advanceTimersByTimeAsync(EVERY_MS - 1);
  await judge.reaper.stop();
  expect(judge.reaped).toEqual(reaped);
});

test('a process that is proven dead needs no judge', async () => {
  const { reaper, reaped } = makeJudge(() => false);
  await reaper.recover();
  expect(reaped).toEqual(['one', 'two']);
});
