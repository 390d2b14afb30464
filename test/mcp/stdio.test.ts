/** Agents over standard input and output: the program itself, with the official client. */
import { spawn } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { text } from 'node:stream/consumers';
import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { OWNER, startApi, type TestApi } from '../support/api-server.ts';
import { makeDirectory } from '../support/directory.ts';
import { makePlace } from '../support/instance.ts';
import { toAgent, type Agent } from '../support/mcp-client.ts';
import { shell, succeeds } from '../support/plugin-program.ts';

const main = resolve(import.meta.dirname, '../../src/main.ts');
const notesRequest = shell(`cat > ../../asked; echo '{"status":"ok","result":"done"}'`);
const READER = 'reader-token-0123456789abcdef';

async function start(...args: readonly string[]): Promise<Agent> {
  const home = await makeDirectory();
  const transport = new StdioClientTransport({
    command: process.execPath,
    args: [main, 'mcp', ...args],
    env: { HOME: home, PATH: process.env['PATH'] ?? '' },
    stderr: 'inherit',
  });
  const client = new Client({ name: 'test', version: '1.0.0' });
  await client.connect(transport);
  onTestFinished(() => client.close());
  return toAgent(client);
}

test('the server can create a configuration if there is none, and says so', async () => {
  const agent = await start();
  const { data } = await agent.call('job_list');
  expect(data['error']).toMatchObject({ code: 'CONFIG_NOT_FOUND' });
  const directory = join(await makeDirectory(), 'new');
  const made = await agent.call('config_init', { directory, api: false });
  expect(made.data['answer']).toMatchObject({ directory, token: null });
});

test('a client that closes its end after a request still gets the response', async () => {
  expect(await askAndClose()).toMatchObject([{ id: 1 }, { id: 2, result: { isError: true } }]);
});

test('a number that a double can’t hold reaches the plugin, and lines that aren’t JSON are skipped', async () => {
  const { directory } = await makePlace({
    plugins: { echo: { program: notesRequest, commands: '{poll: {type: read}}' } },
  });
  const input = '{"payload":{"id":12345678901234567890}}';
  const call = `{"name":"run_echo_poll","arguments":${input}}`;
  const answers = await askAndClose(['--config', directory], (lines) => [
    ...lines.slice(0, 2),
    'not JSON',
    `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":${call}}`,
  ]);
  expect(answers).toMatchObject([{ id: 1 }, { id: 2 }]);
  expect(await readFile(join(directory, 'asked'), 'utf8')).toContain('"id":12345678901234567890');
});

/** The responses to a client that sends everything at once and reads to the end. */
async function askAndClose(
  args: readonly string[] = [],
  change = (lines: readonly string[]): readonly string[] => lines,
): Promise<unknown[]> {
  const child = spawn(process.execPath, [main, 'mcp', ...args], {
    env: { HOME: await makeDirectory(), PATH: process.env['PATH'] ?? '' },
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const clientInfo = { name: 'test', version: '1.0.0' };
  const hello = { protocolVersion: '2025-06-18', capabilities: {}, clientInfo };
  const messages = [
    { id: 1, method: 'initialize', params: hello },
    { method: 'notifications/initialized' },
    { id: 2, method: 'tools/call', params: { name: 'job_list', arguments: {} } },
  ];
  const sent = messages.map((one) => JSON.stringify({ jsonrpc: '2.0', ...one }));
  child.stdin.end(`${change(sent).join('\n')}\n`);
  const lines = (await text(child.stdout)).trim().split('\n');
  return lines.map((line): unknown => JSON.parse(line));
}

test('the ledger is opened for each request if no service runs', async () => {
  const { directory } = await makePlace({
    plugins: { echo: { program: succeeds, commands: '{poll: {type: read}}' } },
  });
  const agent = await start('--config', directory);
  const names = await agent.names();
  expect(names).toEqual(
    expect.arrayContaining(['run_echo_poll', 'config_check', 'job_list', 'expand']),
  );
  expect(new Set(names).size).toBe(names.length);
  const ran = await agent.call('run_echo_poll');
  expect(ran.data['answer']).toMatchObject({ status: 'succeeded', submitted_by: 'cli' });
  const listed = await agent.call('job_list');
  expect(listed.data['answer']).toMatchObject({ total: 1 });
  const again = await agent.call('job_list', { changed_since: listed.data['seen'] ?? '' });
  expect(again.data['answer']).toEqual({ unchanged: true });
  expect((await agent.call('config_check')).data['answer']).toMatchObject({ valid: true });
  const keyed = await agent.call('run_echo_poll', { idempotency_key: 'k' });
  expect(keyed.data['error']).toMatchObject({ code: 'INPUT_INVALID', place: 'idempotency_key' });
});

describe('with a server', () => {
  let api: TestApi;
  beforeAll(async () => {
    const tokens = [
      { name: 'owner', token: OWNER, scopes: ['*'] },
      { name: 'reader', token: READER, scopes: ['jobs:ro'] },
    ];
    api = await startApi({ api: { auth: { tokens } } });
  });
  afterAll(() => api.close());

  test('it is called over its socket, as the local operator', async () => {
    const agent = await start('--config', api.server.instance.config.directory, '--readonly');
    const names = await agent.names();
    expect(names).toEqual(
      expect.arrayContaining(['run_echo_poll', 'config_check', 'system_status']),
    );
    expect(names).not.toContain('run_echo_handle');
    const ran = await agent.call('run_echo_poll');
    expect(ran.data['answer']).toMatchObject({
      status: 'succeeded',
      actor: expect.stringMatching(/^cli:/),
    });
    expect((await agent.call('system_pause')).data['error']).toMatchObject({ code: 'FORBIDDEN' });
    await agent.call('run_echo_poll');
    const cut = await agent.call('job_list', { budget: 1000 });
    const [{ handle }] = cut.data['cut'] as [{ handle: string }];
    expect((await agent.call('expand', { handle })).data).toHaveProperty('part');
  });

  test('its responses are waited for, even by a client that has closed its end', async () => {
    const answers = await askAndClose(['--config', api.server.instance.config.directory]);
    expect(answers).toMatchObject([{ id: 1 }, { id: 2, result: { content: [{ type: 'text' }] } }]);
    expect(answers).not.toMatchObject([{}, { result: { isError: true } }]);
  });

  test('a remote service is called with a token, and nothing runs here', async () => {
    const agent = await start(
      '--url',
      `http://127.0.0.1:${api.port}`,
      '--token',
      READER,
      '--only',
      'job',
    );
    const names = await agent.names();
    expect(names.toSorted()).toEqual([
      'expand',
      'job_inspect',
      'job_list',
      'job_logs',
      'job_tree',
      'job_wait',
    ]);
    expect((await agent.call('job_list')).isError).toBe(false);
    expect((await agent.call('config_check')).data['error']).toMatchObject({
      code: 'TOOL_NOT_FOUND',
    });
    const stranger = await start('--url', `http://127.0.0.1:${api.port}`, '--token', 'wrong');
    expect((await stranger.call('job_list')).data['error']).toMatchObject({
      code: 'UNAUTHORIZED',
      fix: expect.stringContaining('DUCTILE_TOKEN'),
    });
    await expect(stranger.names()).rejects.toThrow('a valid token is needed');
  });
});
