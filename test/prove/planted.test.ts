/** The test of the simulation: it must find each planted mistake in few worlds, most of them small. */
import { beforeAll, expect, test } from 'vitest';
import { makeDirectory } from '../support/directory.ts';
import { mistakes } from './simulation/mistakes.ts';
import type { WorldSetup } from './simulation/world-setup.ts';
import { openWorldSetup, runWorld } from './simulation/world.ts';
import { campaign } from './support/campaign.ts';

const WORLDS_MAX = 1000;
/** A mistake that takes more worlds than this is found sooner in large ones. */
const SMALL_MAX = 300;
const planted = Object.entries(mistakes);
let setup: WorldSetup;

beforeAll(async () => {
  setup = await openWorldSetup(await makeDirectory());
});

test('there are enough of them', () => {
  expect(planted.length).toBeGreaterThanOrEqual(55);
});

campaign('planted', { trials: 4, timeoutMs: 3_600_000 }, async ({ index, seed }) => {
  const [name, mistake] = planted[index % planted.length] ?? ['', {}];
  for (let world = 1; world <= WORLDS_MAX; world += 1) {
    const { fault } = await runWorld(setup, seed - index + world, {
      size: world <= SMALL_MAX ? 'small' : 'large',
      mistake,
    });
    if (fault !== undefined) return { caught: 1, worlds: [world] };
  }
  throw new Error(`${name} was not found in ${WORLDS_MAX} worlds`);
});
