import { readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { blake3 } from '../../src/base/blake3.ts';
import { loadConfig, readConfig } from '../../src/config/load.ts';
import { makeDirectory } from '../support/directory.ts';
import { lockConfig, makeConfigTree, listProblems } from '../support/config-tree.ts';

const scopes = '{"scopes": ["jobs:ro", "jobs:ro", "plugin:ro"]}';
const files = {
  'config.yaml': 'plugin_roots: [p]\ninclude: [tokens.yaml, more.yaml]\n',
  'tokens.yaml': 'tokens: [{name: ci, key: "${CI}", scopes_file: scopes/ci.json}]\n',
  'more.yaml': 'service: {name: more}\n',
  'scopes/ci.json': scopes,
};
const env = { CI: 'a-secret-of-ci' };

describe('the high tier', () => {
  test('is refused while it is not locked, and taken when it is', async () => {
    const directory = await makeConfigTree(files);
    expect(listProblems(directory, { env })).toEqual([
      'scopes/ci.json  the file was never locked',
      'tokens.yaml  the file was never locked',
    ]);
    lockConfig(directory);
    const { api, warnings, files: read } = loadConfig({ given: directory, env });
    expect(api.auth.tokens).toMatchObject([{ name: 'ci', scopes: ['jobs:ro', 'plugin:ro'] }]);
    expect(warnings).toEqual([]);
    expect(read.map(({ tier }) => tier)).toEqual(['operational', 'high', 'operational', 'high']);
  });

  test.each(['tokens.yaml', 'scopes/ci.json'])('is refused when %s was touched', async (name) => {
    const directory = await makeConfigTree(files);
    lockConfig(directory);
    await writeFile(join(directory, name), `${await readFile(join(directory, name), 'utf8')} `);
    expect(listProblems(directory, { env })).toEqual([
      `${name}  the file changed after it was locked`,
    ]);
  });

  test('a scope file must have the hash that its token names', async () => {
    const hash = blake3(Buffer.from(scopes));
    const withHash = (text: string) => ({
      ...files,
      'tokens.yaml': `tokens:\n  - {name: ci, key: k, scopes_file: scopes/ci.json, scopes_hash: "${text}"}\n`,
    });
    const good = await makeConfigTree(withHash(`blake3:${hash}`));
    lockConfig(good);
    expect(loadConfig({ given: good, env }).api.auth.tokens).toHaveLength(1);
    const bad = await makeConfigTree(withHash(`blake3:${'0'.repeat(64)}`));
    lockConfig(bad);
    expect(listProblems(bad)).toEqual([
      'tokens.yaml:2:53 tokens[0].scopes_hash is not the hash of scopes/ci.json',
    ]);
    expect(readConfig({ given: bad, env }).problems[0]?.hint).toContain(`blake3:${hash}`);
  });
});

describe('the operational tier', () => {
  test('warns by default, and refuses by policy', async () => {
    const directory = await makeConfigTree(files);
    lockConfig(directory);
    await writeFile(join(directory, 'more.yaml'), 'service: {name: other}\n');
    const { warnings, service } = loadConfig({ given: directory, env });
    expect(service.name).toBe('other');
    expect(warnings.map(({ message }) => message)).toEqual([
      'the file changed after it was locked',
    ]);
    await writeFile(join(directory, 'more.yaml'), 'service: {admission: {fail_on_drift: true}}\n');
    expect(listProblems(directory, { env })).toEqual([
      'more.yaml  the file changed after it was locked',
    ]);
    await writeFile(join(directory, 'more.yaml'), 'service: {strict_mode: true}\n');
    expect(listProblems(directory, { env })).toHaveLength(1);
    const admission = 'service: {strict_mode: true, admission: {fail_on_drift: false}}\n';
    await writeFile(join(directory, 'more.yaml'), admission);
    expect(loadConfig({ given: directory, env }).service.admission).toEqual({
      verifyIntegrityOnBoot: true,
      failOnDrift: false,
      validateConfigOnBoot: true,
      requireApiAuth: true,
    });
  });

  test('the policy of what runs holds for what is to take its place', async () => {
    const directory = await makeConfigTree(files);
    lockConfig(directory);
    const { service } = loadConfig({ given: directory, env });
    await writeFile(join(directory, 'more.yaml'), '# touched\n');
    const admission = { ...service.admission, failOnDrift: true };
    expect(listProblems(directory, { env, admission })).toHaveLength(1);
  });

  test('without any lock it is used silently, unless it has to be locked', async () => {
    const plain = await makeConfigTree({ 'config.yaml': 'plugin_roots: [p]\n' });
    expect(loadConfig({ given: plain, env: {} }).warnings).toEqual([]);
    const strict = await makeConfigTree({
      'config.yaml': 'plugin_roots: [p]\nservice: {admission: {verify_integrity_on_boot: true}}\n',
    });
    expect(listProblems(strict)).toEqual(['config.yaml  the file was never locked']);
  });

  test('a locked file that is missing is a change, too', async () => {
    const directory = await makeConfigTree({
      'config.yaml':
        'plugin_roots: [p]\ninclude: [d]\nservice: {admission: {fail_on_drift: true}}\n',
      'd/a.yaml': '{}',
      'd/b.yaml': '{}',
    });
    lockConfig(directory);
    await rm(join(directory, 'd/b.yaml'));
    expect(listProblems(directory)).toEqual(['d/b.yaml  the file was locked but is not used']);
  });
});

describe('the manifest', () => {
  test('moves with its directory', async () => {
    const directory = await makeConfigTree(files);
    lockConfig(directory);
    const moved = join(await makeDirectory(), 'elsewhere');
    await rename(directory, moved);
    expect(loadConfig({ given: moved, env }).warnings).toEqual([]);
  });

  test.each([
    ['is not YAML', 'a: [', 'the file'],
    [
      'is of another version',
      'version: 2\nhashes: {}\n',
      'the file does not have the format version 3',
    ],
    ['has no hashes', 'version: 3\ngenerated_at: x\n', 'the file lacks `generated_at` or `hashes`'],
    [
      'has a bad hash',
      'version: 3\ngenerated_at: x\nhashes: {a: 5}\n',
      'the hash of a is not valid',
    ],
  ])('is an error when it %s', async (_, text, message) => {
    const directory = await makeConfigTree({
      'config.yaml': 'plugin_roots: [p]\n',
      '.checksums': text,
    });
    const [problem] = listProblems(directory);
    if (message !== 'the file') expect(problem).toContain(message);
    expect(problem).toMatch(/^\.checksums/);
  });

  test('is an error when it cannot be read', async () => {
    const directory = await makeConfigTree({
      'config.yaml': 'plugin_roots: [p]\n',
      '.checksums/x': '',
    });
    expect(listProblems(directory)).toEqual(['.checksums  the file is a directory, not a file']);
  });
});
