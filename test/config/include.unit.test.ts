import { symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { loadConfig } from '../../src/config/load.ts';
import { makeConfigTree, listProblems } from '../support/config-tree.ts';

const roots = 'plugin_roots: [p]\n';

describe('include', () => {
  test('files and directories are merged in order, nested ones relative to their own place', async () => {
    const directory = await makeConfigTree({
      'config.yaml': `${roots}include: [parts, more/last.yaml]
service: {name: root, max_hops: 9, allow_symlinks: true}
`,
      'parts/b.yaml': 'service: {name: b, max_hops: 0x2}\nroutes: [{event_type: b, to: x}]\n',
      'parts/a.yaml':
        'service: {name: a}\nroutes: [{event_type: a, to: x}]\ninclude: [../deep/c.yaml]\n',
      'parts/.hidden.yaml': 'service: {name: hidden}\n',
      'parts/notes.txt': 'not: {read: at all\n',
      'deep/c.yaml': 'plugin_roots: [q]\nplugins: {echo: {config: {a: 1, l: [1]}}}\n',
      'more/last.yaml':
        'service: {allow_symlinks: false}\nplugins: {echo: {enabled: false, config: {b: 0, l: [2]}}}\n',
    });
    const config = loadConfig({ given: directory, env: {} });
    expect(config.service).toMatchObject({ name: 'b', maxHops: 2, allowSymlinks: false });
    expect(config.routes.map(({ eventType, place }) => [eventType, place])).toEqual([
      ['a', `${join(directory, 'parts/a.yaml')}:2:10`],
      ['b', `${join(directory, 'parts/b.yaml')}:2:10`],
    ]);
    expect(config.pluginRoots.map(({ path }) => path)).toEqual([
      join(directory, 'p'),
      join(directory, 'q'),
    ]);
    expect(config.plugins['echo']).toMatchObject({
      enabled: false,
      config: { a: 1, b: 0, l: [1, 2] },
    });
    expect(config.files.map(({ path }) => path)).toEqual(
      ['config.yaml', 'parts/a.yaml', 'deep/c.yaml', 'parts/b.yaml', 'more/last.yaml'].map((file) =>
        join(directory, file),
      ),
    );
  });

  test('a directory is read with its .yml files, and tokens.yml must be locked as tokens.yaml', async () => {
    const directory = await makeConfigTree({
      'config.yaml': `${roots}include: [parts]\n`,
      'parts/a.yml': 'service: {name: short}\n',
    });
    expect(loadConfig({ given: directory, env: {} }).service.name).toBe('short');
    const tokens = await makeConfigTree({
      'config.yaml': `${roots}include: [parts]\n`,
      'parts/tokens.yml': 'tokens: [{name: a, key: 0123456789abcdef, scopes: []}]\n',
    });
    expect(() => loadConfig({ given: tokens, env: {} })).toThrow('the file was never locked');
  });

  test('a key without a value does not take away what another file set', async () => {
    const directory = await makeConfigTree({
      'config.yaml': `${roots}include: [a.yaml]\nservice: {name: here}\n`,
      'a.yaml': 'service:\nplugins:\n',
    });
    expect(loadConfig({ given: directory, env: {} }).service.name).toBe('here');
  });

  test("a file beside the root that looks like a part of it, and isn't, is reported", async () => {
    const files = { 'tokens.yaml': 'tokens: []\n', 'routes.yaml': '', 'other.yaml': '' };
    const directory = await makeConfigTree({
      'config.yaml': `${roots}include: [routes.yaml]\n`,
      ...files,
    });
    expect(loadConfig({ given: directory, env: {} }).warnings).toEqual([
      expect.objectContaining({
        place: join(directory, 'tokens.yaml'),
        message: 'is not read: no file includes it',
      }),
    ]);
  });

  test('a circle is named with the whole way', async () => {
    const directory = await makeConfigTree({
      'config.yaml': `${roots}include: [a.yaml]\n`,
      'a.yaml': 'include: [b.yaml]\n',
      'b.yaml': 'service: {name: b}\ninclude: [a.yaml]\n',
    });
    expect(listProblems(directory)).toEqual([
      'b.yaml:2:11 include[0] is part of a cycle: config.yaml → a.yaml → b.yaml → a.yaml',
    ]);
  });

  test('a file that is included twice, and one that is not there', async () => {
    const directory = await makeConfigTree({
      'config.yaml': `${roots}include: [a.yaml, b.yaml, ./a.yaml, gone.yaml]\n`,
      'a.yaml': '{}',
      'b.yaml': '{}',
    });
    expect(listProblems(directory)).toEqual([
      'config.yaml:2:27 include[2] includes a.yaml again; it was included by config.yaml → a.yaml',
      'config.yaml:2:37 include[3] names gone.yaml, which does not exist',
    ]);
  });

  test('a path with a variable is refused, and a value that is not a list is left to the schema', async () => {
    const directory = await makeConfigTree({
      'config.yaml': `${roots}include: ["\${HOME}/x.yaml"]\n`,
    });
    expect(listProblems(directory)[0]).toContain('include[0] names a variable');
    const other = await makeConfigTree({ 'config.yaml': `${roots}include: a.yaml\n` });
    expect(listProblems(other)).toEqual(['config.yaml:2:1 include must be a list, not "a.yaml"']);
  });

  test('a problem in an included file has its location there, and the nearest known key', async () => {
    const directory = await makeConfigTree({
      'config.yaml': `${roots}include: [a.yaml]\n`,
      'a.yaml': '# first\nplugins:\n  e: {parallelism: 0, confg: {}}\n',
    });
    expect(listProblems(directory)).toEqual([
      'a.yaml:3:7 plugins.e.parallelism must be at least 1, not 0',
      'a.yaml:3:23 plugins.e.confg is not a known key',
    ]);
  });

  test('symbolic links are refused unless they are allowed, and then warned about', async () => {
    const directory = await makeConfigTree({
      'config.yaml': `${roots}include: [link.yaml]\n`,
      'real.txt': 'service: {name: linked}\n',
    });
    await symlink('real.txt', join(directory, 'link.yaml'));
    expect(listProblems(directory)).toEqual([
      'config.yaml:2:11 include[0] link.yaml is a symbolic link',
    ]);
    const allowed = await makeConfigTree({
      'config.yaml': `${roots}include: [link.yaml]\nservice: {allow_symlinks: true}\n`,
      'real.txt': 'service: {name: linked}\n',
    });
    await symlink('real.txt', join(allowed, 'link.yaml'));
    const config = loadConfig({ given: allowed, env: {} });
    expect(config.service.name).toBe('linked');
    expect(config.warnings.map(({ message }) => message)).toEqual([
      `${join(allowed, 'link.yaml')} is a symbolic link`,
    ]);
  });
});

describe('environment files', () => {
  test('set what the process does not, in all the usual spellings', async () => {
    const directory = await makeConfigTree({
      'config.yaml': `${roots}environment_vars: {include: [a.env, sub/b.env]}
plugins: {e: {config: {all: ["\${A}", "\${B}", "\${C}", "\${D}", "\${E}", "\${F}"]}}}
`,
      'a.env': `# secrets
A=plain value # and a comment
export B="quoted # not a comment"
C='single "inside"'

D=
E=from-a
F = spaced
`,
      'sub/b.env': 'E=from-b\nA=never\n',
    });
    const config = loadConfig({ given: directory, env: { A: 'process' } });
    expect(config.plugins['e']?.config).toEqual({
      all: ['process', 'quoted # not a comment', 'single "inside"', '', 'from-b', 'spaced'],
    });
  });

  test('a bad line is named without what is in it', async () => {
    const directory = await makeConfigTree({
      'config.yaml': `${roots}environment_vars: {include: [a.env, gone.env]}\n`,
      'a.env': 'GOOD=1\nhunter2\nOPEN="hunter2\n',
    });
    const problems = listProblems(directory);
    expect(problems).toEqual([
      'a.env:2:1  the line is not NAME=value',
      'a.env:3:1 OPEN a quote is not closed',
      'config.yaml:2:37 environment_vars.include[1] names gone.env, which does not exist',
    ]);
  });
});
