/** Every command loads `main.cjs`, so it must not contain the service or the operations. */
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { expect, test } from 'vitest';

const map = resolve(import.meta.dirname, '../../dist/main.cjs.map');

test('the program that every command loads contains no SQL and no operations', () => {
  const { sources } = JSON.parse(readFileSync(map, 'utf8')) as { sources: string[] };
  expect(sources.some((source) => source.endsWith('src/cli/program.ts'))).toBe(true);
  expect(
    sources.filter((source) =>
      /\.(?:sql|operations|directives)\.ts$|\/operations\.ts$/.test(source),
    ),
  ).toEqual([]);
});
