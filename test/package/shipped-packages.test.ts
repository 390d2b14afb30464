/** Each package that comes with the program, installed and at work with the real plugins. */
import { readdirSync } from 'node:fs';
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { expect, onTestFinished, test } from 'vitest';
import { openInstance } from '../../src/app/instance.ts';
import type { JsonObject } from '../../src/base/json.ts';
import type { LedgerEngine } from '../../src/engine/ledger-engine.ts';
import { readPackage } from '../../src/config/packages.ts';
import { ask } from '../support/direct.ts';
import { makeDirectory } from '../support/directory.ts';
import { claudeOutput, makeFakeAgent } from '../support/fake-agent.ts';
import { collectLog, eventually } from '../support/instance.ts';
import { pluginsRoot } from '../support/plugin-process.ts';
import { writeConfig } from '../support/plugin-tree.ts';
import { deliverPush } from '../support/push.ts';
import { startTelegramServer } from '../support/telegram-server.ts';
import { startWebServer } from '../support/web-server.ts';

const root = resolve(import.meta.dirname, '../../packages');

async function started(directory: string): Promise<LedgerEngine> {
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

async function install(
  engine: LedgerEngine,
  slug: string,
  config: JsonObject,
): Promise<JsonObject> {
  const answer = await ask(engine, 'package.install', { package_slug: slug, config });
  expect(answer).toMatchObject({ status: 'completed', error: null });
  return answer.result ?? {};
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
  expect(slugs).toEqual([
    'daily-briefing',
    'folder-notify',
    'page-changes',
    'push-to-command',
    'site-watch',
  ]);
  for (const slug of slugs) {
    const { package: found, problems } = readPackage(join(root, slug));
    expect(problems).toEqual([]);
    expect(found?.slug).toBe(slug);
  }
});

test('daily-briefing sends what the agent wrote, and why it did not', async () => {
  const directory = await makeDirectory();
  await mkdir(join(directory, 'briefing'));
  const telegram = await startTelegramServer();
  const claude = await makeFakeAgent('claude');
  const engine = await started(directory);
  await ask(engine, 'credential.set', { name: 'bot' }, { secret: telegram.token });
  await install(engine, 'daily-briefing', {
    tasks_dir: directory,
    task_folder: 'briefing',
    prompt: 'What is new?',
    providers: { claude: { command: [claude.program] } },
    bot_token: 'credential:bot',
    chat: 77,
    telegram_url: telegram.url,
    journal_dir: join(directory, 'journal'),
  });
  const fire = async (): Promise<void> => {
    const database = new DatabaseSync(join(directory, 'state/ledger.db'), { timeout: 5000 });
    const update = database.prepare('update schedules set next_due_at = ?, next_slot_at = ?');
    await eventually('its schedule is there', () => {
      const now = new Date().toISOString();
      return update.run(now, now).changes > 0;
    });
    database.close();
  };
  await claude.behave({ stdout: claudeOutput('Nothing.') });
  await fire();
  await eventually('it has told', () => telegram.sent.length === 1);
  await claude.behave({ code: 3, stderr: 'no credit' });
  await fire();
  await eventually('it has told of the failure', () => telegram.sent.length === 2);
  expect(telegram.sent).toEqual([
    { chat_id: '77', text: 'Briefing\n\nNothing.' },
    { chat_id: '77', text: 'Briefing: error:exit_3: no credit' },
  ]);
  expect((await claude.calls())[0]?.stdin).toMatch(/^What is new\?/);
});

test('folder-notify reports a file that was put there', async () => {
  const directory = await makeDirectory();
  const folder = join(directory, 'in');
  const file = join(directory, 'told');
  await mkdir(folder);
  const engine = await started(directory);
  await install(engine, 'folder-notify', { folder, file, every: '100ms' });
  await eventually('it has seen the folder', async () => {
    return (await engine.ledger.plugins.listFacts('folder_notify_watch', 1)).length > 0;
  });
  await writeFile(join(folder, 'a.txt'), 'hello');
  const lines = await eventually('it has told', async () => {
    const printed = await linesOf(file);
    return printed.length > 0 ? printed : undefined;
  });
  expect(lines).toEqual(['New file: a.txt (5 bytes)']);
});

test('page-changes reports a changed page', async () => {
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
    const printed = await linesOf(file);
    return printed.length > 1 ? printed : undefined;
  });
  expect(lines.at(-1)).toContain('has changed (5 bytes)');
});

test('site-watch reports once when a site is down, and once when it is up', async () => {
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
    const opened = await engine.ledger.signals.list({ type: 'breaker.opened', limit: 9 });
    return opened.length > 2;
  });
  status = 200;
  const lines = await eventually('it is up', async () => {
    const printed = await linesOf(file);
    return printed.some((line) => line.endsWith('up again')) ? printed : undefined;
  });
  expect(lines).toEqual([
    `${server.url} is down: 2 failures in a row`,
    `${server.url} is up again`,
  ]);
});

test('push-to-command runs its command for a signed push to its branch', async () => {
  const directory = await makeDirectory();
  const engine = await started(directory);
  const command = ['cp', '/dev/null', join(directory, 'pushed-{after}')];
  const { secrets } = await install(engine, 'push-to-command', { command });
  const secret = (secrets as Record<string, string>)['push-to-command-github'] ?? '';
  const push = (ref: string, after: string, signedWith = secret) =>
    deliverPush(engine, 'push-to-command-github', signedWith, { ref, after });
  expect(await push('refs/heads/main', 'forged', 'not the secret')).toBe(401);
  expect(await push('refs/heads/other', 'no')).toBe(202);
  expect(await push('refs/heads/main', 'abc123')).toBe(202);
  await eventually('the command ran', () => readdirSync(directory).includes('pushed-abc123'));
  expect(readdirSync(directory).filter((name) => name.startsWith('pushed-'))).toHaveLength(1);
});

test('packages post to an address instead of a file', async () => {
  const directory = await makeDirectory();
  const folder = join(directory, 'in');
  await mkdir(folder);
  const chat = await startWebServer((_request, response) => response.end());
  const site = await startWebServer(({ path }, response) => {
    response.statusCode = path === '/down' ? 500 : 200;
    response.end('page');
  });
  const engine = await started(directory);
  const to = (path: string) => ({ url: `${chat.url}${path}`, allow_private: true });
  const said = (path: string) =>
    eventually(`${path} got a message`, () => {
      const found = chat.received.find((request) => request.path === path);
      return found === undefined ? undefined : (JSON.parse(found.body) as unknown);
    });
  const every = '100ms';
  await install(engine, 'folder-notify', { folder, every, message: '{{name}}!', ...to('/folder') });
  await eventually('it has seen the folder', async () => {
    return (await engine.ledger.plugins.listFacts('folder_notify_watch', 1)).length > 0;
  });
  await writeFile(join(folder, 'a.txt'), 'hello');
  expect(await said('/folder')).toEqual({ text: 'a.txt!' });
  await install(engine, 'page-changes', { page: `${site.url}/page`, every, ...to('/page') });
  expect(await said('/page')).toEqual({ text: `${site.url}/page has changed (4 bytes)` });
  const down = { site: `${site.url}/down`, every, failures: 2 };
  await install(engine, 'site-watch', { ...down, ...to('/site') });
  expect(await said('/site')).toEqual({ text: `${site.url}/down is down: 2 failures in a row` });
});
