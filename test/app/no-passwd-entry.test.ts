/** A user id that the passwd database doesn't know, as in `docker run --user 54321`. */
import { execFile } from 'node:child_process';
import { chown, mkdir, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, test } from 'vitest';
import { makeDirectory } from '../support/directory.ts';

const UID = 54_321;
const program = resolve(import.meta.dirname, '../../dist/main.cjs');
const shipped = resolve(import.meta.dirname, '../../plugins');
const execute = promisify(execFile);

/** The directory and everything on the way to it can be entered by that user. */
async function makeTheirs(): Promise<string> {
  const directory = await makeDirectory();
  await mkdir(join(directory, 'data'));
  const config = `plugin_roots: [${shipped}]\nplugins:\n  echo: {}\n`;
  await writeFile(join(directory, 'config.yaml'), config);
  for (const path of ['.', 'data', 'config.yaml']) await chown(join(directory, path), UID, UID);
  return directory;
}

async function runAs(directory: string, env: Record<string, string>, ...argv: string[]) {
  const identity = [`--reuid=${UID}`, `--regid=${UID}`, '--clear-groups'];
  const words = [process.execPath, program, ...argv, '--config', directory];
  const options = { env: { PATH: process.env['PATH'], ...env }, cwd: '/' };
  const { stdout } = await execute('setpriv', [...identity, ...words], options);
  return stdout;
}

// Only root may become another user.
describe.skipIf(process.getuid?.() !== 0)('a user id without a passwd entry', () => {
  test.each([
    ['without HOME', {}],
    ['with HOME=/', { HOME: '/' }],
  ])('%s runs a plugin and is on record by its number', async (_, env) => {
    const directory = await makeTheirs();
    const run = await runAs(directory, env, 'plugin', 'run', 'echo', '--json');
    const { job_id: id } = JSON.parse(run) as { job_id: string };
    const inspected = await runAs(directory, env, 'job', 'show', id, '--json');
    expect(JSON.parse(inspected)).toMatchObject({ status: 'succeeded' });
    await runAs(directory, env, 'plugin', 'disable', 'echo');
    const directives = await runAs(directory, env, 'directive', 'list', '--json');
    expect(directives).toContain(`cli:${UID}`);
  });
});
