/** The program with a configuration that differs from the active one, and beside a process with another file. */
import { execFile } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { makeDirectory } from '../support/directory.ts';
import { databases, eventually, makePlace } from '../support/instance.ts';
import { succeeds } from '../support/plugin-program.ts';
import { launch } from '../support/crash/server.ts';

const plugins = { worker: { program: succeeds } };

interface CliOutput {
  readonly code: unknown;
  readonly out: string;
  readonly err: string;
}

async function cli(directory: string, ...words: string[]): Promise<CliOutput> {
  const script = join(import.meta.dirname, '../../bin/ductile.cjs');
  const args = [script, ...words, '--config', directory];
  const options = { env: { PATH: process.env['PATH'], HOME: directory } };
  return new Promise((done) => {
    execFile(process.execPath, args, options, (error, out, err) => {
      done({ code: error?.code ?? 0, out, err });
    });
  });
}

async function findingsOf(directory: string, kind: string): Promise<Record<string, unknown>[]> {
  const { out } = await cli(directory, 'doctor', '--json');
  const { findings } = JSON.parse(out) as { findings: Record<string, unknown>[] };
  return findings.filter(({ id }) => typeof id === 'string' && id.startsWith(`${kind}:`));
}

describe.each(databases)('on %s', (database) => {
  test('changed files are shown key by key until they are reloaded', async () => {
    const { directory } = await makePlace({ database, plugins });
    const server = launch(directory);
    await server.ready;
    const file = join(directory, 'config.yaml');
    const before = await readFile(file, 'utf8');
    expect(JSON.parse((await cli(directory, 'config', 'diff', '--json')).out)).toMatchObject({
      keys: [],
      keys_compared_with: expect.stringContaining('the configuration that process ') as string,
    });
    expect(await findingsOf(directory, 'config_changed')).toEqual([]);
    await writeFile(file, before.replace('"max_workers":4', '"max_workers":3'));
    const diff = await cli(directory, 'config', 'diff', '--json');
    expect(diff.code).toBe(1);
    expect(JSON.parse(diff.out)).toMatchObject({
      same: false,
      keys: [{ key: 'service.max_workers', before: '4', after: '3' }],
    });
    expect(await findingsOf(directory, 'config_changed')).toMatchObject([
      { evidence: 'service.max_workers: 4 → 3' },
    ]);
    expect((await cli(directory, 'system', 'reload')).code).toBe(0);
    await eventually('it is active', async () => {
      return (await findingsOf(directory, 'config_changed')).length === 0;
    });
    expect(JSON.parse((await cli(directory, 'config', 'diff', '--json')).out)).toMatchObject({
      keys: [],
    });
    await server.stop();
  });
});

test('a process with another configuration is named by every command', async () => {
  const { directory, config } = await makePlace({ plugins });
  const server = launch(directory);
  await server.ready;
  const other = await makeDirectory();
  const text = await readFile(config.file, 'utf8');
  // The same database, by a path that means the same from everywhere.
  const written = JSON.parse(text) as { state: unknown; plugin_roots: unknown };
  const state = { path: config.state.kind === 'sqlite' ? config.state.path : '' };
  const roots = [join(directory, 'plugins')];
  const file = join(other, 'config.yaml');
  await writeFile(file, JSON.stringify({ ...written, state, plugin_roots: roots }));
  const warning = `the running service uses the configuration ${config.file}, not ${file}`;
  expect((await cli(other, 'job', 'list')).err).toBe(`warning: ${warning}\n`);
  const asJson = await cli(other, 'job', 'list', '--json');
  expect(JSON.parse(asJson.err)).toMatchObject({ warning });
  expect(JSON.parse(asJson.out)).toMatchObject({ jobs: [] });
  expect((await cli(directory, 'job', 'list')).err).toBe('');
  const refused = await cli(other, 'system', 'start');
  expect(refused.code).toBe(1);
  expect(refused.err).toMatch(
    new RegExp(`process ${server.pid} holds the lock .* since 20.*, with .* ${config.file}`),
  );
  expect(await findingsOf(other, 'lock_held')).toMatchObject([
    {
      message: expect.stringContaining(
        `another configuration: ${config.file}, not ${file}`,
      ) as string,
    },
  ]);
  expect(await findingsOf(directory, 'lock_held')).toEqual([]);
  await server.stop();
});
