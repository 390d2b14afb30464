/** Secrets of payloads and steps, in everything that the command line shows of a configuration. */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { cliHost } from '../../src/app/cli-host.ts';
import { makeConfigTree } from '../support/config-tree.ts';
import { run, type CliResult } from '../support/fake-cli.ts';

const SECRET = 'hunter2-and-more';

async function config(directory: string, ...args: readonly string[]): Promise<CliResult> {
  return run(['config', ...args, '--config', directory], {
    host: { openLocal: (given, need) => cliHost.openLocal(given, need) },
    io: { cwd: directory },
  });
}

test('no command shows secrets, and all of them show the rest', async () => {
  const directory = await makeConfigTree({
    'config.yaml': `plugin_roots: [p]
plugins:
  a:
    schedules:
      - {id: often, every: 5m, payload: {password: ${SECRET}, note: stays}}
pipelines:
  - name: flow
    steps:
      - {uses: a, with: {api_token: ${SECRET}, note: stays}}
`,
    'p/.keep': '',
  });
  const backup = join(directory, 'backup.tar.gz');
  expect(await config(directory, 'backup', '--to', backup)).toMatchObject({ code: 0 });
  const file = join(directory, 'config.yaml');
  const written = await readFile(file, 'utf8');
  await writeFile(file, written.replaceAll('more', 'others').replaceAll('stays', 'stays too'));
  const shown = {
    show: await config(directory, 'show', '--json'),
    effective: await config(directory, 'show', '--effective'),
    plugin: await config(directory, 'show', 'plugin:a'),
    payload: await config(directory, 'get', 'plugins.a.schedules.0.payload', '--json'),
    with: await config(directory, 'get', 'pipelines.0.steps.0.with'),
    diff: await config(directory, 'diff', '--backup', backup, '--json'),
    set: await config(directory, 'set', `plugins.a.schedules.0.payload.note=x`, '--dry-run'),
  };
  for (const [name, { out, err }] of Object.entries(shown)) {
    expect(`${name}: ${out}${err}`).not.toContain('hunter2');
    if (name !== 'set') expect(`${name}: ${out}`).toContain('stays');
  }
  const one = await config(directory, 'get', 'plugins.a.schedules.0.payload.password');
  expect(one.out).toContain('[redacted]');
});
