/** Each package that comes with the program, installed and at work with the real plugins. */
import { readdirSync } from 'node:fs';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { openInstance } from '../../src/app/instance.ts';
import type { JsonObject } from '../../src/base/json.ts';
import type { LocalEngine } from '../../src/engine/local-engine.ts';
import { readPackage } from '../../src/config/packages.ts';
import { ask } from '../support/direct.ts';
import { makeDirectory } from '../support/directory.ts';
import { collectLog, eventually } from '../support/instance.ts';
import { pluginsRoot } from '../support/plugin-process.ts';
import { writeConfig } from '../support/plugin-tree.ts';
import { startWebServer } from '../support/web-server.ts';

const root = resolve(import.meta.dirname, '../../packages');
const timeout = 60_000;

async function started(directory: string): Promise<LocalEngine> {
  const text = JSON.stringify({
    service: { max_workers: 4, poll_interval: '50ms', tick_interval: '100ms' },
    state: { path: './state/ledger.db' },
    plugin_roots: [pluginsRoot],
  });
  const { engine, close } = await openInstance(
    await writeConfig(directory, text),
    collectLog().log,
  );
  onTestFinished(close);
  await engine.start();
  return engine;
}

async function install(engine: LocalEngine, slug: string, config: JsonObject): Promise<void> {
  const answer = await ask(engine, 'package.install', { package_slug: slug, config });
  expect(answer).toMatchObject({ status: 'completed', error: null });
}

async function linesOf(file: string): Promise<string[]> {
  const text = await readFile(file, 'utf8').catch(() => '');
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => (JSON.parse(line) as { message: string }).message);
}

test('all of them are packages', () => {
  const slugs = readdirSync(root).toSorted();
  expect(slugs).toEqual(['folder-notify', 'page-changes', 'push-to-command', 'site-watch']);
  for (const slug of slugs) {
    const { package: found, problems } = readPackage(join(root, slug));
    expect(problems).toEqual([]);
    expect(found?.slug).toBe(slug);
  }
});

test('folder-notify tells of a file that was put there', { timeout }, async () => {
  const directory = await makeDirectory();
  const folder = join(directory, 'in');
  const file = join(directory, 'told');
  await mkdir(folder);
  const engine = await started(directory);
  await install(engine, 'folder-notify', { folder, file, every: '100ms' });
  await eventually('it has seen the folder', async () => {
    return (await engine.ledger.facts('folder_notify_watch', 1)).length > 0;
  });
  await writeFile(join(folder, 'a.txt'), 'hello');
  const lines = await eventually('it has told', async () => {
    const told = await linesOf(file);
    return told.length > 0 ? told : undefined;
  });
  expect(lines).toEqual(['New file: a.txt (5 bytes)']);
});

test('page-changes tells of a page that is another', { timeout }, async () => {
  const directory = await makeDirectory();
  const file = join(directory, 'told');
  let page = 'one';
  const server = await startWebServer((_request, response) => response.end(page));
  const engine = await started(directory);
  const more = { allow_private: true, every: '100ms' };
  await install(engine, 'page-changes', { page: server.url, file, ...more });
  await eventually('it was told once', async () => (await linesOf(file)).length === 1);
  page = 'other';
  const lines = await eventually('it was told again', async () => {
    const told = await linesOf(file);
    return told.length > 1 ? told : undefined;
  });
  expect(lines.at(-1)).toContain('has changed (5 bytes)');
});

test('site-watch tells once when a site is down, and once when it is up', { timeout }, async () => {
  const directory = await makeDirectory();
  const file = join(directory, 'told');
  let status = 500;
  const server = await startWebServer((_request, response) => {
    response.statusCode = status;
    response.end('answer');
  });
  const engine = await started(directory);
  const quick = { every: '100ms', recheck: '300ms', failures: 2, allow_private: true };
  await install(engine, 'site-watch', { site: server.url, file, ...quick });
  await eventually('it is down', async () => (await linesOf(file)).length === 1);
  await eventually('it was looked at again, and is down still', async () => {
    const opened = await engine.ledger.signals({ type: 'breaker.opened', limit: 9 });
    return opened.length > 2;
  });
  status = 200;
  const lines = await eventually('it is up', async () => {
    const told = await linesOf(file);
    return told.some((line) => line.endsWith('up again')) ? told : undefined;
  });
  expect(lines).toEqual([
    `${server.url} is down: 2 failures in a row`,
    `${server.url} is up again`,
  ]);
});

test('push-to-command runs its command for a push to its branch alone', { timeout }, async () => {
  const directory = await makeDirectory();
  const engine = await started(directory);
  const command = ['cp', '/dev/null', join(directory, 'pushed-{after}')];
  await install(engine, 'push-to-command', { command });
  const push = (ref: string, after: string) =>
    engine.signals.emit({
      type: 'github.push',
      source: 'webhook:github',
      data: { ref, after },
      actor: 'api:test',
    });
  await push('refs/heads/other', 'no');
  await push('refs/heads/main', 'abc123');
  await eventually('the command ran', () => readdirSync(directory).includes('pushed-abc123'));
  expect(readdirSync(directory)).not.toContain('pushed-no');
});
