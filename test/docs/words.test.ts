/** The documentation, the messages and the dashboard use only the documented spelling of a command. */
import { globSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { describe, expect, test } from 'vitest';
import { commands } from '../../src/cli/commands.ts';
import { nameWords } from '../../src/cli/help.ts';

const root = resolve(import.meta.dirname, '../..');

/** The page about the original program names its commands. */
const pagesAboutOthers = new Set(['docs/migrate/from-the-original.md']);

const files = globSync(
  [
    '{README.md,CONTRIBUTING.md,docs/**/*.md,examples/**/*.{md,yaml,sh}}',
    '{sdk,extras,packages,plugins}/**/*.{md,yaml,ts,mjs,py,sh}',
    '{src,web}/**/*.{ts,tsx}',
  ],
  { cwd: root, exclude: ['**/node_modules/**'] },
)
  .filter((file) => !pagesAboutOthers.has(file))
  .toSorted();

const olderSpellings = commands.flatMap((definition) =>
  definition.olderSpellings.map((spelling) => ({ spelling, definition })),
);

/** Finds commands in an older spelling: after `ductile` and its flags, or first in backticks. */
function findOlderSpellings(text: string): string[] {
  return olderSpellings.flatMap(({ spelling, definition }) => {
    const documented = nameWords(definition).join(' ');
    const words = spelling.replace(' ', String.raw`\s+`);
    const pattern = new RegExp(String.raw`(?:\bductile\s+(?:--\S+\s+\S+\s+)*|\`)${words}\b`);
    return pattern.test(text) ? [`\`${spelling}\` is \`${documented}\``] : [];
  });
}

test.each(olderSpellings)('a planted `$spelling` is found', ({ spelling }) => {
  const found = [expect.stringContaining(`\`${spelling}\` is `)];
  expect(findOlderSpellings(`Run \`ductile ${spelling} x\`.`)).toEqual(found);
  expect(findOlderSpellings(`$ ductile --config etc ${spelling}\n`)).toEqual(found);
  expect(findOlderSpellings(`See \`${spelling}\`.`)).toEqual(found);
  expect(findOlderSpellings(`the ${spelling} of a word, and \`config ${spelling}\``)).toEqual([]);
});

describe('the documented spelling of commands', () => {
  test('is looked for in all pages and messages', () => {
    expect(files.length).toBeGreaterThan(500);
    for (const file of ['README.md', 'src/insight/findings/plugins.ts', 'web/webhook/webhooks.tsx'])
      expect(files).toContain(file);
  });

  test('is used everywhere', () => {
    const faults = files.flatMap((file) =>
      findOlderSpellings(readFileSync(join(root, file), 'utf8')).map(
        (fault) => `${file}: ${fault}`,
      ),
    );
    expect(faults).toEqual([]);
  });
});
