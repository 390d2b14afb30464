/** A command that `why` suggests is one that the command line takes. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { run } from '../support/fake-cli.ts';

const operations = join(import.meta.dirname, '../../../src/operations');
const sources = [
  ...readdirSync(join(operations, 'why')).map((file) => join(operations, 'why', file)),
  join(operations, 'run-why.ts'),
];

/** What is written there for a person to type, with a word or a number for whatever is put in. */
const suggested = sources.flatMap((path) =>
  [...readFileSync(path, 'utf8').matchAll(/(['`])(ductile [^'`]*)\1/g)].flatMap(([, , line = '']) =>
    line
      .replaceAll(/\$\{[^{}]*(?:\+ 1|\* 2|value)\}/g, '7')
      .replaceAll(/\$\{[^{}]*\}/g, '0199a1b2')
      .split(' && '),
  ),
);

test.each([...new Set(suggested)])('%s', async (line) => {
  const [, ...argv] = line.split(' ');
  // A command may ask for a secret.
  const stdin = (async function* () {
    yield Buffer.from('secret');
  })();
  const { code, calls, asked, err } = await run(argv, { io: { stdin } });
  expect([code, err]).not.toEqual([2, expect.any(String)]);
  expect(calls.length + asked.length).toBeGreaterThan(0);
});
