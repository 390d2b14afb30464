/** The whole program, as a newcomer uses it: real processes, real files, real databases. */
import { execFile, spawnSync } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
import { request } from 'node:http';
import { readFile, stat, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { text } from 'node:stream/consumers';
import { describe, expect, test } from 'vitest';
import { launch } from '../support/crash/server.ts';
import { makeDirectory } from '../support/directory.ts';
import { makeSchemaUrl } from '../support/postgres.ts';

const root = resolve(import.meta.dirname, '../..');

interface Ran {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

function ductile(directory: string, ...args: readonly string[]): Promise<Ran> {
  const all = [...args, '--config', directory];
  const env = { PATH: process.env['PATH'], HOME: directory };
  return new Promise((done) => {
    execFile(join(root, 'ductile'), all, { env, cwd: directory }, (error, stdout, stderr) => {
      const code = error === null ? 0 : typeof error.code === 'number' ? error.code : -1;
      done({ code, stdout, stderr });
    });
  });
}

function answer({ code, stdout, stderr }: Ran): Record<string, unknown> {
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  return JSON.parse(stdout) as Record<string, unknown>;
}

async function makeConfig(state: string): Promise<string> {
  const directory = await makeDirectory();
  const config = `
state: ${state}
plugin_roots: [${JSON.stringify(join(root, 'plugins'))}]
plugins:
  notify: { config: { file: ${JSON.stringify(join(directory, 'notes.jsonl'))} } }
routes:
  - { from: echo, event_type: echo.echoed, to: notify }
api: { enabled: true, listen: 127.0.0.1:0, auth: { api_key: a-key-for-tests } }
`;
  await writeFile(join(directory, 'config.yaml'), config);
  return directory;
}

const states = {
  SQLite: () => Promise.resolve('{ path: ./data/state.db }'),
  PostgreSQL: async () => `{ url: ${JSON.stringify(await makeSchemaUrl())} }`,
};

test('the demo runs its chain and says where everything is', async () => {
  const directory = join(await makeDirectory(), 'demo');
  const { code, stdout, stderr } = await new Promise<Ran>((done) => {
    const env = { PATH: process.env['PATH'], HOME: root };
    const args = ['demo', '--rounds', '1', '--dir', directory];
    execFile(join(root, 'ductile'), args, { env }, (error, out, err) =>
      done({ code: error === null ? 0 : 1, stdout: out, stderr: err }),
    );
  });
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  expect(stdout).toMatch(/api +http:\/\/127\.0\.0\.1:\d+/);
  const [, token = ''] = /dashboard +http:\S+\/ui {2}\(token: (\S+)\)/.exec(stdout) ?? [];
  expect(await readFile(join(directory, 'config.yaml'), 'utf8')).toContain(`token: ${token},`);
  expect(stdout).toContain('  ./ductile job list --config ');
  expect(stdout).toMatch(/folder-watch poll succeeded → echo handle succeeded → notify handle/);
  expect(await readFile(join(directory, 'notes.jsonl'), 'utf8')).toContain('arrived');
});

test('a job runs in the command itself without a service, and listing starts nothing', async () => {
  const directory = await makeConfig('{ path: ./data/state.db }');
  const run = answer(await ductile(directory, 'plugin', 'run', 'echo', '--json', '--no-wait'));
  expect(run['status']).toMatch(/queued|running/);
  const listed = answer(await ductile(directory, 'queue', 'list', '--json'));
  expect(listed).toMatchObject({ jobs: expect.any(Array) as unknown });
  const status = answer(await ductile(directory, 'system', 'status', '--json'));
  expect(status['state']).toBe('stopped');
  const waited = answer(await ductile(directory, 'plugin', 'run', 'echo', '--json'));
  expect(waited['status']).toBe('succeeded');
  expect((await stat(join(directory, 'data/state.db'))).mode & 0o777).toBe(0o600);
  expect((await stat(join(directory, 'data'))).mode & 0o777).toBe(0o700);
});

describe.each(Object.entries(states))('a server on %s', (_, stateOf) => {
  test('runs, reports, is backed up, stops; the backup restores and starts paused', async () => {
    const directory = await makeConfig(await stateOf());
    const server = launch(directory);
    const { control } = await server.ready;
    expect((await stat(control)).mode & 0o777).toBe(0o600);

    const ran = answer(await ductile(directory, 'plugin', 'run', 'echo', '--json'));
    expect(ran['status']).toBe('succeeded');
    const story = answer(await ductile(directory, 'job', 'show', String(ran['job_id']), '--json'));
    expect(story).toMatchObject({
      status: 'succeeded',
      submitted_by: 'cli',
      attempts: [{ attempt: 1, status: 'succeeded', cause: 'ok', exit_code: 0 }],
      signals: [{ type: 'echo.echoed' }],
      children: [{ plugin: 'notify' }],
    });
    expect(answer(await ductile(directory, 'system', 'check', '--json'))).toMatchObject({
      ok: true,
    });
    const health = await get(control, '/healthz');
    expect(health).toMatchObject({ code: 200, body: { status: 'ok', plugins_circuit_open: 0 } });

    const copy = join(directory, 'copy.db');
    answer(await ductile(directory, 'system', 'backup', '--to', copy, '--json'));
    const again = await ductile(directory, 'system', 'backup', '--to', copy);
    expect(again.code).toBe(1);
    expect(again.stderr).toContain('already exists');
    expect(await server.stop()).toEqual({ code: 0, signal: null });

    const restored = await makeConfig(await stateOf());
    const { stdout } = await ductile(restored, 'system', 'restore', '--from', copy, '--json');
    expect(JSON.parse(stdout)).toMatchObject({ paused: true });
    const there = answer(await ductile(restored, 'job', 'show', String(ran['job_id']), '--json'));
    expect(there).toMatchObject({ status: 'succeeded', children: [{ plugin: 'notify' }] });

    const second = launch(restored);
    await second.ready;
    const held = answer(await ductile(restored, 'plugin', 'run', 'echo', '--json', '--no-wait'));
    expect(answer(await ductile(restored, 'system', 'status', '--json'))['state']).toBe('paused');
    answer(await ductile(restored, 'system', 'resume', '--json'));
    const next = answer(await ductile(restored, 'plugin', 'run', 'echo', '--json'));
    expect(next['status']).toBe('succeeded');
    const first = answer(await ductile(restored, 'job', 'show', String(held['job_id']), '--json'));
    expect(first['status']).toBe('succeeded');
    await second.stop();
  });

  test('is not robbed of its ledger by a restore, which says so before', async () => {
    const copy = join(await makeDirectory(), 'copy.db');
    const source = await makeConfig(await states.SQLite());
    answer(await ductile(source, 'plugin', 'run', 'echo', '--json'));
    answer(await ductile(source, 'system', 'backup', '--to', copy, '--json'));

    const directory = await makeConfig(await stateOf());
    const server = launch(directory);
    await server.ready;
    const refused = await ductile(directory, 'system', 'restore', '--from', copy, '--json');
    expect(refused.code).toBe(1);
    expect(JSON.parse(refused.stderr)).toMatchObject({ code: 'INSTANCE_LOCKED' });
    const planned = await ductile(directory, 'system', 'restore', '--from', copy, '--dry-run');
    expect(planned.stdout).toMatch(
      /is valid: it has 2 jobs, 0 of them open[^]*(holds|uses the schema)/,
    );
    const missing = await ductile(directory, 'system', 'restore', '--from', 'none', '--dry-run');
    expect(missing.stderr).toContain('there is no such file');

    await server.stop();
    const { stdout } = await ductile(directory, 'system', 'restore', '--from', copy, '--json');
    expect(JSON.parse(stdout)).toMatchObject({ paused: true });
  });
});

test.each([
  ['no configuration', '', 78, 'CONFIG_NOT_FOUND'],
  ['not YAML', 'a: [', 78, 'CONFIG_INVALID'],
  ['an unknown key', 'plugin_roots: [.]\nplugns: {}', 78, 'Did you mean plugins?'],
  ['a missing root', 'plugin_roots: [./nowhere]', 78, 'CONFIG_INVALID'],
  [
    'a ledger that is no database',
    'plugin_roots: [.]\nstate: { path: ./config.yaml }',
    1,
    'LEDGER',
  ],
  [
    'a database that is not there',
    'plugin_roots: [.]\nstate: { url: "postgres://a@127.0.0.1:1/b" }',
    1,
    'LEDGER_UNAVAILABLE',
  ],
])('a start with %s says what to do and leaves nothing behind', async (_, config, code, words) => {
  const directory = await makeDirectory();
  if (config !== '') await writeFile(join(directory, 'config.yaml'), config);
  const ran = await ductile(directory, 'system', 'start');
  expect(ran.code).toBe(code);
  expect(ran.stderr).toContain(words);
  expect(ran.stderr).toContain('to do:');
});

test.runIf(process.platform === 'linux')(
  'output that finds no room is reported in words',
  async () => {
    const full = openSync('/dev/full', 'w');
    const { status, stderr } = spawnSync(process.execPath, [join(root, 'src/main.ts'), 'version'], {
      env: { PATH: process.env['PATH'], HOME: await makeDirectory() },
      stdio: ['ignore', full, 'pipe'],
      encoding: 'utf8',
    });
    closeSync(full);
    expect([status, stderr]).toEqual([
      1,
      expect.stringMatching(/^error: standard output cannot be written: ENOSPC[^\n]*\n$/),
    ]);
  },
);

function get(socketPath: string, path: string): Promise<{ code: number; body: unknown }> {
  return new Promise((done, failed) => {
    request({ socketPath, path, agent: false }, (response) => {
      text(response).then(
        (body) => done({ code: response.statusCode ?? 0, body: JSON.parse(body) as unknown }),
        failed,
      );
    })
      .once('error', failed)
      .end();
  });
}
