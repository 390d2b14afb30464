/**
 * Broken installations of many kinds, each repaired only with the output of `doctor`. It names the
 * cause, the evidence and the command; the command repairs the installation, and no output on the
 * way is long.
 */
import { databases } from '../support/instance.ts';
import { playStory, surfaces, type Story } from './broken/breakage.ts';
import { breakages, shortBreakages } from './broken/kinds.ts';
import { campaign, isShort } from './support/campaign.ts';

/** Every kind on every database, over the command line and by MCP in turns. */
const stories: readonly Story[] = (isShort ? (['sqlite'] as const) : databases).flatMap(
  (database, round) =>
    (isShort ? shortBreakages : breakages)
      .filter((breakage) => breakage.databases?.includes(database) ?? true)
      .map((breakage, index) => {
        const surface = surfaces[(index + round) % surfaces.length] ?? 'flag';
        return { breakage, database, surface };
      }),
);

campaign('broken', { trials: stories.length, timeoutMs: 600_000 }, async ({ index }) => {
  const story = stories[index % stories.length];
  if (story === undefined) throw new Error('there is no story');
  return playStory(story);
});
