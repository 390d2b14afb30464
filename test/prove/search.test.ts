/** All that two workers, two jobs and two attempts can come to; nothing is left to chance. */
import { expect } from 'vitest';
import { explore } from './search/explore.ts';
import { firstState } from './search/machine.ts';
import { campaign } from './support/campaign.ts';

const short = { crashes: 1, expiries: 0, losses: 1, cancels: 1 };
/** There is nothing to draw: the first trial has seen all. */
const long = { crashes: 1, expiries: 1, losses: 1, cancels: 1 };

campaign('search', { trials: 1, timeoutMs: 600_000 }, ({ isShort }) => {
  const { states, moves, ends } = explore(firstState(isShort ? short : long));
  expect(ends).toBeGreaterThan(0);
  return Promise.resolve({ states: [states], moves: [moves], ends: [ends] });
});
