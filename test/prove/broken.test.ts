/**
 * Broken installations of many kinds, each repaired with nothing but what `doctor` says: it names the
 * cause, the evidence and the command, the command repairs it, and no answer on the way is long.
 */
import { databases } from '../support/instance.ts';
import type { Story } from './broken/breakage.ts';
import { playStory, surfaces } from './broken/breakage.ts';
import { breakages } from './broken/kinds.ts';
import { campaign } from './support/campaign.ts';

const stories: readonly Story[] = (
  process.env['ONLY'] ? [process.env['ONLY'] as 'sqlite'] : databases
).flatMap((database) =>
  breakages
    .filter((breakage) => breakage.databases?.includes(database) ?? true)
    .map((breakage, index) => ({
      breakage,
      database,
      surface: surfaces[index % surfaces.length] ?? 'flag',
    })),
);

campaign('broken', { trials: stories.length, timeoutMs: 300_000 }, async ({ index }) => {
  const story = stories[index % stories.length];
  if (story === undefined) throw new Error('there is no story');
  return playStory(story);
});
