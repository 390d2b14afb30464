import { readFileSync } from 'node:fs';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeEach, describe, expect, test } from 'vitest';
import { planEdit } from '../../src/config/edit.ts';
import { findConfigFindings } from '../../src/config/findings.ts';
import { loadConfig, readConfig, type ConfigReading } from '../../src/config/load.ts';
import { translations } from '../../src/config/translate.ts';
import { makeDirectory } from '../support/directory.ts';

const NO_ENV = {};

let directory: string;

beforeEach(async () => {
  directory = await makeDirectory();
});

async function write(yaml: string, name = 'config.yaml'): Promise<void> {
  await writeFile(join(directory, name), yaml, { mode: 0o600 });
}

async function read(yaml: string, env: Record<string, string> = NO_ENV): Promise<ConfigReading> {
  await write(`plugin_roots: [plugins]\n${yaml}`);
  return readConfig({ given: directory, env });
}

/** Warnings of a usable configuration as `line:column key message hint`. */
function warningsOf({ config, translated, problems }: ConfigReading): string[] {
  expect(problems).toEqual([]);
  expect(config?.warnings).toEqual(expect.arrayContaining([...translated]));
  return translated.map(
    ({ place, key, message, hint }) =>
      `${place.slice(place.indexOf('.yaml:') + 6)} ${key} ${message}. ${hint}`,
  );
}

describe('a spelling of the original works by its effect, with a warning', () => {
  test('log_level at the root is service.log_level', async () => {
    const reading = await read('log_level: debug\n');
    expect(warningsOf(reading)).toEqual([
      '2:1 log_level is accepted as service.log_level. Write log_level under service.',
    ]);
    expect(reading.config?.service.logLevel).toBe('debug');
    expect(reading.config?.redacted).toMatchObject({ service: { log_level: 'debug' } });
    expect(reading.document.value).toMatchObject({ service: { log_level: 'debug' } });
    expect(reading.document.value).not.toHaveProperty('log_level');
  });

  test('a wrong value is reported as our key at the location of the spelling', async () => {
    const { config, problems } = await read('service:\nlog_level: loud\n');
    expect(config).toBeUndefined();
    expect(problems).toMatchObject([
      { place: join(directory, 'config.yaml:3:1'), key: 'service.log_level' },
    ]);
  });

  test('our own key wins in the same file, and the later file wins otherwise', async () => {
    const both = await read('log_level: debug\nservice: { log_level: warn }\n');
    expect(both.config?.service.logLevel).toBe('warn');
    expect(warningsOf(both)).toEqual([
      '2:1 log_level is ignored, because service.log_level is set too. Remove it.',
    ]);
    await write('log_level: error\n', 'more.yaml');
    const later = await read('include: [more.yaml]\nservice: { log_level: warn }\n');
    expect(later.config?.service.logLevel).toBe('error');
  });

  test('plugins.x.timeout is the timeout of every command without one', async () => {
    const reading = await read(
      'plugins:\n  echo:\n    timeout: 7s\n    timeouts: { handle: 3s }\n',
    );
    expect(warningsOf(reading)).toEqual([
      expect.stringMatching(
        /^4:5 plugins\.echo\.timeout is accepted as plugins\.echo\.timeouts\["\*"\]/,
      ),
    ]);
    expect(reading.config?.plugins['echo']?.timeoutsMs).toEqual({ '*': 7000, handle: 3000 });
  });

  test('plugins.x.max_attempts is retry.max_attempts, and takes a variable', async () => {
    const reading = await read('plugins:\n  echo: { max_attempts: "${TRIES}" }\n', { TRIES: '2' });
    expect(warningsOf(reading)).toHaveLength(1);
    expect(reading.config?.plugins['echo']?.retry.maxAttempts).toBe(2);
  });

  test('concurrency_safe: false is parallelism: 1, unless parallelism is set', async () => {
    const reading = await read(
      [
        'plugins:',
        '  a: { concurrency_safe: false }',
        '  b: { concurrency_safe: true }',
        '  c: { concurrency_safe: false, parallelism: 1 }\n',
      ].join('\n'),
    );
    expect(warningsOf(reading).map((line) => line.slice(0, line.indexOf('.concurrency')))).toEqual([
      '3:8 plugins.a',
      '5:8 plugins.c',
      '4:8 plugins.b',
    ]);
    const { a, b, c } = reading.config?.plugins ?? {};
    expect([a?.parallelism, b?.parallelism, c?.parallelism]).toEqual([1, undefined, 1]);
    const wrong = await read('plugins:\n  a: { concurrency_safe: maybe }\n');
    expect(wrong.problems).toMatchObject([{ key: 'plugins.a.concurrency_safe' }]);
  });

  test('webhooks as a list are webhooks.endpoints, also beside a map in another file', async () => {
    await write(
      [
        'webhooks:',
        '  - name: github',
        '    path: /hook/github',
        '    plugin: echo',
        '    secret_ref: github',
        '    signature_header: X-Hub-Signature-256\n',
      ].join('\n'),
      'more.yaml',
    );
    const reading = await read(
      [
        'include: [more.yaml]',
        'webhooks: { listen: "127.0.0.1:9000" }',
        'tokens:',
        '  - name: github',
        '    key: 0123456789abcdef',
        '    description: for GitHub',
        '    created_at: 2026-02-10T10:00:00Z\n',
      ].join('\n'),
    );
    expect(warningsOf(reading).toSorted()).toEqual([
      '1:1 webhooks is accepted as webhooks.endpoints. Write the list under endpoints.',
      '2:5 webhooks[0].name has no effect: an endpoint is named by its path. Remove it.',
      expect.stringMatching(/^7:5 tokens\[0\]\.description has no effect/),
      expect.stringMatching(/^8:5 tokens\[0\]\.created_at has no effect/),
    ]);
    expect(reading.config?.webhooks).toMatchObject({
      port: 9000,
      endpoints: [{ path: '/hook/github', plugin: 'echo', secret: '0123456789abcdef' }],
    });
  });

  test('the tokens of the API may have a description, too', async () => {
    const reading = await read(
      [
        'api:',
        '  auth:',
        '    tokens:',
        '      - { token: 0123456789abcdef, scopes: ["*"], description: mine, created_at: now }\n',
      ].join('\n'),
    );
    expect(warningsOf(reading)).toHaveLength(2);
    expect(reading.config?.api.auth.tokens).toMatchObject([{ scopes: ['*'] }]);
  });

  test('a scope file may be a bare list', async () => {
    await mkdir(join(directory, 'scopes'));
    await write('["jobs:ro", "plugin:rw"]', 'scopes/cli.json');
    const reading = await read(
      'tokens:\n  - { name: cli, key: 0123456789abcdef, scopes_file: scopes/cli.json }\n',
    );
    expect(warningsOf(reading)).toEqual([
      expect.stringMatching(
        /^3:\d+ tokens\[0\]\.scopes_file names .*cli\.json, which is a bare list\. Write \{"scopes"/,
      ),
    ]);
    expect(reading.config?.api.auth.tokens).toMatchObject([{ scopes: ['jobs:ro', 'plugin:rw'] }]);
  });

  test('on-hook becomes on with the signal of the hook', async () => {
    const reading = await read(
      [
        'plugins:',
        '  echo: { notify_on_complete: true }',
        'pipelines:',
        '  - name: done',
        '    on-hook: job.completed',
        '    from_plugin: echo',
        '    steps: [{ uses: echo }]',
        '  - name: failed',
        '    on-hook: job.failed',
        '    if: { path: payload.command, op: eq, value: poll }',
        '    steps: [{ uses: echo }]',
        '  - name: late',
        '    on-hook: job.timed_out',
        '    steps: [{ uses: echo }]\n',
      ].join('\n'),
    );
    expect(warningsOf(reading)).toHaveLength(3);
    expect(reading.config?.plugins['echo']?.notifyOnComplete).toBe(true);
    expect(reading.document.value).toMatchObject({
      pipelines: [
        {
          name: 'done',
          on: 'job.succeeded',
          if: { path: 'payload.plugin', op: 'eq', value: 'echo' },
        },
        {
          on: 'job.dead',
          if: {
            all: [
              { path: 'payload.notify_on_complete', op: 'eq', value: true },
              { path: 'payload.status', op: 'in', value: ['failed', 'dead'] },
              { path: 'payload.command', op: 'eq', value: 'poll' },
            ],
          },
        },
        {
          on: 'job.dead',
          if: {
            all: [
              { path: 'payload.notify_on_complete', op: 'eq', value: true },
              { path: 'payload.status', op: 'in', value: ['timed_out'] },
            ],
          },
        },
      ],
    });
    const wrong = await read('pipelines: [{ name: a, on-hook: job.odd, steps: [{ uses: b }] }]\n');
    expect(wrong.problems).toMatchObject([{ key: 'pipelines[0].on-hook' }]);
  });
});

describe('keys that start with x-', () => {
  test('are ignored without a warning wherever keys are fixed', async () => {
    const reading = await read(
      [
        'x-common: &common { retry: { max_attempts: 2, x-why: "${UNSET}" }, x-note: 1 }',
        'service: { x-owner: me }',
        'plugins:',
        '  echo: *common',
        'pipelines:',
        '  - name: a',
        '    x-team: blue',
        '    steps:',
        '      - uses: echo',
        '        x-note: here',
        '        with: { x-header: "1" }',
        '      - approve: { message: ok, x-why: rules }\n',
      ].join('\n'),
    );
    expect(warningsOf(reading)).toEqual([]);
    expect(reading.config?.plugins['echo']?.retry.maxAttempts).toBe(2);
    expect(JSON.stringify(reading.document.value)).toContain('x-header');
    expect(JSON.stringify(reading.document.value)).not.toMatch(/x-(note|team|why|owner|common)/);
  });

  test('are names where keys are names: plugins, and what plugins get', async () => {
    const reading = await read('plugins:\n  x-ray: { config: { x-key: 1 } }\n');
    expect(warningsOf(reading)).toEqual([]);
    expect(reading.config?.plugins['x-ray']?.config).toEqual({ 'x-key': 1 });
  });
});

test('a key inside of a spelling is not changed by config set, which names the spelling', async () => {
  const endpoint = '{ path: /a, plugin: b, secret_ref: c, signature_header: D }';
  const reading = await read(`webhooks: [${endpoint}]\n`);
  const options = { given: directory, env: NO_ENV };
  const path = ['webhooks', 'endpoints', 0, 'plugin'];
  expect(() => planEdit(reading, path, 'x', options)).toThrow(
    expect.objectContaining({
      hint: expect.stringMatching(/config\.yaml:2:1 first: webhooks is accepted as/) as unknown,
    }),
  );
  const other = await read('log_level: debug\n');
  const edit = planEdit(other, ['service', 'log_level'], 'warn', options);
  expect(edit.reading.config?.service.logLevel).toBe('warn');
});

test('config check and a start report a translation as a warning', async () => {
  const reading = await read('log_level: debug\n');
  expect(findConfigFindings(reading)).toContainEqual(
    expect.objectContaining({ severity: 'warning', category: 'content', key: 'log_level' }),
  );
  expect(loadConfig({ given: directory, env: NO_ENV }).warnings).toMatchObject([
    { key: 'log_level' },
  ]);
});

test('the page about moving over lists every accepted spelling', () => {
  const page = readFileSync('docs/migrate/from-the-original.md', 'utf8');
  for (const { from } of translations) {
    expect(page).toContain(
      `\`${from.replaceAll('.*', '[]').replace('plugins[]', 'plugins.<name>')}\``,
    );
  }
});
