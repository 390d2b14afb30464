import { chown, lstat, mkdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { parseAddress } from '../../src/config/address.ts';
import { applyEdit, parseValue, planEdit, patchText, removeKey } from '../../src/config/edit.ts';
import { loadConfig, readConfig } from '../../src/config/load.ts';
import { lockConfig, makeConfigTree } from '../support/config-tree.ts';

const NOW = '2026-11-15T12:00:00.000Z';

describe('patchText', () => {
  const text = `# top
a: 1 # one
b:
  c: "x"   # see
  d: [1, 2]
  # e: 3

empty:
list:
  - {n: 1}
  - n: 2
# end
`;

  test.each([
    [['a'], 5, 'a: 1 # one', 'a: 5 # one'],
    [['b', 'c'], 'y: z', 'c: "x"   # see', 'c: "y: z"   # see'],
    [['b', 'd'], [3], 'd: [1, 2]', 'd: [ 3 ]'],
    [['b', 'n', 'deep'], true, '  # e: 3', '  n:\n    deep: true\n  # e: 3'],
    [['empty'], { x: 1 }, 'empty:', 'empty: { x: 1 }'],
    [['empty', 'x', 'y'], 'no', 'empty:', 'empty: { x: { y: no } }'],
    [['list', 1, 'n'], 9, '- n: 2', '- n: 9'],
    [['list', 0, 'n'], 9, '{n: 1}', '{n: 9}'],
    [['list', 1, 'q'], null, '# end', '    q: null\n# end'],
    [['new', 'k'], '', '# end', 'new:\n  k: ""\n# end'],
  ])('changes nothing but the lines of %j', (path, value, before, after) => {
    expect(patchText(text, path, value)).toBe(text.replace(before, after));
  });

  test("writes the whole file again if lines can't be replaced, comments kept", () => {
    const patched = patchText(text, ['b'], { z: 1 });
    expect(patched).toContain('b:\n  z: 1\n');
    for (const comment of ['# top', '# one', '# end']) expect(patched).toContain(comment);
  });

  test('has no place for a key below a value', () => {
    expect(patchText(text, ['a', 'b'], 1)).toBeUndefined();
  });

  test('starts an empty file', () => {
    expect(patchText('', ['a', 'b'], 1)).toBe('a:\n  b: 1\n');
  });
});

describe('removeKey', () => {
  const text = `# top
a: 1 # one
b:
  c: x
  # about d
  d:
    e: 1
    f: 2 # two
list:
  - n: 1
    m: 2
  - {n: 2}
`;

  test.each([
    [['a'], 'a: 1 # one\n', ''],
    [['b', 'c'], '  c: x\n', ''],
    [['b', 'd'], '  d:\n    e: 1\n    f: 2 # two\n', ''],
    [['b', 'd', 'f'], '    f: 2 # two\n', ''],
    [['list', 0, 'm'], '    m: 2\n', ''],
  ])('takes out the lines of %j alone', (path, lines, rest) => {
    expect(removeKey(text, path)).toBe(text.replace(lines, rest));
  });

  test('removes entries from lists, also between brackets', () => {
    expect(removeKey(text, ['list', 0])).toContain('list:\n  - {');
    expect(removeKey('a: {b: 1, c: 2} # x\n', ['a', 'b'])).toMatch(/^a: \{ ?c: 2 ?\} # x\n$/);
    expect(removeKey('a:\n  b: 1\nc: 2\n', ['a', 'b'])).toBe('a:\nc: 2\n');
  });

  test('says when it is not there', () => {
    expect(removeKey(text, ['b', 'nothing'])).toBeUndefined();
  });
});

describe('addresses', () => {
  const value = {
    plugins: { echo: { schedules: [{ every: '5m' }] }, 'a.b': { enabled: true } },
    api: { auth: { tokens: [{ token: 't' }, { name: 'ci.main', scopes: [] }, { name: 'x' }] } },
    tokens: [{ name: 'file', key: 'k' }],
  };

  test.each([
    ['service.max_workers', ['service', 'max_workers']],
    ['plugins.echo.schedules.0.every', ['plugins', 'echo', 'schedules', 0, 'every']],
    ['plugins.echo.schedules[0].every', ['plugins', 'echo', 'schedules', 0, 'every']],
    ['plugins.a.b.enabled', ['plugins', 'a.b', 'enabled']],
    ['plugins["a.b"].enabled', ['plugins', 'a.b', 'enabled']],
    ['plugin:echo.enabled', ['plugins', 'echo', 'enabled']],
    ['plugin:a.b.enabled', ['plugins', 'a.b', 'enabled']],
    ['plugin:other', ['plugins', 'other']],
    ['plugin:*', ['plugins']],
    ['token:ci.main.scopes', ['api', 'auth', 'tokens', 1, 'scopes']],
    ['token:x', ['api', 'auth', 'tokens', 2]],
    ['token:*', ['api', 'auth', 'tokens']],
    ['token:file', ['tokens', 0]],
    ['token:file.scopes', ['tokens', 0, 'scopes']],
  ])('%s', (text, path) => expect(parseAddress(text, value)).toEqual(path));

  test('for tokens point into the existing list', () => {
    const tokens = [{ name: 'file' }];
    expect(parseAddress('token:*', { api: { auth: { tokens: [] } }, tokens })).toEqual(['tokens']);
    expect(() => parseAddress('token:x', {})).toThrow('token:x does not exist');
  });

  test.each(['', '.', 'a..b', 'a[', 'job:1', 'token:none', 'token:undefined.x', 'constructor:x'])(
    '%j is none',
    (text) => {
      expect(() => parseAddress(text, value)).toThrow(
        expect.objectContaining({ code: 'INPUT_INVALID' }),
      );
    },
  );
});

test.each([
  ['true', true],
  ['null', null],
  ['-3', -3],
  ['1.5', 1.5],
  ['5m', '5m'],
  ['007', '007'],
  ['', ''],
  ['[1, "a"]', [1, 'a']],
  ['{"a": 1}', { a: 1 }],
  ['[not json', '[not json'],
  ['"5"', '5'],
  ['[{every: 5m, not_on: [sat]}]', [{ every: '5m', not_on: ['sat'] }]],
  ['{ start: 21, end: 8 }', { start: 21, end: 8 }],
  ['{payload.name}', '{payload.name}'],
  ['[INFO] all is well', '[INFO] all is well'],
  ['{{ name }}', '{{ name }}'],
  ['[a, b', '[a, b'],
])('%j is %j', (text, value) => expect(parseValue(text)).toEqual(value));

test.each(['12345678901234567890', '0.1234567890123456789', '{"a":[9007199254740993]}'])(
  '%s is refused, because a file could not keep it',
  (text) => expect(() => parseValue(text)).toThrow('more digits than a number can hold'),
);

describe('an edit', () => {
  const files = {
    'config.yaml':
      '# mine\nplugin_roots: [p]\ninclude: [more.yaml]\nroutes: [{event_type: a, to: x}]\n',
    'more.yaml': 'service:\n  name: old # keep\nroutes: [{event_type: b, to: x}]\n',
  };

  test('goes to the file that has the key, keeps a copy, and renews its lock alone', async () => {
    const directory = await makeConfigTree(files);
    const options = { given: directory };
    lockConfig(directory);
    await writeFile(join(directory, 'config.yaml'), `${files['config.yaml']}# touched\n`);
    const before = readConfig(options);
    const edit = planEdit(before, ['service', 'name'], 'new', options);
    const applied = applyEdit(edit, before, options, NOW);
    expect(applied).toEqual({ backup: join(directory, 'more.yaml.bak'), locked: true });
    expect(await readFile(join(directory, 'more.yaml'), 'utf8')).toBe(
      files['more.yaml'].replace('old', 'new'),
    );
    expect(await readFile(applied.backup, 'utf8')).toBe(files['more.yaml']);
    expect(readConfig(options).drift.map(({ path }) => path)).toEqual(['config.yaml']);
  });

  test('counts entries of lists on from file to file', async () => {
    const directory = await makeConfigTree(files);
    const options = { given: directory };
    const edit = planEdit(readConfig(options), ['routes', 1, 'event_type'], 'c', options);
    expect(edit.file).toBe(join(directory, 'more.yaml'));
    expect(edit.text).toContain('event_type: c');
    expect(edit.reading.config?.routes.map(({ eventType }) => eventType)).toEqual(['a', 'c']);
  });

  test('a new key goes to the file that has its section, or to the root', async () => {
    const directory = await makeConfigTree(files);
    const options = { given: directory };
    const reading = readConfig(options);
    const place = (path: readonly string[], value: unknown): string =>
      planEdit(reading, path, value, options).file.slice(directory.length + 1);
    expect(place(['service', 'max_hops'], 3)).toBe('more.yaml');
    expect(place(['api', 'listen'], '127.0.0.1:1')).toBe('config.yaml');
  });

  test('that makes it invalid is refused before anything is written', async () => {
    const directory = await makeConfigTree(files);
    const options = { given: directory };
    expect(() => planEdit(readConfig(options), ['service', 'max_hops'], 0, options)).toThrow(
      'service.max_hops must be at least 1, not 0',
    );
    expect(await readFile(join(directory, 'more.yaml'), 'utf8')).toBe(files['more.yaml']);
    expect(loadConfig(options).service.name).toBe('old');
  });
});

describe('a write that fails in the middle', () => {
  test('leaves the file, and its lock, as they were', async () => {
    const directory = await makeConfigTree({ 'config.yaml': 'plugin_roots: [p]\n' });
    lockConfig(directory);
    const [file, seal] = [join(directory, 'config.yaml'), join(directory, '.checksums')];
    const options = { given: directory, env: {} };
    const reading = readConfig(options);
    const edit = planEdit(reading, ['service', 'max_hops'], 3, options);
    // The lock can be read, but nothing can take its place.
    const sealed = await readFile(seal, 'utf8');
    await rm(seal);
    await mkdir(join(seal, 'x'), { recursive: true });
    expect(() => applyEdit(edit, reading, options, NOW)).toThrow();
    await rm(seal, { recursive: true });
    await writeFile(seal, sealed);
    expect(await readFile(file, 'utf8')).toBe('plugin_roots: [p]\n');
    expect(readConfig(options).drift).toEqual([]);
  });

  test('a link stays a link', async () => {
    const directory = await makeConfigTree({
      'real.yaml': 'plugin_roots: [p]\nservice: {allow_symlinks: true}\n',
    });
    const file = join(directory, 'config.yaml');
    await symlink('real.yaml', file);
    const options = { given: directory, env: {} };
    const reading = readConfig(options);
    expect(reading.problems).toEqual([]);
    const edit = planEdit(reading, ['service', 'max_hops'], 3, options);
    applyEdit(edit, reading, options, NOW);
    expect((await lstat(file)).isSymbolicLink()).toBe(true);
    expect(await readFile(join(directory, 'real.yaml'), 'utf8')).toContain('max_hops: 3');
  });

  test.skipIf(process.getuid?.() !== 0)(
    'a file that root writes stays readable to its owner',
    async () => {
      const directory = await makeConfigTree({ 'config.yaml': 'plugin_roots: [p]\n' });
      await chown(directory, 1234, 1234);
      lockConfig(directory);
      expect(await stat(join(directory, '.checksums'))).toMatchObject({ uid: 1234, gid: 1234 });
    },
  );
});
