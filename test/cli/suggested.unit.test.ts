/** A command that `why` suggests is one that the command line takes. */
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { run } from '../support/fake-cli.ts';

const root = join(import.meta.dirname, '../..');
const sources = [
  ...globSync('src/insight/why/**/*.ts', { cwd: root }),
  'src/pipeline/run/waits.service.ts',
];

/** The commands in these sources, with an id or a number in place of each variable. */
const suggested = sources.flatMap((path) =>
  [...readFileSync(join(root, path), 'utf8').matchAll(/(['`])(ductile [^'`]*)\1/g)].flatMap(
    ([, , line = '']) =>
      line
        .replaceAll(/\$\{[^{}]*(?:\+ 1|\* 2|value)\}/g, '7')
        .replaceAll(/\$\{[^{}]*\}/g, '0199a1b2')
        .split(' && '),
  ),
);

test('sources with suggestions are found', () => {
  expect(suggested.length).toBeGreaterThan(20);
});

test.each([...new Set(suggested)])('%s', async (line) => {
  const [, ...argv] = line.split(' ');
  // A command may ask for a secret.
  const stdin = (async function* () {
    yield Buffer.from('secret');
  })();
  const { code, calls, hostCalls, err } = await run(argv, { io: { stdin } });
  expect([code, err]).not.toEqual([2, expect.any(String)]);
  expect(calls.length + hostCalls.length).toBeGreaterThan(0);
});
