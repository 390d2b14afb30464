/** Packages from the command line, without a server. */
import { appendFileSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, expect, test } from 'vitest';
import { cliHost } from '../../src/app/cli-host.ts';
import { makeDirectory } from '../support/directory.ts';
import { run } from '../support/fake-cli.ts';
import { manifest, writePackage } from '../support/packages.ts';
import { shell } from '../support/plugin-program.ts';
import { writePlugin } from '../support/plugin-tree.ts';

let directory: string;

beforeEach(async () => {
  directory = await makeDirectory();
  mkdirSync(join(directory, 'plugins'));
  const program = shell('cat > /dev/null; echo \'{"status":"ok","result":"done"}\'');
  const commands = 'commands: {poll: {}}';
  const files = { name: 'worker', entrypoint: 'run', program, commands };
  await writePlugin(join(directory, 'plugins', 'worker'), files);
  await writePackage(
    join(directory, 'packages', 'greeter'),
    manifest({
      requires: [{ plugin: 'worker' }],
      config_schema: {
        type: 'object',
        required: ['word'],
        properties: { word: { type: 'string' } },
      },
      plugins: { greeting: { uses: 'worker', config: { word: '${config.word}' } } },
    }),
  );
  writeFileSync(
    join(directory, 'config.yaml'),
    'plugin_roots: [./plugins]\npackage_roots: [./packages]\nstate:\n  path: ./data/state.db\n',
  );
});

const ductile = (...argv: string[]) =>
  run([...argv, '--config', directory], { host: { ...cliHost } });

test('a package is installed, shown and uninstalled, and what it provides can be run', async () => {
  const listed = await ductile('package', 'list');
  expect(listed.out).toMatch(/greeter\s+1\.0\.0/);
  const refused = await ductile('package', 'install', 'greeter');
  expect([refused.code, refused.err]).toEqual([
    2,
    expect.stringContaining('config.word is missing'),
  ]);
  const words = ['package', 'install', 'greeter', '--with', '{"word":"hi"}'];
  const plan = await ductile(...words, '--dry-run');
  expect(plan.out).toContain('1 plugin will be added: greeting.');
  expect((await ductile(...words)).code).toBe(0);
  const shown = await ductile('installation', 'show', 'greeter');
  expect(shown.out).toMatch(/status\s+installed/);
  expect(shown.out).toMatch(/plugin\s+greeting/);
  expect((await ductile('plugin', 'list')).out).toContain('greeting');
  expect((await ductile('package', 'uninstall', 'greeter')).code).toBe(0);
  expect((await ductile('installation', 'list')).out).toContain('No packages are installed.');
  expect((await ductile('plugin', 'list')).out).not.toContain('greeting');
});

test('a package is checked in its directory, without a configuration', async () => {
  const at = join(directory, 'packages', 'greeter');
  expect(await ductile('package', 'validate', at)).toMatchObject({
    code: 0,
    out: 'greeter 1.0.0 is a valid package.\n',
  });
  const handlers = [
    { on: 'a.b', directive: 'system.reboot' },
    { on: 'a.b', directive: 'plugin.disable', params: { plugin: '{payload.plugin}' } },
    { on: 'a.b', directive: 'plugin.disable', params: { plugin: 7, hard: true } },
    { on: 'a.b', directive: 'job.cancel', params: { job_id: '{payload.job}', limit: 'many' } },
  ];
  const asking = { ...manifest({ slug: 'asking' }), handlers };
  await writePackage(join(directory, 'asking'), asking);
  const judged = await ductile('package', 'validate', join(directory, 'asking'));
  const wrong = [
    'handlers asking/1 requests system.reboot, which a handler may not request',
    'handlers asking/3 params.plugin must be text, not 7',
    'handlers asking/3 params.hard is not a known key',
    'handlers asking/4 params.limit must be a whole number',
  ];
  expect(judged.code).toBe(1);
  for (const sentence of wrong) expect(judged.out).toContain(sentence);
  expect(judged.out).not.toContain('asking/2');
  writeFileSync(join(at, 'install.sh'), 'rm');
  const { code, out } = await ductile('package', 'validate', at);
  expect([code, out]).toEqual([1, expect.stringContaining('install.sh: the file could be code')]);
});

test('reports unusable packages: in the list, in doctor and at an installation', async () => {
  const broken = join(directory, 'packages', 'broken');
  await writePackage(broken, manifest({ slug: 'broken' }));
  writeFileSync(join(broken, 'run.sh'), 'echo');
  const listed = await ductile('package', 'list');
  expect(listed.out).toMatch(/Problems\n.*could be code[^]*broken/);
  const result = await ductile('package', 'install', 'broken');
  expect(result.err).toMatch(/`ductile package list --config \S+` to see why/);
  const found = await ductile('doctor');
  expect([found.code, found.out]).toEqual([0, expect.stringContaining('could be code')]);
});

test('package show lists the settings as a table, and installation show the last deleted one', async () => {
  expect((await ductile('package', 'show', 'greeter')).out).toMatch(/word\s+string\s+required/);
  await ductile('package', 'install', 'greeter', '--with', '{"word":"hi"}');
  await ductile('package', 'uninstall', 'greeter');
  const shown = await ductile('installation', 'show', 'greeter');
  expect(shown.out).toMatch(/status\s+uninstalled/);
});

test('stores no secret, whatever its key is called', async () => {
  await writePackage(
    join(directory, 'packages', 'keeper'),
    manifest({
      slug: 'keeper',
      requires: [{ plugin: 'worker' }],
      config_schema: { type: 'object', properties: { word: { type: 'string' } } },
      plugins: { kept: { uses: 'worker', config: { password: '${config.word}' } } },
    }),
  );
  const { code, err } = await ductile(
    'package',
    'install',
    'keeper',
    '--with',
    '{"word":"hunter2"}',
  );
  expect([code, err]).toEqual([2, expect.stringContaining('plugins.kept.config.password')]);
});

test('an installed package is not part of the lock and not drift', async () => {
  const file = join(directory, 'config.yaml');
  appendFileSync(file, 'service: { admission: { fail_on_drift: true } }\n');
  expect((await ductile('config', 'lock')).code).toBe(0);
  const words = ['package', 'install', 'greeter', '--with', '{"word":"hi"}'];
  expect(await ductile(...words)).toMatchObject({ code: 0, err: '' });
  expect((await ductile('plugin', 'run', 'greeting')).code).toBe(0);
});

test('a plugin that only a package uses is locked', async () => {
  const file = join(directory, 'config.yaml');
  const plugin = join(directory, 'plugins', 'worker');
  const program = join(plugin, 'run');
  // With a key that it needs, nothing but the installation makes a plugin of it that can be run.
  appendFileSync(join(plugin, 'manifest.yaml'), 'config_keys: { required: [word] }\n');
  appendFileSync(file, 'service: { admission: { fail_on_drift: true } }\n');
  expect((await ductile('config', 'lock')).code).toBe(0);
  const words = ['package', 'install', 'greeter', '--with', '{"word":"hi"}'];
  expect(await ductile(...words)).toMatchObject({ code: 0, err: '' });
  expect((await ductile('plugin', 'run', 'greeting')).code).toBe(0);
  appendFileSync(program, '# changed\n');
  expect((await ductile('plugin', 'run', 'greeting')).code).not.toBe(0);
  expect((await ductile('installation', 'show', 'greeter')).out).toContain(
    'has a different program than when it was locked',
  );
  expect((await ductile('config', 'lock')).code).toBe(0);
  expect((await ductile('plugin', 'run', 'greeting')).code).toBe(0);
});

test('a package is not installed over code that was never locked, if that is refused', async () => {
  const file = join(directory, 'config.yaml');
  appendFileSync(file, 'service: { admission: { fail_on_drift: true } }\n');
  expect((await ductile('config', 'lock')).code).toBe(0);
  const late = { name: 'late', commands: 'commands: {poll: {}}' };
  const extra = 'config_keys: { required: [word] }';
  await writePlugin(join(directory, 'plugins', 'late'), { ...late, extra });
  await writePackage(
    join(directory, 'packages', 'later'),
    manifest({
      slug: 'later',
      requires: [{ plugin: 'late' }],
      plugins: { afterwards: { uses: 'late', config: { word: 'hi' } } },
    }),
  );
  const refused = await ductile('package', 'install', 'later');
  expect(refused.code).not.toBe(0);
  expect(refused.err).toContain('was never locked');
  expect((await ductile('config', 'lock')).code).toBe(0);
  expect(await ductile('package', 'install', 'later')).toMatchObject({ code: 0, err: '' });
});
