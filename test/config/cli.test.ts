/** The configuration from the command line: real files, the real operations, no process. */
import { access, readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { cliHost } from '../../src/app/cli-host.ts';
import { makeDirectory } from '../support/directory.ts';
import { run as runCommand } from '../support/fake-cli.ts';
import type { CliResult } from '../support/fake-cli.ts';
import { succeeds } from '../support/plugin-program.ts';
import { writePlugin } from '../support/plugin-tree.ts';

async function config(directory: string, ...args: readonly string[]): Promise<CliResult> {
  return runCommand(['config', ...args, '--config', directory], {
    host: { openLocal: (given, need) => cliHost.openLocal(given, need) },
    io: { cwd: directory },
  });
}

async function makeStarter(): Promise<string> {
  const directory = join(await makeDirectory(), 'etc');
  expect(await config(directory, 'init', directory)).toMatchObject({ code: 0, err: '' });
  return directory;
}

function parse({ out }: CliResult): Record<string, unknown> {
  return JSON.parse(out) as Record<string, unknown>;
}

describe('config init', () => {
  test('writes a valid and locked configuration that only its owner can read', async () => {
    const directory = await makeStarter();
    expect(await config(directory, 'check', '--fail-on-warnings')).toMatchObject({
      code: 0,
      out: 'Nothing is wrong.\n',
    });
    expect(await config(directory, 'diff')).toMatchObject({ code: 0 });
    const modes = await Promise.all(
      ['.', 'config.yaml', '.checksums'].map((path) => stat(join(directory, path))),
    );
    expect(modes.map(({ mode }) => mode & 0o777)).toEqual([0o700, 0o600, 0o600]);
  });

  test('replaces a configuration only with --force, and then keeps the old one', async () => {
    const directory = await makeStarter();
    const file = join(directory, 'config.yaml');
    await writeFile(file, 'mine: yes\n');
    const refused = await config(directory, 'init', directory, '--json');
    expect(refused.code).toBe(1);
    expect(JSON.parse(refused.err)).toMatchObject({ code: 'CONFIG_EXISTS', place: file });
    expect(await readFile(file, 'utf8')).toBe('mine: yes\n');
    expect(await config(directory, 'init', directory, '--force')).toMatchObject({ code: 0 });
    expect(await readFile(`${file}.bak`, 'utf8')).toBe('mine: yes\n');
  });

  test('only describes the change with --dry-run', async () => {
    const directory = join(await makeDirectory(), 'never');
    expect(await config(directory, 'init', directory, '--dry-run')).toMatchObject({ code: 0 });
    await expect(access(directory)).rejects.toThrow('ENOENT');
  });
});

describe('config check', () => {
  test('exits with 1 for errors, 2 for warnings if they count, and 78 without a configuration', async () => {
    const directory = await makeStarter();
    const file = join(directory, 'config.yaml');
    const good = await readFile(file, 'utf8');
    await writeFile(file, `${good}# touched\n`);
    expect(await config(directory, 'check')).toMatchObject({ code: 0 });
    expect(await config(directory, 'check', '--fail-on-warnings')).toMatchObject({ code: 2 });
    await writeFile(file, `${good}nonsense: 1\n`);
    const bad = await config(directory, 'check', '--json');
    expect(bad.code).toBe(1);
    expect(parse(bad)).toMatchObject({ valid: false, errors: 1 });
    expect(await config(join(directory, 'nowhere'), 'check')).toMatchObject({ code: 78 });
  });
});

test('the active configuration is refused with a plugin that does not load, if that is requested', async () => {
  const directory = await makeStarter();
  await writePlugin(join(directory, 'plugins/bad'), { manifest: 'name: bad\n' });
  expect(await config(directory, 'view')).toMatchObject({ code: 0 });
  expect((await config(directory, 'set', 'service.strict_mode=true', '--apply')).code).toBe(2);
  const strict = await config(directory, 'view');
  expect(strict.code).toBe(78);
  expect(strict.err).toContain('plugins/bad/manifest.yaml');
});

describe('config get and show', () => {
  test('tell a key, where it is set, and what it is without being set', async () => {
    const directory = await makeStarter();
    expect(parse(await config(directory, 'get', 'plugin:echo.enabled', '--json'))).toEqual({
      key: 'plugins.echo.enabled',
      value: true,
      source: `${join(directory, 'config.yaml')}:23:5`,
    });
    expect(parse(await config(directory, 'get', 'service.max_hops', '--json'))).toMatchObject({
      value: 32,
      source: 'default',
    });
    expect((await config(directory, 'get', 'service.nothing')).code).toBe(2);
    expect((await config(directory, 'show', 'plugins')).out).toBe(
      'echo:\n  enabled: true\n  schedules:\n    - every: 5m\n      jitter: 30s\n',
    );
    expect((await config(directory, 'show', 'plugin:echo', '--effective')).out).toContain(
      'max_outstanding_polls: 1',
    );
  });

  test('show no secrets, even while the rest is invalid', async () => {
    const directory = await makeStarter();
    const text = 'api: {auth: {api_key: hunter2}}\nplugins: {a: {config: {password: hunter2}}}\n';
    await writeFile(join(directory, 'config.yaml'), text);
    const shown = await config(directory, 'show', '--json');
    expect(shown.code).toBe(0);
    expect(shown.out).not.toContain('hunter2');
    expect(shown.out).toContain('[redacted]');
  });
});

describe('config set', () => {
  test('exits 2 when it is done and there are warnings', async () => {
    const directory = await makeStarter();
    const result = await config(directory, 'set', 'service.tick_interval=200ms', '--apply');
    expect(result.code).toBe(2);
    expect(result.out).toContain('service.tick_interval is now 200ms');
    expect(result.out).toContain('0 errors, 1 warning');
    expect((await config(directory, 'get', 'service.tick_interval')).out).toBe('200ms\n');
  });

  test('null is written as such; unset takes the key out', async () => {
    const directory = await makeStarter();
    const file = join(directory, 'config.yaml');
    const before = await readFile(file, 'utf8');
    expect((await config(directory, 'unset', 'service.max_hops', '--apply')).code).toBe(2);
    await config(directory, 'set', 'service.max_hops=3', '--apply');
    const empty = await config(directory, 'set', 'service.max_hops=null', '--apply');
    expect(empty.out).toContain('service.max_hops is now null (it was 3)');
    await config(directory, 'set', 'service.max_hops=4', '--apply');
    const planned = await config(directory, 'unset', 'service.max_hops', '--dry-run');
    expect(planned.out).toContain('will change from 4 to not set');
    expect((await config(directory, 'unset', 'service.max_hops')).code).toBe(2);
    const result = await config(directory, 'unset', 'service.max_hops', '--apply');
    expect(result).toMatchObject({ code: 0, err: '' });
    expect(result.out).toContain('service.max_hops is no longer set (it was 4)');
    expect((await readFile(file, 'utf8')).replace(/\nservice:\n$/, '\n')).toBe(before);
    expect((await config(directory, 'diff')).code).toBe(0);
  });

  test('does nothing without one of the two flags', async () => {
    const directory = await makeStarter();
    const before = await readFile(join(directory, 'config.yaml'), 'utf8');
    expect((await config(directory, 'set', 'service.max_hops=3')).code).toBe(2);
    const planned = await config(directory, 'set', 'service.max_hops=3', '--dry-run');
    expect(planned.out).toContain('service.max_hops');
    expect(await readFile(join(directory, 'config.yaml'), 'utf8')).toBe(before);
  });

  test('changes the one line, keeps a copy and the lock', async () => {
    const directory = await makeStarter();
    const file = join(directory, 'config.yaml');
    const before = await readFile(file, 'utf8');
    const result = await config(directory, 'set', 'plugin:echo.enabled=false', '--apply', '--json');
    expect(result.code).toBe(0);
    expect(parse(result)).toMatchObject({ before: true, after: false, file, locked: true });
    expect(await readFile(file, 'utf8')).toBe(before.replace('enabled: true', 'enabled: false'));
    expect(await readFile(`${file}.bak`, 'utf8')).toBe(before);
    expect((await config(directory, 'diff')).code).toBe(0);
  });

  test('refuses what would be invalid, and what no plugin can do', async () => {
    const directory = await makeStarter();
    const file = join(directory, 'config.yaml');
    const before = await readFile(file, 'utf8');
    const bad = await config(directory, 'set', 'service.log_level=loud', '--apply', '--json');
    expect(bad.code).toBe(78);
    expect(JSON.parse(bad.err)).toMatchObject({ code: 'CONFIG_INVALID' });
    const route = 'routes=[{"event_type":"x","to":"nobody"}]';
    expect((await config(directory, 'set', route, '--apply')).code).toBe(78);
    expect(await readFile(file, 'utf8')).toBe(before);
  });
});

test('config check reports scopes that match no command', async () => {
  const directory = await makeStarter();
  const scopes = 'token:admin.scopes=["plugin:rw", "echo:deny:pol"]';
  const result = await config(directory, 'set', scopes, '--apply');
  expect([result.code, result.out]).toEqual([
    2,
    expect.stringContaining('echo has no command pol'),
  ]);
  expect((await config(directory, 'check')).out).toContain('Did you mean poll?');
});

describe('config lock, diff, backup and restore', () => {
  test('tell what changed, and take it back', async () => {
    const directory = await makeStarter();
    const file = join(directory, 'config.yaml');
    const before = await readFile(file, 'utf8');
    const archive = join(directory, 'saved.tar.gz');
    expect((await config(directory, 'backup', '--to', 'saved.tar.gz')).code).toBe(0);
    await writeFile(file, before.replace('name: ductile', 'name: other'));
    expect(parse(await config(directory, 'diff', '--json'))).toMatchObject({
      same: false,
      files: [{ path: 'config.yaml', change: 'changed' }],
    });
    expect(parse(await config(directory, 'diff', '--backup', archive, '--json'))).toMatchObject({
      keys: [{ key: 'service.name', before: '"ductile"', after: '"other"' }],
    });
    const planned = await config(directory, 'lock', '--dry-run');
    expect(planned.out).toContain('config.yaml will be locked in its current state.');
    expect((await config(directory, 'lock')).code).toBe(0);
    expect((await config(directory, 'diff')).code).toBe(0);
    expect((await config(directory, 'restore', archive)).code).toBe(0);
    expect(await readFile(file, 'utf8')).toBe(before);
    expect((await config(directory, 'diff')).code).toBe(0);
  });

  test('a lock covers the plugins, and a change of one is reported', async () => {
    const directory = await makeStarter();
    const plugin = join(directory, 'plugins', 'mine');
    const files = { name: 'mine', entrypoint: 'run', program: succeeds };
    await writePlugin(plugin, files);
    const found = async (): Promise<string[]> => {
      const { findings } = parse(await config(directory, 'check', '--json')) as {
        findings: { category: string; severity: string; message: string; key: string }[];
      };
      const drift = findings.filter(({ category }) => category === 'integrity');
      return drift.map(({ severity, key, message }) => `${severity} ${key} ${message}`);
    };
    // Until they are locked for the first time, nothing is compared.
    expect(await found()).toEqual([]);
    const planned = await config(directory, 'lock', '--dry-run');
    expect(planned.out).toContain('Plugin mine will be added to the lock.');
    expect((await config(directory, 'lock')).code).toBe(0);
    expect(await found()).toEqual([]);
    await writeFile(join(plugin, 'run'), `${succeeds}\n`);
    await writePlugin(join(directory, 'plugins', 'another'), { ...files, name: 'another' });
    expect(await found()).toEqual([
      'warning plugins.another was never locked',
      'warning plugins.mine has a different program than when it was locked',
    ]);
    const compared = await config(directory, 'diff');
    expect([compared.code, compared.out]).toEqual([
      1,
      expect.stringContaining('plugins.mine has a different program than when it was locked'),
    ]);
    // Applied, and there are findings.
    expect((await config(directory, 'set', 'service.strict_mode=true', '--apply')).code).toBe(2);
    expect((await found())[1]).toContain('error plugins.mine');
    expect((await config(directory, 'lock')).code).toBe(0);
    expect(await found()).toEqual([]);
    await writeFile(join(plugin, 'manifest.yaml'), '\n', { flag: 'a' });
    expect(await found()).toEqual([
      'error plugins.mine has a different manifest than when it was locked',
    ]);
  });

  test('config schema prints the schema itself', async () => {
    const result = await config(await makeStarter(), 'schema');
    expect(JSON.parse(result.out)).toMatchObject({ title: 'Configuration of Ductile' });
  });
});
