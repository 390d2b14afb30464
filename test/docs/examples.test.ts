/** The examples, each with its own engine: they are valid, and do what their pages say. */
import { existsSync } from 'node:fs';
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { cliHost } from '../../src/app/cli-host.ts';
import { openInstance } from '../../src/app/instance.ts';
import { loadConfig } from '../../src/config/load.ts';
import type { LedgerEngine } from '../../src/engine/ledger-engine.ts';
import { ask } from '../support/direct.ts';
import { makeDirectory } from '../support/directory.ts';
import { run } from '../support/fake-cli.ts';
import { collectLog, eventually } from '../support/instance.ts';
import { pluginsRoot } from '../support/plugin-process.ts';
import { deliverPush } from '../support/push.ts';
import { startWebServer } from '../support/web-server.ts';
const examples = resolve(import.meta.dirname, '../../examples');

interface ExampleSetup {
  readonly home: string;
  readonly type: (...args: string[]) => Promise<string>;
  readonly start: () => Promise<LedgerEngine>;
  /** The messages in a file of `notify`, as soon as there are so many. */
  readonly notes: (file: string, count: number) => Promise<string[]>;
}

/** In a home of its own, and as quick as the test needs it. */
async function setUp(
  name: string,
  edits: readonly (readonly [string, string])[],
): Promise<ExampleSetup> {
  const home = await makeDirectory();
  const directory = join(home, 'config');
  await mkdir(directory);
  const written = await readFile(join(examples, name, 'config.yaml'), 'utf8');
  let text = written.replaceAll('${HOME}', home).replace('../../plugins', pluginsRoot);
  for (const [before, after] of edits) {
    expect(text).toContain(before);
    text = text.replace(before, after);
  }
  await writeFile(join(directory, 'config.yaml'), text);
  return {
    home,
    async type(...args) {
      const result = await run([...args, '--config', directory], {
        host: { openLocal: (given, need) => cliHost.openLocal(given, need) },
      });
      expect([result.code, result.err]).toEqual([0, '']);
      return result.out;
    },
    async start() {
      const { engine, close } = await openInstance(
        loadConfig({ given: directory }),
        collectLog().log,
      );
      onTestFinished(close);
      await engine.start();
      return engine;
    },
    notes: (file, count) =>
      eventually(`there are ${count} lines in ${file}`, async () => {
        const lines = await readFile(join(home, file), 'utf8').catch(() => '');
        const messages = [...lines.matchAll(/"message": "((?:[^"\\]|\\.)*)"/g)].map(
          ([, m = '']) => m,
        );
        return messages.length >= count && messages;
      }),
  };
}

test('every example has a page, a test, and a configuration without faults', async () => {
  const names = (await readdir(examples)).toSorted();
  expect(names).toEqual([
    'api-changes',
    'folder-notify',
    'github-deploy',
    'inbox',
    'nightly-backup',
    'on-call',
  ]);
  for (const name of names.filter((one) => one !== 'inbox')) {
    const { home, type } = await setUp(name, []);
    await mkdir(join(home, 'ductile-folder/in'), { recursive: true });
    expect([name, await type('config', 'check')]).toEqual([
      name,
      expect.stringMatching(/^(Nothing is wrong\.|warning .*[^]*0 errors)/),
    ]);
    expect(existsSync(join(examples, name, 'README.md'))).toBe(true);
  }
});

test('folder-notify reports files that arrive and change', async () => {
  const { home, start, notes } = await setUp('folder-notify', [
    ['every: 5s', 'every: 200ms'],
    ['min_age_ms: 1000', 'min_age_ms: 0'],
  ]);
  const file = join(home, 'ductile-folder/in/a.txt');
  await mkdir(join(home, 'ductile-folder/in'), { recursive: true });
  await writeFile(file, 'one');
  await start();
  expect(await notes('ductile-folder/notes.jsonl', 1)).toEqual(['a.txt arrived, 3 bytes']);
  await writeFile(file, 'another');
  expect((await notes('ductile-folder/notes.jsonl', 2))[1]).toBe('a.txt changed');
});

test('folder-notify alerts to a job that failed for good', async () => {
  const { home, start, notes } = await setUp('folder-notify', [
    ['every: 5s', 'every: 200ms'],
    ['min_age_ms: 1000', 'min_age_ms: 0'],
    ["notes.jsonl', template: '{{name}} arrived", "missing/notes', template: '{{name}} arrived"],
    ['schedules:', 'retry: { max_attempts: 1 }\n    schedules:'],
    ['  changed:', '    retry: { max_attempts: 1 }\n  changed:'],
  ]);
  await mkdir(join(home, 'ductile-folder/in'), { recursive: true });
  await writeFile(join(home, 'ductile-folder/in/a.txt'), 'one');
  await start();
  expect(await notes('ductile-folder/alerts.jsonl', 1)).toEqual([
    expect.stringMatching(/^added failed: config\.file .* cannot be opened/),
  ]);
});

test('api-changes acts on what is new, and on nothing else', async () => {
  let body = '{"open": true}';
  const web = await startWebServer((_request, response) => response.end(body));
  const { home, start, notes } = await setUp('api-changes', [
    ['http://127.0.0.1:8123', web.url],
    ['every: 1m\n        jitter: 5s', 'every: 200ms'],
  ]);
  await mkdir(join(home, 'ductile-api'));
  await start();
  await notes('ductile-api/notes.jsonl', 1);
  const before = web.received.length;
  await eventually('it was asked twice more', () => web.received.length > before + 1);
  body = '{"open": false}';
  const notesRead = await notes('ductile-api/notes.jsonl', 2);
  expect(notesRead.map((note) => note.replaceAll('\\"', '"'))).toEqual([
    `${web.url}/status.json now says {"open": true}`,
    `${web.url}/status.json now says {"open": false}`,
  ]);
  const versions = join(home, 'ductile-api/versions');
  await eventually('both versions are kept', async () => (await readdir(versions)).length === 2);
});

test('api-changes alerts to a run that halted and to an address that keeps failing', async () => {
  let status = 200;
  const web = await startWebServer((_request, response) => {
    response.statusCode = status;
    response.end('body');
  });
  const { home, start, notes } = await setUp('api-changes', [
    ['http://127.0.0.1:8123', web.url],
    ['every: 1m\n        jitter: 5s', 'every: 200ms'],
    [
      'circuit_breaker: { threshold: 3 }',
      'circuit_breaker: { threshold: 3 }\n    retry: { max_attempts: 1 }',
    ],
    ["[mkdir, -p, '", "['false', '"],
    ['sys-exec:', 'sys-exec:\n    retry: { max_attempts: 1 }'],
  ]);
  await mkdir(join(home, 'ductile-api'));
  await start();
  const halted = await notes('ductile-api/notes.jsonl', 2);
  expect(halted).toContainEqual(expect.stringContaining('exited with 1'));
  status = 500;
  const [, , opened] = await notes('ductile-api/notes.jsonl', 3);
  expect(opened).toBe('The breaker of http-fetch poll opened after 3 failures in a row.');
});

test('nightly-backup packs, tries again, and raises an alarm', async () => {
  const { home, start, notes } = await setUp('nightly-backup', [
    ['backoff_base: 5m', 'backoff_base: 10ms'],
  ]);
  const data = join(home, 'ductile-backup/data');
  await mkdir(data, { recursive: true });
  await writeFile(join(data, 'file'), 'precious');
  const engine = await start();
  const backup = async () => {
    const { jobId } = await engine.submit({
      plugin: 'backup',
      command: 'run',
      payload: {},
      submittedBy: 'api',
      actor: 'test',
    });
    return engine.waitFor(jobId, 30_000);
  };
  expect(await backup()).toMatchObject({ status: 'succeeded' });
  expect(existsSync(join(home, 'ductile-backup/latest.tar.gz'))).toBe(true);
  await rm(data, { recursive: true });
  expect(await backup()).toMatchObject({ status: 'dead', attempt: 4 });
  expect(await notes('ductile-backup/alerts.jsonl', 1)).toEqual([
    expect.stringMatching(/^backup run failed for good: .*exited with [12]/),
  ]);
});

test('nightly-backup alerts to what the service finds by itself', async () => {
  const { home, start, notes } = await setUp('nightly-backup', [
    ['max_attempts: 4', 'max_attempts: 1'],
    ['- { event_type: job.dead, to: alert }', ''],
  ]);
  await mkdir(join(home, 'ductile-backup'));
  const engine = await start();
  for (let count = 0; count < 5; count += 1) {
    const request = { plugin: 'backup', command: 'run', payload: {} };
    const { jobId } = await engine.submit({ ...request, submittedBy: 'api', actor: 'test' });
    await engine.waitFor(jobId, 30_000);
  }
  const [alert] = await notes('ductile-backup/alerts.jsonl', 1);
  expect(alert).toMatch(/backup run/);
});

test('github-deploy deploys what is pushed to main, once', async () => {
  const { home, type, start, notes } = await setUp('github-deploy', []);
  await mkdir(join(home, 'ductile-deploy'));
  const added = ['--title', 'GitHub', '--signal', 'github.push', '--auth-mode', 'github'];
  const made = await type('webhook', 'create', 'github', ...added, '--json');
  const { secret } = JSON.parse(made) as { secret: string };
  const engine = await start();
  const push = (ref: string, after: string) =>
    deliverPush(engine, 'github', secret, { ref: `refs/heads/${ref}`, after });
  expect(await deliverPush(engine, 'github', 'wrong', { ref: 'refs/heads/main' })).toBe(401);
  expect(await push('topic', 'aaa')).toBe(202);
  expect(await push('main', 'bbb')).toBe(202);
  expect(await notes('ductile-deploy/notes.jsonl', 1)).toEqual(['deployed bbb']);
  const files = await readdir(join(home, 'ductile-deploy'));
  expect(files.filter((name) => name.startsWith('deployed'))).toEqual(['deployed-bbb']);
});

test('github-deploy notes a deploy that failed', async () => {
  const { home, type, start, notes } = await setUp('github-deploy', [['[touch, ', "['false', "]]);
  await mkdir(join(home, 'ductile-deploy'));
  const added = ['--title', 'GitHub', '--signal', 'github.push', '--auth-mode', 'github'];
  const made = await type('webhook', 'create', 'github', ...added, '--json');
  const { secret } = JSON.parse(made) as { secret: string };
  const push = { ref: 'refs/heads/main', after: 'bbb' };
  expect(await deliverPush(await start(), 'github', secret, push)).toBe(202);
  expect(await notes('ductile-deploy/notes.jsonl', 1)).toEqual([
    expect.stringContaining('exited with 1'),
  ]);
});

test('inbox keeps a large file waiting until a user approves it', async () => {
  const { home, start, notes } = await setUp('inbox', [['every: 10s', 'every: 200ms']]);
  await mkdir(join(home, 'ductile-inbox/in'), { recursive: true });
  await writeFile(join(home, 'ductile-inbox/in/large.txt'), 'line\n'.repeat(50));
  const engine = await start();
  const { id } = await eventually('a run waits', async () => {
    const [waiting] = await engine.ledger.runs.list({ awaitingApproval: true, limit: 9 });
    return waiting;
  });
  expect(existsSync(join(home, 'ductile-inbox/notes.jsonl'))).toBe(false);
  const params = { run_id: id, step: 'allowed', why: 'looks fine' };
  expect((await ask(engine, 'run.approve', params)).error).toBeNull();
  const [note] = await notes('ductile-inbox/notes.jsonl', 1);
  expect(note).toMatch(/^large\.txt: 50 /);
});
