import { chmod, mkdir, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeEach, describe, expect, test } from 'vitest';
import { DuctileError } from '../../src/base/errors.ts';
import { describeProblem } from '../../src/config/problem.ts';
import { commands } from '../../src/cli/commands.ts';
import {
  loadCatalog,
  findPluginCommand,
  RUN_ACTIONS,
  type Catalog,
  type Plugin,
} from '../../src/plugin/catalog.ts';
import { makeDirectory } from '../support/directory.ts';
import { writeConfig, writePlugin } from '../support/plugin-tree.ts';

let base: string;
let root: string;

beforeEach(async () => {
  base = await makeDirectory();
  root = join(base, 'plugins');
  await mkdir(root);
});

async function load(yaml = '', roots = '[plugins]'): Promise<Catalog> {
  return loadCatalog(await writeConfig(base, `plugin_roots: ${roots}\n${yaml}`));
}

async function refused(yaml: string, roots?: string): Promise<string> {
  const thrown: unknown = await load(yaml, roots).catch((error: unknown) => error);
  if (!(thrown instanceof DuctileError)) throw new Error('the catalogue was accepted');
  expect(thrown.code).toBe('CONFIG_INVALID');
  return `${thrown.place ?? ''} ${thrown.message} ${thrown.hint}`;
}

async function only(yaml = ''): Promise<Plugin> {
  const { plugins } = await load(yaml);
  const [plugin] = [...plugins.values()];
  if (plugin === undefined) throw new Error('no plugin was loaded');
  return plugin;
}

const names = ({ plugins }: Catalog): string[] => [...plugins.keys()].toSorted();
const formatProblems = (list: Catalog['problems'] | Catalog['warnings']): string =>
  list.map(describeProblem).join('\n');

describe('discovery', () => {
  test("a plugin that isn't listed and needs configuration waits to be set up", async () => {
    await writePlugin(join(root, 'a'), { name: 'a', extra: 'config_keys: {required: [url, key]}' });
    const catalog = await load();
    expect(names(catalog)).toEqual([]);
    expect(catalog.problems).toEqual([]);
    expect([...catalog.dormant]).toEqual([['a', ['url', 'key']]]);
    const listed = await load('plugins: { a: { config: { url: x } } }');
    expect(listed.dormant.size).toBe(0);
    expect(formatProblems(listed.problems)).toContain('plugins.a.config.key is required');
  });

  test('plugins are found at any depth, in the root itself too, and load unconfigured', async () => {
    await writePlugin(join(root, 'a'), { name: 'a' });
    await writePlugin(join(root, 'group', 'sub', 'b'), { name: 'b' });
    await writePlugin(join(base, 'single'), { name: 'c' });
    const catalog = await load('', '[plugins, single]');
    expect(names(catalog)).toEqual(['a', 'b', 'c']);
    expect(catalog.problems).toEqual([]);
    expect(catalog.warnings).toEqual([]);
    expect(catalog.plugins.get('b')).toMatchObject({
      name: 'b',
      uses: undefined,
      directory: join(root, 'group', 'sub', 'b'),
      entrypoint: join(root, 'group', 'sub', 'b', 'run.sh'),
      config: {},
      prewarm: 0,
      retry: { maxAttempts: 4, backoffBaseMs: 30_000 },
    });
  });

  test('the first root wins if two plugins have one name, and both paths are reported', async () => {
    const second = join(base, 'second');
    await writePlugin(join(root, 'z'), { name: 'echo' });
    await writePlugin(join(second, 'a'), { name: 'echo' });
    const catalog = await load('', '[plugins, second]');
    expect(catalog.plugins.get('echo')?.directory).toBe(join(root, 'z'));
    expect(formatProblems(catalog.warnings)).toContain(join(root, 'z', 'manifest.yaml'));
    expect(formatProblems(catalog.warnings)).toContain(join(second, 'a', 'manifest.yaml'));
    const other = await load('', '[second, plugins]');
    expect(other.plugins.get('echo')?.directory).toBe(join(second, 'a'));
  });

  test('a bad plugin is reported and does not stop the others', async () => {
    await writePlugin(join(root, 'good'), { name: 'good' });
    await writePlugin(join(root, 'broken'), { manifest: 'name: [' });
    await writePlugin(join(root, 'plain'), { name: 'plain' });
    await chmod(join(root, 'plain', 'run.sh'), 0o644);
    await writePlugin(join(root, 'open'), { name: 'open' });
    await chmod(join(root, 'open'), 0o777);
    await writePlugin(join(root, 'gone'), { name: 'gone', program: '' });
    const catalog = await load();
    expect(names(catalog)).toEqual(['good']);
    expect(catalog.problems.map(({ plugin }) => plugin).toSorted()).toEqual([
      'broken',
      'gone',
      'open',
      'plain',
    ]);
    expect(formatProblems(catalog.problems)).toContain(
      `Run: chmod +x ${join(root, 'plain', 'run.sh')}`,
    );
  });

  test('a directory that looks like a plugin but has no manifest is pointed out', async () => {
    await mkdir(join(root, 'forgot'));
    await writeFile(join(root, 'forgot', 'run.py'), '');
    await mkdir(join(root, 'lib'));
    await writeFile(join(root, 'lib', 'helpers.py'), '');
    const { warnings } = await load();
    expect(warnings).toHaveLength(1);
    expect(formatProblems(warnings)).toContain('forgot');
  });

  test('hidden directories and dependencies are not searched', async () => {
    await writePlugin(join(root, '.git', 'x'), { name: 'hidden' });
    await writePlugin(join(root, 'a', 'node_modules', 'x'), { name: 'dependency' });
    expect(names(await load())).toEqual([]);
  });

  test('links are followed only where allowed, and never in circles', async () => {
    const away = join(base, 'away');
    await writePlugin(join(away, 'echo'));
    await symlink(join(away, 'echo'), join(root, 'echo'));
    await symlink(root, join(root, 'circle'));
    await symlink(join(root, 'nowhere'), join(root, 'nowhere'));
    const strict = await load();
    expect(names(strict)).toEqual([]);
    expect(formatProblems(strict.warnings)).toContain('was not followed');
    const allowing = 'service: {allow_symlinks: true}\n';
    expect(names(await load(allowing, '[plugins, away]'))).toEqual(['echo']);
    const outside = await load(allowing);
    expect(names(outside)).toEqual([]);
    expect(formatProblems(outside.problems)).toContain('outside every plugin root');
  });

  test('a plugin that is nested too deep is not searched for, and that is reported', async () => {
    const deep = join(root, ...Array<string>(9).fill('d'));
    await writePlugin(deep);
    const catalog = await load();
    expect(names(catalog)).toEqual([]);
    expect(formatProblems(catalog.warnings)).toContain('8 levels below');
  });

  test('a root that is missing, a file or a link is the fault of the configuration', async () => {
    await writeFile(join(base, 'file'), '');
    await symlink(root, join(base, 'link'));
    expect(await refused('', '[gone]')).toMatch(/config\.yaml:1:16 .*gone, which does not exist/);
    expect(await refused('', '[file]')).toContain('is not a directory');
    expect(await refused('', '[link]')).toContain(`Name ${root}`);
    await load('service: {allow_symlinks: true}', '[link]');
  });
});

describe('warnings', () => {
  const two = 'service: {max_workers: 2}\nplugins: {echo: {parallelism: 9}}\n';

  test('parallelism above the workers of the only host is capped, with a warning', async () => {
    await writePlugin(join(root, 'echo'));
    expect((await only(two)).parallelism).toBe(2);
    const warnings = formatProblems((await load(two)).warnings);
    expect(warnings).toContain('is 9, but service.max_workers lets only 2 jobs run at once');
  });

  test('parallelism on PostgreSQL is for all hosts, and is not capped by the workers of one', async () => {
    await writePlugin(join(root, 'echo'));
    const many = `${two}state: {url: "postgres://u@127.0.0.1/d"}\n`;
    expect((await only(many)).parallelism).toBe(9);
    expect((await load(many)).warnings).toEqual([]);
  });

  test('a plugin with the name of an action of `ductile run` gets a hint how to start it', async () => {
    await writePlugin(join(root, 'list'), { name: 'list' });
    expect(formatProblems((await load()).warnings)).toContain(
      'Start it with `ductile plugin run list`',
    );
    const actions = commands.filter(({ noun }) => noun === 'run');
    expect(RUN_ACTIONS).toEqual(new Set(actions.map(({ action }) => action)));
  });
});

describe('aliases', () => {
  beforeEach(async () => {
    await writePlugin(join(root, 'echo'), { name: 'echo' });
  });

  test('an alias is a plugin of its own with the code of another, even of a disabled one', async () => {
    const catalog = await load(`plugins:
  echo: {enabled: false}
  one: {uses: echo, config: {a: 1}}
  two: {uses: one, config: {a: 2}}
`);
    expect(names(catalog)).toEqual(['one', 'two']);
    expect(catalog.plugins.get('two')).toMatchObject({
      name: 'two',
      uses: 'echo',
      config: { a: 2 },
      entrypoint: join(root, 'echo', 'run.sh'),
    });
    expect(catalog.disabled).toEqual(new Set(['echo']));
    const prints = [...catalog.plugins.values()].map((plugin) => plugin.fingerprint);
    expect(new Set(prints).size).toBe(2);
  });

  test('an alias that names itself, a circle or nothing is refused', async () => {
    expect(await refused('plugins: {a: {uses: a}}')).toContain('plugins.a.uses names itself');
    expect(await refused('plugins: {a: {uses: b}, b: {uses: a}}')).toContain('a → b → a');
    expect(await refused('plugins: {a: {uses: ehco}}')).toMatch(/leads to ehco.*mean echo\?/);
    await load('plugins: {a: {enabled: false, uses: a}}');
  });

  test('an alias of a plugin that did not load is reported and left out', async () => {
    await writePlugin(join(root, 'broken'), { manifest: 'name: [' });
    const catalog = await load('plugins: {x: {uses: broken}}');
    expect(names(catalog)).toEqual(['echo']);
    expect(catalog.problems.map(({ plugin }) => plugin)).toEqual(['broken', 'x']);
  });

  test('an alias under the name of a plugin hides it, with a warning', async () => {
    await writePlugin(join(root, 'other'), { name: 'other' });
    const catalog = await load('plugins: {echo: {uses: other}}');
    expect(catalog.plugins.get('echo')?.directory).toBe(join(root, 'other'));
    expect(formatProblems(catalog.warnings)).toContain('hides the plugin');
  });
});

describe('settings', () => {
  test('a configured plugin that is not there is refused, unless it is off', async () => {
    await writePlugin(join(root, 'echo'));
    expect(await refused('plugins: {ehco: {}}')).toMatch(
      /config\.yaml:2:11 plugins\.ehco is not in any plugin root Did you mean echo\?/,
    );
    expect(names(await load('plugins: {ehco: {enabled: false}}'))).toEqual(['echo']);
  });

  test('required configuration must be there', async () => {
    await writePlugin(join(root, 'echo'), { extra: 'config_keys: {required: [id, key]}' });
    const catalog = await load('plugins: {echo: {config: {id: 0, key: }}}');
    expect(names(catalog)).toEqual([]);
    expect(formatProblems(catalog.problems)).toContain('plugins.echo.config.key is required');
    expect(catalog.problems).toHaveLength(1);
    expect(names(await load('plugins: {echo: {config: {id: 0, key: ""}}}'))).toEqual(['echo']);
  });

  test('starting ahead of requests needs the consent of the manifest', async () => {
    await writePlugin(join(root, 'echo'));
    const without = await load('plugins: {echo: {prewarm: 1}}');
    expect(names(without)).toEqual([]);
    expect(formatProblems(without.problems)).toContain('does not allow prewarming');
    await writePlugin(join(root, 'echo'), { extra: 'prewarm: true' });
    expect((await only('plugins: {echo: {prewarm: 1}}')).prewarm).toBe(1);
  });

  test('standby is left open only if the manifest consents', async () => {
    await writePlugin(join(root, 'echo'));
    expect((await only('')).prewarm).toBe(0);
    await writePlugin(join(root, 'echo'), { extra: 'prewarm: true' });
    expect((await only('')).prewarm).toBeUndefined();
    expect((await only('plugins: {echo: {prewarm: 0}}')).prewarm).toBe(0);
  });

  test('parallelism is the workers, or one for a plugin that is not safe, or as set', async () => {
    const service = 'service: {max_workers: 6}\n';
    await writePlugin(join(root, 'echo'));
    expect((await only(service)).parallelism).toBe(6);
    await writePlugin(join(root, 'echo'), { extra: 'concurrency_safe: false' });
    expect((await only(service)).parallelism).toBe(1);
    expect((await only(`${service}plugins: {echo: {parallelism: 3}}`)).parallelism).toBe(3);
  });

  test('timeouts are as set, or usual for the command, or a minute', async () => {
    await writePlugin(join(root, 'echo'));
    const catalog = await load('plugins: {echo: {timeouts: {poll: 5s, pol: 1s}}}');
    const plugin = catalog.plugins.get('echo');
    const timeouts = ['poll', 'handle', 'health', 'init', 'sync', 'constructor'].map((command) =>
      plugin?.timeoutMs(command),
    );
    expect(timeouts).toEqual([5000, 120_000, 10_000, 30_000, 60_000, 60_000]);
    expect(formatProblems(catalog.warnings)).toMatch(/timeouts\.pol .*mean poll\?/);
  });

  test('the fingerprint follows the files and the settings, not the order of keys', async () => {
    const yaml = (config: string): string => `plugins: {echo: {config: ${config}}}`;
    await writePlugin(join(root, 'echo'));
    const first = (await only(yaml('{a: 1, b: {c: 1, d: 2}}'))).fingerprint;
    expect((await only(yaml('{b: {d: 2, c: 1}, a: 1}'))).fingerprint).toBe(first);
    const prints = new Set([first]);
    prints.add((await only(yaml('{a: 2, b: {c: 1, d: 2}}'))).fingerprint);
    await writePlugin(join(root, 'echo'), { program: '#!/bin/sh\ntrue\n' });
    prints.add((await only(yaml('{a: 1, b: {c: 1, d: 2}}'))).fingerprint);
    await writePlugin(join(root, 'echo'), { extra: 'description: new' });
    prints.add((await only(yaml('{a: 1, b: {c: 1, d: 2}}'))).fingerprint);
    expect(prints.size).toBe(4);
  });

  test('lookupCommand finds what the manifest declares', async () => {
    await writePlugin(join(root, 'echo'));
    const plugin = await only();
    expect(findPluginCommand(plugin, 'poll')?.type).toBe('read');
    expect(findPluginCommand(plugin, 'sync')).toBeUndefined();
    expect(findPluginCommand(plugin, 'toString')).toBeUndefined();
  });
});
