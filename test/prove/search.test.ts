/** An exhaustive search of all states of two workers, two jobs and two attempts. */
import { expect } from 'vitest';
import { explore } from './search/explore.ts';
import { firstState, type Bounds } from './search/machine.ts';
import { campaign } from './support/campaign.ts';

const all: Bounds = { crashes: 1, expiries: 1, losses: 1, cancels: 1, leaves: 1 };
const short: Bounds = { ...all, expiries: 0, leaves: 0 };
/** Each trial searches all states within its bounds; later trials repeat the same bounds. */
const long: readonly Bounds[] = [
  all,
  { ...all, leaves: 0, crashes: 2 },
  { ...all, leaves: 0, losses: 2 },
  { ...all, leaves: 0, cancels: 2 },
  { ...all, cancels: 0, expiries: 2 },
];

campaign('search', { trials: 1, timeoutMs: 1_800_000 }, ({ index, isShort }) => {
  const bounds = isShort ? short : (long[index % long.length] ?? all);
  const { states, moves, ends } = explore(firstState(bounds));
  expect(ends).toBeGreaterThan(0);
  return Promise.resolve({ states: [states], moves: [moves], ends: [ends] });
});
