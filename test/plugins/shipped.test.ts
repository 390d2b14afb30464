/** Rules for every shipped plugin. */
import { accessSync, constants, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { readDocument } from '../../src/config/document.ts';
import type { JsonObject } from '../../src/base/json.ts';
import { parseManifest } from '../../src/plugin/manifest.ts';
import { parseResponse } from '../../src/plugin/response.ts';
import { makeDirectory } from '../support/directory.ts';
import {
  entrypointOf,
  feedPlugin,
  pluginsRoot,
  runError,
  runPlugin,
} from '../support/plugin-process.ts';
import { startTelegramServer } from '../support/telegram-server.ts';

interface Example {
  readonly plugins: Readonly<Record<string, { readonly config?: JsonObject }>>;
}

const telegram = await startTelegramServer();
const database = join(await makeDirectory(), 'sound.db');
new DatabaseSync(database).close();
const names = readdirSync(pluginsRoot).filter((name) => name !== 'lib');
/** Settings with which the plugin's own check passes. */
const sound: Record<string, JsonObject> = {
  agent: { tasks_dir: import.meta.dirname, providers: { claude: { command: ['true'] } } },
  'file-watch': { paths: [import.meta.filename] },
  'folder-watch': { path: import.meta.dirname },
  notify: { url: 'http://127.0.0.1:9/' },
  'oauth-fetch': {
    client_id: 'id',
    client_secret: 'secret',
    token_url: 'https://example.com/token',
    api_url: 'https://example.com/api',
    refresh_token: 'first',
  },
  'sqlite-query': { path: database },
  'sys-exec': { commands: { list: ['ls'] } },
  telegram: { token: telegram.token, api_url: telegram.url },
};
const noRequest = {
  status: 'error',
  error: 'the request on standard input is not one JSON object',
  retry: false,
};
const docs = join(pluginsRoot, '../docs/plugins/shipped');

test('all of them are here', () => {
  expect(names.toSorted()).toEqual([
    'agent',
    'echo',
    'file-watch',
    'folder-watch',
    'http-fetch',
    'notify',
    'oauth-fetch',
    'sqlite-query',
    'sys-exec',
    'telegram',
  ]);
});

describe.each(names)('%s', (name) => {
  const { manifest, problems } = parseManifest(
    readDocument(join(pluginsRoot, name, 'manifest.yaml'), 100_000),
  );

  test('has a manifest that the runtime takes and an entrypoint that runs', () => {
    expect(problems).toEqual([]);
    expect(manifest?.name).toBe(name);
    accessSync(entrypointOf(name), constants.X_OK);
  });

  test('leaves it to the operator to open programs and private networks', () => {
    const { required = [], optional = [], operator = [] } = manifest?.configKeys ?? {};
    const opening = ['allow_hosts', 'allow_private', 'allow_shell', 'commands', 'providers', 'env'];
    const has = (key: string): boolean => [...required, ...optional].includes(key);
    expect(operator).toEqual(expect.arrayContaining(opening.filter(has)));
    if (name === 'telegram') expect(operator).toContain('api_url');
  });

  test('says of each command what it does, and can be checked', () => {
    const commands = Object.values(manifest?.commands ?? {});
    for (const command of commands) expect(command.description, command.name).toBeTruthy();
    expect(manifest?.commands['health']).toMatchObject({ type: 'read' });
  });

  test('has a page that knows every setting and command, and shows settings that exist', () => {
    const page = readFileSync(join(docs, `${name}.md`), 'utf8');
    const { required = [], optional = [] } = manifest?.configKeys ?? {};
    for (const word of [...required, ...optional, ...Object.keys(manifest?.commands ?? {})]) {
      expect(page).toContain(`\`${word}\``);
    }
    const example = parse(/```yaml\n([^]*?)```/.exec(page)?.[1] ?? '') as Example;
    const shown = Object.keys(example.plugins[name]?.config ?? {});
    expect(shown.length).toBeGreaterThan(0);
    expect([...required, ...optional]).toEqual(expect.arrayContaining(shown));
    expect(shown).toEqual(expect.arrayContaining([...required]));
    const [, answer = ''] = /^result +(\{.*\})$/m.exec(page) ?? [];
    // A page leaves out numbers that differ each time.
    const whole = answer.replaceAll(':…', ':0');
    expect(parseResponse(Buffer.from(whole))).toMatchObject({ status: 'ok' });
  });

  test('has a page with its defaults, its events and its limits, in the order of all pages', () => {
    const page = readFileSync(join(docs, `${name}.md`), 'utf8');
    const headings = [...page.matchAll(/^## (.*)$/gm)].map(([, heading = '']) => heading);
    const order = ['Settings', 'Commands', 'Events', 'Errors and limits'];
    expect(headings.filter((heading) => order.includes(heading))).toEqual(order);
    expect(page).toContain('| setting | default | meaning |');
    expect(readFileSync(join(docs, 'README.md'), 'utf8')).toContain(`[${name}](${name}.md)`);
  });

  test('responds to an invalid request with an error that is not retried', async () => {
    expect((await feedPlugin(name, '{"protocol":2,"command":')).response).toMatchObject(noRequest);
  });

  test('refuses another protocol as a configuration error', async () => {
    const { code, response, stderr } = await feedPlugin(name, '{"protocol":1,"command":"health"}');
    expect(code).toBe(78);
    expect(response).toMatchObject({ status: 'error', retry: false });
    expect(stderr).toContain('protocol 2');
  });

  test('does not know a command that is not in its manifest', async () => {
    const { error, retry } = await runError(name, { command: '../health' });
    expect(error).toMatch(/unknown command .*\.\.\/health.* there are .*health/);
    expect(retry).toBe(false);
  });

  test('refuses a setting of the wrong type as a configuration error that names the key', async () => {
    const { required = [], optional = [] } = manifest?.configKeys ?? {};
    const config = sound[name] ?? {};
    for (const key of [...required, ...optional]) {
      const wrong = { ...config, [key]: { wrong: [true] } };
      const { code, error, retry } = await runError(name, { command: 'health', config: wrong });
      expect(error).toContain(`config.${key}`);
      expect({ code, retry }).toEqual({ code: 78, retry: false });
    }
  });

  test('says that it is well when its settings are', async () => {
    const { code, response } = await runPlugin(name, {
      command: 'health',
      config: sound[name] ?? {},
    });
    expect(response).toMatchObject({ status: 'ok', events: [], stateUpdates: undefined });
    expect(code).toBe(0);
  });
});

/** A plugin for each language: the rest share the same reading of requests. */
describe.each(['echo', 'file-watch', 'notify'])('the protocol of %s', (name) => {
  test.each([
    ['nothing', ''],
    ['a list', '[1,2]'],
    ['a word', 'null'],
    ['text', '"health"'],
    ['text after the object', '{"protocol":2,"command":"health"} x'],
    ['two objects', '{"protocol":2,"command":"health"}{"protocol":2}'],
    ['a number that JSON has not', '{"protocol":2,"command":"health","config":{"a":NaN}}'],
    ['an escape that JSON has not', '{"protocol":2,"command":"health","x":"\\x41"}'],
    ['a comma too many', '{"protocol":2,"command":"health",}'],
    ['brackets that do not meet', '{"protocol":2,"command":"health","x":[1}'],
  ])('does not take %s for a request', async (_what, input) => {
    expect((await feedPlugin(name, input)).response).toMatchObject(noRequest);
  });

  test.each(['', 'no "such" command', '__proto__', 'constructor', '💥\u0007'])(
    'does not know the command %j',
    async (command) => {
      const { error, retry } = await runError(name, { command });
      expect(error).toContain('unknown command');
      expect(retry).toBe(false);
    },
  );

  test('reads a large request to its end', async () => {
    const payload = {
      text: 'ä"\\'.repeat(200_000),
      list: Array.from({ length: 50_000 }, (_, i) => i),
    };
    const { code } = await runPlugin(name, {
      command: 'health',
      config: sound[name] ?? {},
      payload,
    });
    expect(code).toBe(0);
  });
});
