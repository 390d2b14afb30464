import { expect, test } from 'vitest';
import { limits } from '../../src/base/limits.ts';
import { createTokenFailures } from '../../src/http/authenticate.ts';

const wrong = () => Promise.resolve(undefined);
const right = () => Promise.resolve('ann');

async function guess(
  tries: ReturnType<typeof createTokenFailures>,
  address: string,
): Promise<unknown[]> {
  const all = Array.from({ length: limits.wrongTokensMax + 1 }, (_, index) =>
    tries.check(address, `guess ${index}`, wrong),
  );
  return await Promise.all(all);
}

const SHORT = 'x'.repeat(limits.tokenGuessableChars - 1);
const LONG = 'x'.repeat(limits.tokenGuessableChars);

test('wrong tokens beyond the limit are throttled, even if they arrive at once', async () => {
  const tries = createTokenFailures(() => 0);
  const response = await guess(tries, 'a');
  expect(response.filter((one) => one === 'spent')).toHaveLength(1);
  expect(await tries.check('a', LONG, wrong)).toBe('spent');
  expect(await tries.check('b', LONG, wrong)).toBeUndefined();
});

test('a valid token works while wrong ones from its address are throttled', async () => {
  const tries = createTokenFailures(() => 0);
  await guess(tries, 'a');
  expect(await tries.check('a', LONG, right)).toBe('ann');
  // A valid token must not give the address another try.
  expect(await tries.check('a', LONG, wrong)).toBe('spent');
});

test('a token short enough to be guessed is not verified for an address over its limit', async () => {
  const tries = createTokenFailures(() => 0);
  await guess(tries, 'a');
  expect(await tries.check('a', SHORT, right)).toBe('spent');
  expect(await tries.check('b', SHORT, right)).toBe('ann');
});

test('a short token that was valid before is verified until it is not', async () => {
  const tries = createTokenFailures(() => 0);
  expect(await tries.check('a', 'good', right)).toBe('ann');
  await guess(tries, 'a');
  expect(await tries.check('a', 'good', right)).toBe('ann');
  expect(await tries.check('a', 'good', wrong)).toBe('spent');
  expect(await tries.check('a', 'good', right)).toBe('spent');
});

test('good tokens and outages cost nothing, and time heals', async () => {
  let now = 0;
  const tries = createTokenFailures(() => now);
  const away = () => Promise.reject(new Error('away'));
  for (let count = 0; count < 2 * limits.wrongTokensMax; count += 1) {
    expect(await tries.check('a', `t${count}`, right)).toBe('ann');
    await expect(tries.check('a', 'x', away)).rejects.toThrow('away');
  }
  await guess(tries, 'a');
  now = limits.wrongTokensMs / limits.wrongTokensMax;
  expect(await tries.check('a', 'x', wrong)).toBeUndefined();
  expect(await tries.check('a', 'x', wrong)).toBe('spent');
});

test('the limiter stores a bounded number of addresses', async () => {
  const tries = createTokenFailures(() => 0);
  await guess(tries, 'a');
  for (let count = 0; count < limits.wrongTokenAddressesMax; count += 1) {
    await tries.check(`b${count}`, 'x', wrong);
  }
  expect(await tries.check('a', 'x', wrong)).toBeUndefined();
});
