import { spawnSync } from 'node:child_process';
import { statSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { expect, test } from 'vitest';
import { makeDirectories } from '../../src/base/files.ts';
import { makeDirectory } from '../support/directory.ts';

test('a directory is made with those above it, for its owner alone', async () => {
  const path = join(await makeDirectory(), 'a', 'b', 'c');
  makeDirectories(path);
  makeDirectories(path);
  expect(statSync(path).mode & 0o777).toBe(0o700);
});

test('an obstacle is reported', async () => {
  const file = join(await makeDirectory(), 'file');
  writeFileSync(file, '');
  expect(() => makeDirectories(file)).toThrow('EEXIST');
  expect(() => makeDirectories(join(file, 'beneath'))).toThrow('EEXIST');
});

// In a process of its own, which can be ended when it never ends by itself.
test.runIf(process.platform === 'linux')(
  "a location that can't be written is reported at once",
  () => {
    const files = resolve(import.meta.dirname, '../../src/base/files.ts');
    const program = `import { makeDirectories } from ${JSON.stringify(files)};
    try { makeDirectories('/proc/nobody/here'); } catch (error) { console.log(error.code); }`;
    const args = ['--input-type=module', '--eval', program];
    const { stdout } = spawnSync(process.execPath, args, { encoding: 'utf8', timeout: 120_000 });
    expect(stdout).toBe('ENOENT\n');
  },
);
