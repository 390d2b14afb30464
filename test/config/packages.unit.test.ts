import { chmod, mkdir, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import type { JsonObject } from '../../src/base/json.ts';
import { findPackages, pickPackage, readPackage } from '../../src/config/packages.ts';
import { describeProblem } from '../../src/config/problem.ts';
import { makeDirectory } from '../support/directory.ts';
import { manifest, writePackage } from '../support/packages.ts';

async function problemsOf(
  content: JsonObject,
  change: (directory: string) => Promise<unknown> = () => Promise.resolve(),
): Promise<string[]> {
  const directory = join(await makeDirectory(), 'p');
  await writePackage(directory, content);
  await change(directory);
  return readPackage(directory).problems.map((one) =>
    describeProblem(one).replaceAll(`${directory}/`, ''),
  );
}

describe('a package with code of its own is refused', () => {
  test.each(['run.sh', 'index.js', 'a.py', 'program', 'x.so', '.hidden'])('%s', async (name) => {
    const [problem] = await problemsOf(manifest(), (at) => writeFile(join(at, name), 'x'));
    expect(problem).toContain(`${name}: the file could be code`);
  });

  test('in a directory below', async () => {
    const problems = await problemsOf(manifest(), async (at) => {
      await mkdir(join(at, 'docs'));
      await writeFile(join(at, 'docs', 'a.md'), 'words');
      await writeFile(join(at, 'docs', 'a.sh'), 'rm');
    });
    expect(problems).toEqual([expect.stringContaining('docs/a.sh: the file could be code')]);
  });

  test('as a link', async () => {
    const [problem] = await problemsOf(manifest(), (at) => symlink('/bin/sh', join(at, 'a.md')));
    expect(problem).toContain('a.md: the file is a symbolic link');
  });

  test('as words that can be run', async () => {
    const [problem] = await problemsOf(manifest(), async (at) => {
      await writeFile(join(at, 'a.md'), '#!/bin/sh');
      await chmod(join(at, 'a.md'), 0o755);
    });
    expect(problem).toContain('a.md: the file is executable');
  });

  test.each(['entrypoint', 'script', 'plugin_roots', 'run'])('by the key %s', async (key) => {
    const [problem] = await problemsOf(manifest({ [key]: 'run.sh' }));
    expect(problem).toContain(`${key} would be code: a package contains only metadata`);
  });
});

test('all problems are reported at once, each with its location', async () => {
  const wrong = { slug: 'Greeter', version: '1.0', category: 'fun', requires: [{ version: 'x' }] };
  const problems = await problemsOf(manifest(wrong));
  expect(problems.map((one) => one.replace(/^package.yaml:\d+:\d+: /, ''))).toEqual([
    expect.stringMatching(/^slug must be lowercase/),
    expect.stringMatching(/^version is not a version/),
    expect.stringMatching(/^category must be operations/),
    expect.stringMatching(/^requires\[0\]\.plugin is required/),
    expect.stringMatching(/^requires\[0\]\.version is not a range/),
  ]);
});

describe('the packages of some roots', () => {
  test('are found with or without a directory for each version, newest first', async () => {
    const root = await makeDirectory();
    await writePackage(join(root, 'greeter', '1.0.0'), manifest());
    await writePackage(join(root, 'greeter', '1.10.0'), manifest({ version: '1.10.0' }));
    await writePackage(join(root, 'greeter', 'b'), manifest({ version: '1.9.0' }));
    await writePackage(join(root, 'other'), manifest({ slug: 'other' }));
    const found = findPackages([root]);
    expect(found.packages.map(({ slug, version }) => `${slug}@${version}`)).toEqual([
      'greeter@1.10.0',
      'greeter@1.9.0',
      'greeter@1.0.0',
      'other@1.0.0',
    ]);
    expect(pickPackage(found, 'greeter', 'latest').version).toBe('1.10.0');
    expect(() => pickPackage(found, 'greter', 'latest')).toThrow('there is no package greter');
    expect(() => pickPackage(found, 'greeter', '3.0.0')).toThrow('no version 3.0.0 of greeter');
  });

  test('with the same version and other content are reported; the first is used', async () => {
    const [one, two] = [await makeDirectory(), await makeDirectory()];
    await writePackage(join(one, 'g'), manifest({ title: 'One' }));
    await writePackage(join(two, 'g'), manifest({ title: 'Two' }));
    const { packages, problems } = findPackages([one, two]);
    expect(packages.map(({ title }) => title)).toEqual(['One']);
    expect(problems[0]?.message).toContain('greeter@1.0.0 already exists');
  });

  test('have a hash that knows every byte of every file and every name', async () => {
    const at = join(await makeDirectory(), 'p');
    await writePackage(at, manifest());
    const hashes = [readPackage(at).package?.hash];
    await writeFile(join(at, 'README.md'), 'a');
    hashes.push(readPackage(at).package?.hash);
    await writeFile(join(at, 'README.md'), 'b');
    hashes.push(readPackage(at).package?.hash);
    expect(new Set(hashes).size).toBe(3);
  });

  test('a root that is not there is a problem and no more', () => {
    const { packages, problems } = findPackages(['/nowhere/at/all']);
    expect(packages).toEqual([]);
    expect(problems).toHaveLength(1);
  });
});
