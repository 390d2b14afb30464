import { execFileSync } from 'node:child_process';
import { mkdir, readdir, readFile, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  packArchive,
  unpackArchive,
  openBackup,
  restoreBackup,
  writeBackup,
} from '../../src/config/backup.ts';
import { readConfig } from '../../src/config/load.ts';
import { makeDirectory } from '../support/directory.ts';
import { makeConfigTree } from '../support/config-tree.ts';

const NOW = Date.parse('2026-11-15T12:00:00.000Z');

test('a packed archive unpacks to the same files', () => {
  const name = fc.stringMatching(/^[a-z0-9_ é-]{1,40}$/);
  const entry = fc.record({
    path: fc.array(name, { minLength: 1, maxLength: 4 }).map((parts) => parts.join('/')),
    bytes: fc.uint8Array({ maxLength: 2000 }).map((bytes) => Buffer.from(bytes)),
  });
  const entries = fc.uniqueArray(entry, { selector: ({ path }) => path, maxLength: 8 });
  fc.assert(
    fc.property(entries, (files) => {
      expect(unpackArchive(packArchive(files, NOW))).toEqual(files);
    }),
    { numRuns: 50 },
  );
});

test('other programs read it, and it reads theirs', async () => {
  const directory = await makeDirectory();
  const path = `${'long/'.repeat(25)}name.yaml`;
  const ours = join(directory, 'ours.tar.gz');
  await writeFile(ours, packArchive([{ path, bytes: Buffer.from('hello') }], NOW));
  execFileSync('tar', ['xzf', ours, '-C', directory]);
  expect(await readFile(join(directory, path), 'utf8')).toBe('hello');
  const theirs = join(directory, 'theirs.tar.gz');
  execFileSync('tar', ['czf', theirs, '--format=ustar', '-C', directory, './long']);
  const entries = unpackArchive(await readFile(theirs));
  expect(entries.map((entry) => [entry.path, entry.bytes.toString()])).toEqual([[path, 'hello']]);
});

describe('an archive is refused', () => {
  const bytes = Buffer.from('x');

  test.each(['../up', '/root', 'a/../../b', 'a//b', './a', 'a\\b', ''])('with %j in it', (path) => {
    expect(() => packArchive([{ path, bytes }], NOW)).toThrow('leads out of the directory');
  });

  test('with a link in it', async () => {
    const directory = await makeDirectory();
    await mkdir(join(directory, 'd'));
    await symlink('/etc/passwd', join(directory, 'd/config.yaml'));
    const file = join(directory, 'a.tar.gz');
    execFileSync('tar', ['czf', file, '-C', join(directory, 'd'), 'config.yaml']);
    const archive = await readFile(file);
    expect(() => unpackArchive(archive)).toThrow('neither a file nor a directory');
  });

  test('with a path that leads out, whichever program wrote it', () => {
    const good = packArchive([{ path: 'aa/config.yaml', bytes }], NOW);
    const tar = Buffer.from(unzip(good));
    tar.write('../config.yaml', 0, 'latin1');
    sign(tar);
    expect(() => unpackArchive(gzipSync(tar))).toThrow('leads out of the directory');
  });

  test('when it is damaged, cut off, or something else', () => {
    const tar = unzip(packArchive([{ path: 'a', bytes: Buffer.alloc(600) }], NOW));
    expect(() => unpackArchive(gzipSync(tar.subarray(0, 900)))).toThrow('in the middle of a');
    tar[3] = 77;
    expect(() => unpackArchive(gzipSync(tar))).toThrow('header in it is damaged');
    expect(() => unpackArchive(Buffer.from('not gzip'))).toThrow('cannot be unpacked');
  });

  test('when it has too many files, or too much in them', () => {
    const many = Array.from({ length: 2049 }, (_, index) => ({ path: `f${index}`, bytes }));
    expect(() => packArchive(many, NOW)).toThrow('too many files');
    const large = { path: 'a', bytes: Buffer.alloc(10 * 1024 * 1024 + 1) };
    expect(() => packArchive([large], NOW)).toThrow('a is too large');
    const bomb = gzipSync(Buffer.alloc(80 * 1024 * 1024));
    expect(() => unpackArchive(bomb)).toThrow('cannot be unpacked');
  });
});

describe('a backup of a configuration', () => {
  const files = {
    'config.yaml': 'plugin_roots: [p]\ninclude: [conf.d]\nenvironment_vars: {include: [.env]}\n',
    'conf.d/a.yaml': 'service: {name: a}\n',
    '.env': 'A=1\n',
  };

  test('has its files and nothing else, and brings them back', async () => {
    const directory = await makeConfigTree({
      ...files,
      'data/state.db': 'rows',
      'notes.txt': 'mine',
    });
    const archive = join(directory, 'b.tar.gz');
    const listed = writeBackup(readConfig({ given: directory }), archive, NOW);
    expect(listed).toEqual({ files: ['config.yaml', 'conf.d/a.yaml', '.env'], outside: [] });
    await writeFile(join(directory, 'conf.d/a.yaml'), 'service: {name: changed}\n');
    await writeFile(join(directory, 'conf.d/b.yaml'), 'service: {name: newer}\n');
    const restoring = openBackup(archive);
    const before = readConfig({ given: directory });
    expect(before.config?.service.name).toBe('newer');
    const { previous, aside } = restoreBackup(before, restoring, directory, NOW);
    expect(readConfig({ given: directory }).config?.service.name).toBe('a');
    expect(aside).toEqual(['conf.d/b.yaml']);
    expect(await readdir(join(directory, 'conf.d'))).toEqual(['a.yaml', 'b.yaml.bak']);
    const entries = unpackArchive(await readFile(previous ?? ''));
    expect(entries.map(({ path }) => path)).toContain('conf.d/b.yaml');
    expect(await readFile(join(directory, 'notes.txt'), 'utf8')).toBe('mine');
  });

  test('never replaces a file', async () => {
    const directory = await makeConfigTree(files);
    const to = join(directory, 'config.yaml');
    expect(() => writeBackup(readConfig({ given: directory }), to, NOW)).toThrow('already exists');
    expect(await readFile(to, 'utf8')).toBe(files['config.yaml']);
  });

  test('that is invalid changes nothing', async () => {
    const directory = await makeConfigTree(files);
    const archive = join(directory, 'b.tar.gz');
    const bad = [{ path: 'config.yaml', bytes: Buffer.from('plugin_roots: []\n') }];
    await writeFile(archive, packArchive(bad, NOW));
    const restoring = openBackup(archive);
    const before = readConfig({ given: directory });
    expect(() => restoreBackup(before, restoring, directory, NOW)).toThrow('plugin_roots');
    expect(await readFile(join(directory, 'config.yaml'), 'utf8')).toBe(files['config.yaml']);
  });
});

function unzip(archive: Buffer): Buffer {
  return execFileSync('gzip', ['-dc'], { input: archive });
}

/** Makes the checksum of the first header right again. */
function sign(tar: Buffer): void {
  tar.fill(' ', 148, 156);
  const sum = tar.subarray(0, 512).reduce((total, byte) => total + byte, 0);
  tar.write(`${sum.toString(8).padStart(6, '0')}\u0000 `, 148, 'latin1');
}
