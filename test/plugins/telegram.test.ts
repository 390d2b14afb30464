import { readdir, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { handle } from '../../plugins/telegram/handle.ts';
import { compose, split } from '../../plugins/telegram/message.ts';
import { poll as pollCommand } from '../../plugins/telegram/updates.ts';
import type { JsonObject as PluginObject } from '../../sdk/typescript/ductile-plugin.ts';
import type { JsonObject } from '../../src/base/json.ts';
import { makeDirectory } from '../support/directory.ts';
import { commandError, commandOk } from '../support/plugin-command.ts';
import { runOk, runPlugin } from '../support/plugin-process.ts';
import { startTelegramServer, type TelegramServer } from '../support/telegram-server.ts';
import { startWebServer } from '../support/web-server.ts';

let server: TelegramServer;
let journal: string;

beforeAll(async () => {
  server = await startTelegramServer();
});

beforeEach(async () => {
  journal = await makeDirectory();
  for (const list of [server.sent, server.updates, server.polls, server.refusals]) list.length = 0;
});

describe('handle', () => {
  test('sends an answer of an agent to the chat of its conversation alone', async () => {
    const config = { chats: [1, -100222], conversations: { ann: '77' }, allowed_users: [5] };
    const replies = [
      ['1', ['1']],
      ['-100222', ['-100222']],
      ['ann', ['77']],
      ['5', ['5']],
      ['999', []],
    ] as const;
    for (const [conversation, chats] of replies) {
      server.sent.length = 0;
      const event = { type: 'agent.reply', payload: { conversation, text: `to ${conversation}` } };
      await commandOk(handle, request(config, event, { idempotency_key: conversation }));
      expect(server.sent).toEqual(
        chats.map((chat_id) => ({ chat_id, text: `to ${conversation}` })),
      );
    }
  });

  test('sends anything else to all chats', async () => {
    const config = { chats: [1, 2], template: '{{host}} is {{disk.used}} full' };
    const event = { type: 'disk.full', payload: { host: 'web1', disk: { used: '93 %' } } };
    const answer = await commandOk(handle, request(config, event));
    expect(answer.events).toEqual([
      { type: 'telegram.sent', payload: { chats: ['1', '2'], messages: 2 } },
    ]);
    const text = 'web1 is 93 % full';
    expect(server.sent).toEqual([
      { chat_id: '1', text },
      { chat_id: '2', text },
    ]);
  });

  test('waits as long as configured, and then sends', async () => {
    const parameters = { retry_after: 1 };
    server.refusals.push({
      status: 429,
      description: 'Too Many Requests: retry after 1',
      parameters,
    });
    await commandOk(handle, message('hello'));
    expect(server.sent).toHaveLength(1);
  });

  test('continues where it stopped when it has to be tried again', async () => {
    const parameters = { retry_after: 3000 };
    const busy = { status: 429, description: 'Too Many Requests: retry after 3000', parameters };
    server.refusals.push(undefined, busy);
    const first = await commandError(handle, message('hello', { chats: [1, 2] }));
    expect(first).toMatchObject({
      retry: true,
      retryAfterSeconds: 3000,
      error: expect.stringContaining('429'),
    });
    const again = await commandOk(handle, { ...message('hello', { chats: [1, 2] }), attempt: 2 });
    expect(again.events).toMatchObject([{ payload: { messages: 1 } }]);
    expect(server.sent.map(({ chat_id: chat }) => chat)).toEqual(['1', '2']);
    // Other work is other work.
    await commandOk(handle, { ...message('hello', { chats: [1] }), idempotency_key: 'other' });
    expect(server.sent).toHaveLength(3);
  });

  test('sends without markup what Telegram cannot read with it', async () => {
    await runOk('telegram', message('*bold*', { parse_mode: 'Markdown' }));
    const other = message('2 * 3', { parse_mode: 'Markdown' });
    await commandOk(handle, { ...other, idempotency_key: 'other' });
    expect(server.sent).toEqual([
      { chat_id: '1', text: '*bold*', parse_mode: 'Markdown' },
      { chat_id: '1', text: '2 * 3' },
    ]);
  });

  test('reaches the others when one chat refuses, and fails when all do', async () => {
    const blocked = { status: 403, description: 'Forbidden: bot was blocked by the user' };
    server.refusals.push(blocked);
    const { logs } = await commandOk(handle, message('hello', { chats: [1, 2] }));
    expect(logs).toMatchObject([{ level: 'error', message: expect.stringContaining('blocked') }]);
    expect(server.sent).toMatchObject([{ chat_id: '2' }]);
    server.refusals.push(blocked);
    const other = { ...message('hello'), idempotency_key: 'other' };
    expect(await commandError(handle, other)).toMatchObject({
      retry: false,
      error: expect.stringContaining('blocked'),
    });
  });

  test.each([
    [{ status: 500, description: 'Internal Server Error' }, true, /500/],
    [{ status: 400, description: 'Bad Request: chat not found' }, false, /chat not found/],
    [
      {
        status: 400,
        description: 'Bad Request: group chat was upgraded',
        parameters: { migrate_to_chat_id: -1009 },
      },
      false,
      /its id is now -1009/,
    ],
  ])('answers %j with an error, retry %s', async (refusal, retry, error) => {
    server.refusals.push(refusal);
    const failed = await commandError(handle, message('hello'));
    expect(failed.retry).toBe(retry);
    expect(failed.error).toMatch(error);
  });

  test('sends a long text in pieces', async () => {
    const lines = Array.from({ length: 300 }, (_, index) => `line ${index} ${'x'.repeat(30)}`);
    await commandOk(handle, message(lines.join('\n')));
    expect(server.sent.length).toBeGreaterThan(2);
    expect(server.sent.map(({ text }) => text).join('\n')).toBe(lines.join('\n'));
  });
});

describe('the token of the bot', () => {
  const wrong = '4242:another_Token-that_is_wrong';

  test('that is refused is a configuration error', async () => {
    const failed = await commandError(handle, message('hello', { token: wrong }));
    expect(failed).toMatchObject({ code: 78, error: expect.stringContaining('config.token') });
  });

  test('is in no error, whatever happens to the request', async () => {
    const mute = await startWebServer(() => undefined);
    const odd = await startWebServer((_request, response) => {
      response.writeHead(302, { location: `${server.url}/` });
      response.end('<html>');
    });
    const urls = ['http://127.0.0.1:9', mute.url, odd.url];
    for (const api_url of urls) {
      const { stdout, stderr, response } = await runPlugin(
        'telegram',
        message('hello', { api_url, timeout_ms: 300 }),
      );
      expect(response.status).toBe('error');
      expect(stdout + stderr).not.toContain('secret_Token');
    }
    const { stdout, stderr } = await runPlugin('telegram', message('x', { token: wrong }));
    expect(stdout + stderr).not.toContain('another_Token');
  });
});

describe('the journal', () => {
  test('forgets after days, and touches nothing else there', async () => {
    const old = new Date(Date.now() - 3 * 86_400_000);
    for (const name of ['a'.repeat(64), 'notes.txt']) {
      await writeFile(join(journal, name), '');
      await utimes(join(journal, name), old, old);
    }
    await commandOk(handle, message('hello'));
    const names = await readdir(journal);
    expect(names).toHaveLength(2);
    expect(names).toContain('notes.txt');
  });
});

describe('poll', () => {
  const config = { allowed_users: [5], wait_s: 0 };

  test('emits texts of allowed users alone, and continues after them', async () => {
    server.updates.push(
      makeUpdate(10, 5, 'hello', 5),
      makeUpdate(11, 6, 'let me in', 6),
      makeUpdate(12, 5, 'in a group', -100222),
      { update_id: 13, message: { message_id: 4, from: { id: 5 }, chat: { id: 5 }, photo: [] } },
      { update_id: 14 },
    );
    const { events, stateUpdates, logs } = await commandOk(pollCommand, poll(config));
    expect(events).toEqual([
      {
        type: 'telegram.message',
        payload: { chat: '5', user: '5', text: 'hello', message_id: 110 },
        dedupeKey: 'telegram:4242:10',
      },
      {
        type: 'telegram.message',
        payload: { chat: '-100222', user: '5', text: 'in a group', message_id: 112 },
        dedupeKey: 'telegram:4242:12',
      },
    ]);
    expect(stateUpdates).toEqual({ bot: '4242', offset: 15 });
    expect(JSON.stringify(logs)).not.toContain('let me in');
    expect(server.polls).toEqual([{ limit: 100, timeout: 0, allowed_updates: ['message'] }]);
  });

  test('takes the same again when its attempt was not kept, and nothing when it was', async () => {
    server.updates.push(makeUpdate(10, 5, 'once', 5));
    const first = await commandOk(pollCommand, poll(config));
    const again = await commandOk(pollCommand, poll(config));
    expect(again.events).toEqual(first.events);
    const after = await commandOk(pollCommand, poll(config, first.stateUpdates));
    expect(after).toMatchObject({ events: [], result: 'nobody wrote', stateUpdates: undefined });
    expect(server.polls.at(-1)).toMatchObject({ offset: 11 });
  });

  test('does not use the place of another bot', async () => {
    await commandOk(pollCommand, poll(config, { bot: '1', offset: 500 }));
    expect(server.polls[0]).not.toHaveProperty('offset');
  });

  test('listens to no user by default', async () => {
    expect((await commandError(pollCommand, poll({}))).error).toContain('config.allowed_users');
  });
});

describe('settings', () => {
  test.each<[string, JsonObject]>([
    ['config.token', { token: 'no-token' }],
    ['config.chats', { chats: ['Ann'] }],
    ['config.chats', { chats: [] }],
    ['config.conversations', { conversations: { ann: 1.5 } }],
    ['config.allowed_users', { allowed_users: ['@ann'] }],
    ['config.parse_mode', { parse_mode: 'bold' }],
    ['config.api_url', { api_url: 'ftp://127.0.0.1' }],
    ['config.journal_dir', { journal_dir: 'relative' }],
  ])('are refused as a configuration error: %s of %j', async (key, more) => {
    const { code, error } = await commandError(handle, message('hello', more));
    expect(error).toContain(key);
    expect(code).toBe(78);
  });

  test('are well when Telegram knows the bot', async () => {
    const { result } = await runOk('telegram', {
      command: 'health',
      config: settings({ chats: [1] }),
    });
    expect(result).toBe('@ductile_test_bot tells 1 chats and hears 0 people');
  });
});

describe('the message', () => {
  const noWarning = (warning: string): never => {
    throw new Error(warning);
  };

  test.each<[string, string, JsonObject]>([
    ['hello', 'agent.reply', { text: 'hello', conversation: '1' }],
    [
      'Report\n\nAll well',
      'agent.result',
      { title: 'Report', text: 'All well', status: 'success' },
    ],
    [
      'daily\n\nsuccess',
      'agent.result',
      { title: null, task_folder: 'daily', text: '', status: 'success' },
    ],
    [
      'agent task: failed\nerror:timeout\njob j1',
      'job.dead',
      { plugin: 'agent', command: 'task', status: 'failed', error: 'error:timeout', job_id: 'j1' },
    ],
    [
      'agent task: dead\nby webhook:deploys\njob j1',
      'job.dead',
      { plugin: 'agent', command: 'task', status: 'dead', actor: 'webhook:deploys', job_id: 'j1' },
    ],
    ['words', 'x', { message: 'words', text: 'not these' }],
    ['{"a":1}', 'x', { a: 1 }],
  ])('is %j for %s', (text, type, payload) => {
    expect(compose(type, payload as PluginObject, undefined, noWarning)).toBe(text);
  });

  test('does not look into values for placeholders again', () => {
    const payload = { a: '{{b}}', b: 'secret', list: ['x'] };
    const warnings: string[] = [];
    const warn = (warning: string) => void warnings.push(warning);
    const template = '{{a}} {{ list.0 }} {{nope}}{{list}}';
    expect(compose('x', payload, template, warn)).toBe('{{b}} x ["x"]');
    expect(warnings).toEqual([
      'config.template: the payload has no nope, so it is empty in the message; the payload has a, b, list',
    ]);
  });

  test('is divided between paragraphs, lines and words, and never within a character', () => {
    expect(split('one two\n\nthree four', 12)).toEqual(['one two', 'three four']);
    expect(split('one two\nthree four', 12)).toEqual(['one two', 'three four']);
    expect(split('one two three four', 14)).toEqual(['one two three', 'four']);
    expect(split('💥💥💥', 3)).toEqual(['💥', '💥', '💥']);
    expect(split(' \n ')).toEqual([]);
    expect(split('x'.repeat(4096))).toHaveLength(1);
    const pieces = split('x'.repeat(200_000));
    expect(pieces).toHaveLength(20);
    expect(pieces.every((piece) => piece.length <= 4096)).toBe(true);
    expect(pieces.at(-1)?.endsWith('…')).toBe(true);
  });
});

function settings(more: JsonObject): JsonObject {
  return { token: server.token, api_url: server.url, journal_dir: journal, ...more };
}

function request(more: JsonObject, event: JsonObject, rest: { idempotency_key?: string } = {}) {
  return { command: 'handle', config: settings(more), event, ...rest };
}

function message(text: string, more: JsonObject = {}) {
  return request({ chats: [1], ...more }, { type: 'x', payload: { message: text } });
}

function poll(more: JsonObject, state: JsonObject = {}) {
  return { command: 'poll', config: settings(more), state };
}

function makeUpdate(id: number, user: number, text: string, chat: number) {
  const words = { message_id: 100 + id, from: { id: user }, chat: { id: chat }, text };
  return { update_id: id, message: words };
}
