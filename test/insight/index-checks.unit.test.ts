/** Indexes of many ledgers are compared one after another, each once a day. */
import { expect, test } from 'vitest';
import { limits } from '../../src/base/limits.ts';
import { makeLogger } from '../../src/base/log.ts';
import { makeIndexChecks } from '../../src/insight/index-checks.service.ts';
import type { IndexCheck } from '../../src/ledger/check.ts';

const log = makeLogger({ level: 'error', format: 'json', destination: { write: () => undefined } });

/** Runs the queued tasks as far as they can. */
const settle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

function makeBench() {
  let nowMs = 0;
  const begun: string[] = [];
  const rests: number[] = [];
  const waiting: ((check: IndexCheck | Error) => void)[] = [];
  const checks = makeIndexChecks(
    () => nowMs,
    (ms) => Promise.resolve(rests.push(ms)),
  );
  const look = (name: string) =>
    checks.read({
      name,
      log,
      ledger: {
        checkIndexes: () => {
          begun.push(name);
          return new Promise((resolve, reject) => {
            waiting.push((end) => (end instanceof Error ? reject(end) : resolve(end)));
          });
        },
      },
    });
  return {
    begun,
    rests,
    look,
    pass: (ms: number) => (nowMs += ms),
    end: async (check: IndexCheck | Error = { problems: [], skipped: null }): Promise<void> => {
      await settle();
      waiting.shift()?.(check);
      await settle();
    },
  };
}

test('ledgers are compared one at a time, with a rest after each, and damage stays known', async () => {
  const { begun, rests, look, pass, end } = makeBench();
  expect([look('a'), look('b'), look('a')]).toEqual([undefined, undefined, undefined]);
  await settle();
  expect(begun).toEqual(['a']);
  pass(100);
  await end({ problems: ['x'], skipped: null });
  expect(begun).toEqual(['a', 'b']);
  expect(rests).toEqual([1000]);
  expect(look('a')).toEqual(['x']);
  expect(look('b')).toBeUndefined();
  await end();
  expect(look('b')).toEqual([]);
  pass(limits.indexCheckMs);
  expect(look('a')).toEqual(['x']);
  await end();
  expect(begun).toEqual(['a', 'b', 'a']);
  expect(look('a')).toEqual([]);
});

test('a comparison that failed is tried again soon, and holds up no other ledger', async () => {
  const { begun, look, pass, end } = makeBench();
  look('a');
  look('b');
  await end(new Error('it is closed'));
  expect(look('a')).toBeUndefined();
  await end();
  expect(begun).toEqual(['a', 'b']);
  pass(limits.indexCheckRetryMs);
  look('a');
  await end();
  expect(look('a')).toEqual([]);
});
