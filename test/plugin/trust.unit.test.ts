import { chmod, mkdir, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeEach, describe, expect, test } from 'vitest';
import {
  checkTrust,
  findTrustFaults,
  type PathFacts,
  type TrustFacts,
} from '../../src/plugin/trust.ts';
import { makeDirectory } from '../support/directory.ts';
import { writePlugin } from '../support/plugin-tree.ts';

function path(real: string, kind: PathFacts['kind'], mode: number): PathFacts {
  return { path: real, real, kind, mode };
}

const sound: TrustFacts = {
  allowSymlinks: false,
  roots: ['/r'],
  directory: path('/r/p', 'directory', 0o755),
  manifest: path('/r/p/manifest.yaml', 'file', 0o644),
  entrypoint: path('/r/p/run', 'file', 0o755),
  parents: [path('/r/p', 'directory', 0o755), path('/r', 'directory', 0o755)],
  links: [],
};

function faults(change: Partial<TrustFacts>): string[] {
  return findTrustFaults({ ...sound, ...change }).faults.map(({ message }) => message);
}

describe('judge', () => {
  test('a plain plugin is trusted', () => {
    expect(findTrustFaults(sound)).toEqual({ faults: [], warnings: [] });
  });

  test('a path that leads out of the plugin or of every root is refused', () => {
    expect(faults({ directory: { ...sound.directory, real: '/elsewhere' } })[0]).toContain(
      'outside every plugin root',
    );
    expect(faults({ entrypoint: path('/r/q/run', 'file', 0o755) })).toEqual([
      '/r/q/run leads to /r/q/run, outside the directory of the plugin',
    ]);
    // A name with the same prefix is another directory.
    expect(faults({ entrypoint: path('/r/p-other/run', 'file', 0o755) })).toHaveLength(1);
    expect(faults({ manifest: path('/etc/passwd', 'file', 0o644) })).toHaveLength(1);
  });

  test.each([
    [undefined, 'does not exist'],
    [path('/r/p/run', 'directory', 0o755), 'not a regular file'],
    [path('/r/p/run', 'other', 0o755), 'not a regular file'],
    [path('/r/p/run', 'file', 0o644), 'not executable'],
    [path('/r/p/run', 'file', 0o4755), 'set-uid'],
    [path('/r/p/run', 'file', 0o757), 'writable by all users'],
  ])('entrypoint %j', (entrypoint, message) => {
    expect(faults({ entrypoint })).toEqual([expect.stringContaining(message)]);
  });

  test('any execute bit is enough', () => {
    expect(faults({ entrypoint: path('/r/p/run', 'file', 0o710) })).toEqual([]);
  });

  test('a path that everyone can write is refused, up to the root, once each', () => {
    const open = path('/r', 'directory', 0o777);
    expect(faults({ parents: [path('/r/p', 'directory', 0o755), open] })).toEqual([
      '/r is writable by all users',
    ]);
    const directory = path('/r/p', 'directory', 0o757);
    expect(faults({ directory, parents: [directory] })).toEqual(['/r/p is writable by all users']);
  });

  test('links are reported always and refused unless allowed', () => {
    const links = ['/r/p'];
    expect(faults({ links })).toEqual(['/r/p is a symbolic link']);
    expect(findTrustFaults({ ...sound, links, allowSymlinks: true })).toEqual({
      faults: [],
      warnings: ['/r/p is a symbolic link'],
    });
  });
});

describe('examine', () => {
  let root: string;
  let plugin: string;

  beforeEach(async () => {
    root = await makeDirectory();
    plugin = await writePlugin(join(root, 'group', 'echo'));
  });

  function look(directory = plugin, allowSymlinks = false, entrypoint = 'run.sh') {
    const files = { manifest: 'manifest.yaml', entrypoint };
    return checkTrust(root, directory, files, { allowSymlinks, roots: [root] });
  }

  function messages(directory?: string, allowSymlinks?: boolean, entrypoint?: string): string {
    return look(directory, allowSymlinks, entrypoint)
      .verdict.faults.map(({ message }) => message)
      .join('\n');
  }

  test('a plain plugin is trusted, and its entrypoint resolved', () => {
    expect(look()).toEqual({
      verdict: { faults: [], warnings: [] },
      entrypoint: join(plugin, 'run.sh'),
    });
  });

  test('a directory between plugin and root that everyone can write', async () => {
    await chmod(join(root, 'group'), 0o777);
    expect(messages()).toBe(`${join(root, 'group')} is writable by all users`);
  });

  test('an entrypoint that links out of the plugin is refused even where links are allowed', async () => {
    const outside = await writePlugin(join(root, 'other'));
    await symlink(join(outside, 'run.sh'), join(plugin, 'link.sh'));
    expect(messages(plugin, true, 'link.sh')).toContain('outside the directory of the plugin');
    expect(messages(plugin, false, 'link.sh')).toContain('link.sh is a symbolic link');
  });

  test('a link inside the plugin is followed where links are allowed', async () => {
    await symlink('run.sh', join(plugin, 'link.sh'));
    const { verdict, entrypoint } = look(plugin, true, 'link.sh');
    expect(verdict.faults).toEqual([]);
    expect(verdict.warnings).toEqual([`${join(plugin, 'link.sh')} is a symbolic link`]);
    expect(entrypoint).toBe(join(plugin, 'run.sh'));
  });

  test('a plugin directory that links to another root or out of all', async () => {
    const inside = join(root, 'linked');
    await symlink(plugin, inside);
    expect(messages(inside, true)).toBe('');
    expect(messages(inside, false)).toContain('linked is a symbolic link');
    const away = await writePlugin(join(await makeDirectory(), 'away'));
    await symlink(away, join(root, 'away'));
    expect(messages(join(root, 'away'), true)).toContain('outside every plugin root');
  });

  test("a directory, a missing file and a file below a file aren't programs", async () => {
    await mkdir(join(plugin, 'bin'));
    expect(messages(plugin, false, 'bin')).toContain('not a regular file');
    expect(messages(plugin, false, 'gone')).toContain('does not exist');
    await writeFile(join(plugin, 'plain'), '', { mode: 0o600 });
    expect(messages(plugin, false, 'plain')).toContain('not executable');
    expect(messages(plugin, false, 'plain/x')).toContain('does not exist');
  });
});
