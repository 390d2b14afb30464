/** A file that is read without the parser says what the parser says, or is left to it. */
import { writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import fc from 'fast-check';
import { beforeAll, describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { readPlainState, findState, guessStateDirectory } from '../../src/config/state.ts';
import { makeDirectory } from '../support/directory.ts';

let file: string;

beforeAll(async () => {
  file = join(await makeDirectory(), 'config.yaml');
});

function read(text: string): ReturnType<typeof readPlainState> {
  writeFileSync(file, text);
  return readPlainState(file);
}

describe('plain files', () => {
  test.each<[string, object]>([
    ['plugin_roots: [./plugins]\n', {}],
    ['', {}],
    ['state:\n  path: ./data/state.db\n', { path: './data/state.db' }],
    ['state: { path: ./data/state.db }\nservice:\n  name: "x: y"\n', { path: './data/state.db' }],
    [
      '# state: { path: no }\nstate:\n  # here\n  path: /var/lib/d.db\n\nroutes: []\n',
      { path: '/var/lib/d.db' },
    ],
  ])('%j', (text, state) => {
    expect(read(text)).toEqual(state);
  });
});

describe('all others are left to the parser', () => {
  test.each([
    'include: [other.yaml]\n',
    'environment_vars:\n  include: [.env]\n',
    'database: { path: a.db }\n',
    'state:\n  path: ${WHERE}\n',
    'state:\n  path: "a b.db"\n',
    'state: { url: "postgres://x" }\n',
    'state:\n  path: a.db\n  dir: b\n',
    'state: &here\n  path: a.db\n',
    'x: {\nstate: { path: a.db }\n}\n',
    'x: "\nstate: { path: a.db }\n"\n',
    'x: |\n  text\nstate: { path: a.db }\n',
    'state: { path: a.db }\nstate: { path: b.db }\n',
    '---\nstate: { path: a.db }\n',
    'state:\n\tpath: a.db\n',
    'state: { path: true }\n',
    'state: { path: .5 }\n',
    'state: { path: .inf }\n',
    'state: { path: ~ }\n',
    '"state": { path: a.db }\n',
    'state: { path: a.db } # why\n',
    '{ state: { path: a.db } }\n',
  ])('%j', (text) => {
    expect(read(text)).toBeUndefined();
  });
});

test('every text that it accepts is read the same by the parser', () => {
  const line = fc.oneof(
    fc.constantFrom(
      'state:',
      '  path: ./a.db',
      'state: { path: b.db }',
      '',
      '# x',
      'service:',
      '  name: x',
    ),
    fc.constantFrom(
      'routes: [',
      ']',
      'x: "a',
      '"',
      "y: 'b",
      'z: |',
      '  state:',
      'plugins: {}',
      '- a',
      'state: ~',
    ),
    fc.string({ unit: fc.constantFrom(...'state: {}[]"\'#&|path.db-/'.split('')), maxLength: 20 }),
  );
  fc.assert(
    fc.property(fc.array(line, { maxLength: 8 }), (lines) => {
      const text = lines.join('\n');
      const found = read(text);
      if (found === undefined) return;
      let whole: unknown;
      try {
        whole = parse(text);
      } catch {
        // A file that is wrong elsewhere still says where its state is.
        return;
      }
      const state = (whole as { state?: { path?: string } | null } | null)?.state ?? {};
      expect({ text, path: found.path }).toEqual({ text, path: state.path });
    }),
    { numRuns: 1000 },
  );
});

test('the location of the state does not depend on the rest of the file', async () => {
  writeFileSync(file, 'state: { path: ./here.db }\nplugns: {}\n');
  expect(await findState(file)).toMatchObject({
    kind: 'sqlite',
    path: expect.stringMatching(/here\.db$/),
  });
  writeFileSync(file, 'state: { path: "./there.db" } # quoted\n');
  expect(await findState(file)).toMatchObject({
    kind: 'sqlite',
    path: expect.stringMatching(/there\.db$/),
  });
  writeFileSync(file, 'state: { path: [1] }\n');
  expect(await findState(file)).toBeUndefined();
});

describe('a file with a syntax error', () => {
  test.each([
    ['plugins: [\n', 'data'],
    ['state: { path: ./here/state.db }\nplugins: [\n', 'here'],
    ['state:\n  path: "./here/state.db"\nroutes: {\n', 'here'],
    ['state: { url: "postgres://u@127.0.0.1/d", dir: ./there }\n  x: [\n', 'there'],
    ['state:\n  url: postgres://u@127.0.0.1/d\nroutes: {\n', 'data'],
  ])('still says where its service probably is: %j', (text, directory) => {
    writeFileSync(file, text);
    expect(guessStateDirectory(file)).toBe(join(dirname(file), directory));
  });
});
