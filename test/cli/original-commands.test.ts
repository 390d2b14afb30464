/** Command lines in the words of the original, by their effect: real files, the real operations. */
import { readFileSync } from 'node:fs';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeEach, describe, expect, test } from 'vitest';
import { cliHost } from '../../src/app/cli-host.ts';
import {
  commandAliases,
  commandFlagAliases,
  flagAliases,
} from '../../src/cli/original-commands.ts';
import { makeDirectory } from '../support/directory.ts';
import { run as runCommand, type CliResult } from '../support/fake-cli.ts';
import { succeeds } from '../support/plugin-program.ts';
import { writePlugin } from '../support/plugin-tree.ts';

let directory: string;

beforeEach(async () => {
  directory = join(await makeDirectory(), 'etc');
  await mkdir(directory, { mode: 0o700 });
  await writePlugin(join(directory, 'plugins/echo'), { entrypoint: 'run', program: succeeds });
  await writeFile(
    join(directory, 'config.yaml'),
    [
      'plugin_roots: [plugins]',
      'service: { max_workers: 4 }',
      'api:',
      '  auth:',
      '    tokens:',
      '      - { name: github, token: 0123456789abcdef, scopes: ["jobs:ro"] }',
      'plugins:',
      '  echo: { enabled: true }\n',
    ].join('\n'),
    { mode: 0o600 },
  );
  await done('config', 'lock');
});

/** A real command line in which the configuration is named as the original names it. */
async function type(...args: readonly string[]): Promise<CliResult> {
  return runCommand([...args, '--config-dir', directory], {
    host: {
      openLocal: (given, need) => cliHost.openLocal(given, need),
      findSocket: (given) => cliHost.findSocket(given),
    },
    io: { cwd: directory },
  });
}

/** The printed text; the note is on standard error, on one line. */
async function done(...args: readonly string[]): Promise<string> {
  const result = await type(...args);
  // A change that leaves warnings exits with 2, as in the original.
  expect([args, result.code === 2 ? 0 : result.code, result.err]).toEqual([
    args,
    0,
    expect.stringMatching(/^note: in Ductile, .*`--config-dir` is `--config`.*\n$/),
  ]);
  return result.out;
}

const config = () => readFile(join(directory, 'config.yaml'), 'utf8');

test('a flag of the original is the documented one, and its value is not repeated', async () => {
  expect(await done('config', 'get', 'service.max_workers')).toContain('4');
  const result = await runCommand([
    'job',
    'list',
    '--api-url=http://127.0.0.1:1',
    '--api-key',
    'k3y',
  ]);
  expect(result.err.split('\n')[0]).toBe(
    'note: in Ductile, `--api-url` is `--url`, `--api-key` is `--token`',
  );
  expect(result.err).toContain('127.0.0.1:1');
  expect(result.err + result.out).not.toContain('k3y');
});

test('config check --strict exits with 2 when there are warnings', async () => {
  await writeFile(join(directory, 'config.yaml'), `${await config()}# touched\n`);
  const result = await type('config', 'check', '--strict');
  expect(result.code).toBe(2);
  expect(result.err).toContain('`--strict` is `--fail-on-warnings`');
});

describe('config token', () => {
  test('creates, lists and deletes tokens', async () => {
    await writeFile(join(directory, 'scopes.json'), '["jobs:ro","plugin:rw"]');
    const file = '--scopes-file scopes.json';
    const made = await done(
      ...`config token create --name my-service --description mine ${file} --format json`.split(
        ' ',
      ),
    );
    expect(JSON.parse(made)).toMatchObject({
      name: 'my-service',
      scopes: ['jobs:ro', 'plugin:rw'],
      token: expect.stringMatching(/^duct_/) as unknown,
    });
    expect(await done('config', 'token', 'list')).toMatch(/github[^]*my-service/);
    expect(await done('config', 'token', 'inspect', 'my-service')).toContain('my-service');
    await done('config', 'token', 'delete', 'my-service');
    expect(await done('config', 'token', 'list')).not.toContain('my-service');
  });

  test('creates with --scopes', async () => {
    const made = await done(
      ...'config token create --name x --scopes jobs:ro,plugin:rw --json'.split(' '),
    );
    expect(JSON.parse(made)).toMatchObject({ scopes: ['jobs:ro', 'plugin:rw'] });
  });
});

test('config scope changes and validates scopes', async () => {
  await done('config', 'scope', 'add', 'github', 'plugin:rw');
  expect(await config()).toContain('scopes: [ jobs:ro, plugin:rw ]');
  await done('config', 'scope', 'remove', 'github', 'jobs:ro');
  expect(await config()).toContain('scopes: [ plugin:rw ]');
  await done('config', 'scope', 'set', 'github', 'events:ro,echo:rw', '--dry-run');
  expect(await config()).toContain('scopes: [ plugin:rw ]');
  await done('config', 'scope', 'set', 'github', 'events:ro,echo:rw');
  expect(await config()).toContain('scopes: [ events:ro, echo:rw ]');
  await done('config', 'scope', 'validate', 'echo:rw');
  const wrong = await type('config', 'scope', 'validate', 'nothing:at:all');
  expect([wrong.code, wrong.err]).toEqual([2, expect.stringContaining('nothing:at:all')]);
});

test('config plugin lists, shows and sets', async () => {
  expect(await done('config', 'plugin', 'list')).toContain('echo');
  expect(await done('config', 'plugin', 'show', 'echo')).toContain('enabled: true');
  await done('config', 'plugin', 'set', 'echo', 'retry.max_attempts', '2');
  expect(await done('config', 'get', 'plugins.echo.retry.max_attempts')).toContain('2');
});

test('config route adds, lists and removes', async () => {
  const route = ['--from', 'echo', '--event', 'echo.done', '--to', 'echo'];
  await done('config', 'route', 'add', ...route);
  await done('config', 'route', 'add', '--event', 'other', '--to', 'echo');
  expect(await done('config', 'route', 'list')).toMatch(/echo\.done[^]*other/);
  await done('config', 'route', 'remove', ...route);
  const left = JSON.parse(await done('config', 'route', 'list', '--json')) as { config: unknown };
  expect(left.config).toEqual([{ event_type: 'other', to: 'echo' }]);
  const none = await type('config', 'route', 'remove', ...route);
  expect([none.code, none.err]).toEqual([2, expect.stringContaining('config show routes')]);
});

test('config webhook adds and lists', async () => {
  const webhook = ['--path', '/hook/a', '--plugin', 'echo', '--secret-ref', 'hook', '--name', 'a'];
  await done('config', 'webhook', 'add', ...webhook, '--max-body-size', '1MB');
  expect(await done('config', 'webhook', 'list')).toContain('/hook/a');
});

test('system plugin-facts, system skills and system watch are plugin facts, skills and watch', async () => {
  expect(await done('system', 'plugin-facts', 'echo', '--limit', '5')).toContain('');
  expect(await done('system', 'skills')).toMatch(/^---\nname: ductile[^]*echo/);
  expect(await done('system', 'watch', '--once')).toContain('ductile');
});

test('help names none of them, and a line without them prints no note', async () => {
  for (const words of [['--help'], ['config', '--help'], ['system', '--help']]) {
    const { out } = await runCommand(words);
    expect(out).not.toMatch(/--config-dir|--api-url|plugin-facts|config (token|route|scope)\b/);
  }
  const { err } = await runCommand(['config', 'get', 'a', '--config', directory], {
    answer: { key: 'a', value: 1, source: 'x' },
  });
  expect(err).toBe('');
});

test('the page about moving over lists every alias', () => {
  const page = readFileSync('docs/migrate/from-the-original.md', 'utf8');
  const flags = [flagAliases, ...Object.values(commandFlagAliases)].flatMap(Object.entries);
  for (const [from, to] of flags) expect(page).toContain(`| \`--${from}\` | \`--${to}\` |`);
  for (const { from, to } of commandAliases) expect(page).toContain(`| \`${from}\` | \`${to}\` |`);
});
