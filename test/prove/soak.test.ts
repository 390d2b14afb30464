/**
 * Servers work on and on, with a little trouble now and then, and history that is pruned: nothing is lost or
 * done twice in any slice, and what they take of the machine stays what it was when they were warm.
 */
import { beforeAll } from 'vitest';
import { makeRandom } from '../support/crash/random.ts';
import { databases } from '../support/instance.ts';
import { campaign, isShort } from './support/campaign.ts';
import { openInstallation, type Installation } from './soak/installation.ts';

const SLICE_MS = isShort ? 1200 : 20_000;
/** Several slices, and what a busy machine adds to them. */
const KEEP = '2m';
const SEEDS_APART = 500_000_000;

const installations = new Map<string, Installation>();

beforeAll(async () => {
  const chosen = isShort ? databases.slice(0, 1) : databases;
  for (const database of chosen)
    installations.set(database, await openInstallation(database, KEEP));
});

campaign(
  'soak: nothing is lost, and nothing grows',
  { trials: 1, timeoutMs: 600_000 },
  async (trial) => {
    const slices = [...installations].map(async ([database, installation], nth) => {
      // Each draws its own, whichever is quicker.
      const seed = trial.seed + nth * SEEDS_APART;
      const own = { ...trial, seed, random: makeRandom(seed) };
      const figures = await installation.slice(own, SLICE_MS);
      return Object.entries(figures).map(
        ([name, value]) => [`${database} ${name}`, value] as const,
      );
    });
    return Object.fromEntries((await Promise.all(slices)).flat());
  },
);
