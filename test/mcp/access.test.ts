/** Access to the MCP endpoint. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startApi, type RequestOptions, type Reply, type TestApi } from '../support/api-server.ts';
import { readData } from '../support/mcp-client.ts';

let api: TestApi;
beforeAll(async () => {
  api = await startApi({
    api: { allowed_origins: ['https://panel.example'] },
    tenants: { trust: 'shared' },
  });
});
afterAll(() => api.close());

function message(method: string, params: object = {}): string {
  return JSON.stringify({ jsonrpc: '2.0', id: 1, method, params });
}

const ACCEPT = { accept: 'application/json, text/event-stream' };

function post(body: string, how: RequestOptions = {}): Promise<Reply> {
  return api.ask('/mcp', { body, ...how, headers: { ...ACCEPT, ...how.headers } });
}

const LIST = message('tools/list');

describe('access', () => {
  test('a request without a valid token is refused', async () => {
    for (const token of [undefined, 'wrong-token']) {
      expect(await post(LIST, { token })).toMatchObject({
        status: 401,
        body: { code: 'UNAUTHORIZED' },
      });
      expect((await api.ask('/mcp', { token })).status).toBe(401);
    }
    expect((await post(LIST)).status).toBe(200);
  });

  test('no page of an origin that was not let in', async () => {
    const from = (origin: string) => post(LIST, { headers: { origin } });
    expect(await from('https://evil.example')).toMatchObject({
      status: 403,
      body: { code: 'FORBIDDEN' },
    });
    expect((await from('null')).status).toBe(403);
    expect(await from('https://panel.example')).toMatchObject({
      status: 200,
      headers: { 'access-control-allow-origin': 'https://panel.example' },
    });
    const preflight = await api.ask('/mcp', {
      method: 'OPTIONS',
      token: undefined,
      headers: {
        origin: 'https://panel.example',
        'access-control-request-method': 'POST',
        'access-control-request-headers': 'mcp-protocol-version',
      },
    });
    expect(preflight.status).toBe(204);
    expect(preflight.headers['access-control-allow-headers']).toContain('mcp-protocol-version');
  });

  test('each tenant has its own ledger, and no response reaches another', async () => {
    const token = async (slug: string): Promise<string> => {
      const { body } = await api.ask('/tenants', { body: JSON.stringify({ slug }) });
      return String(body['token']);
    };
    const [one, two] = [await token('one'), await token('two')];
    const call = async (as: string, name: string, given: object) => {
      const { body } = await post(message('tools/call', { name, arguments: given }), { token: as });
      const { content } = body['result'] as { content: [{ text: string }] };
      return readData(content[0].text);
    };
    const type = 'thing.happened';
    await call(one, 'signal_emit', { type, source: 'test', data: { mine: 'x'.repeat(5000) } });
    const own = await call(one, 'signal_list', { budget: 1000 });
    const [{ handle }] = own['cut'] as [{ handle: string }];
    expect(await call(one, 'expand', { handle })).toHaveProperty('part');
    expect(await call(two, 'expand', { handle })).toMatchObject({
      error: { code: 'HANDLE_NOT_FOUND' },
    });
    expect(await call(two, 'signal_list', { type })).toMatchObject({ answer: { signals: [] } });
    // Tools about the whole process aren't even offered.
    const { text } = await post(LIST, { token: one });
    expect(text).toContain('"signal_list"');
    for (const name of ['system_reload', 'tenant_list']) expect(text).not.toContain(`"${name}"`);
  });
});

describe('a request', () => {
  test('a message in a POST, and nothing else', async () => {
    for (const method of ['GET', 'DELETE', 'PUT']) {
      expect(await api.ask('/mcp', { method, headers: ACCEPT })).toMatchObject({
        status: 405,
        headers: { allow: 'POST, OPTIONS' },
      });
    }
    const refused: readonly (readonly [string, number])[] = [
      ['', 400],
      ['nonsense', 400],
      [`[${LIST},${LIST}]`, 400],
      ['"text"', 400],
    ];
    for (const [body, status] of refused)
      expect([body, (await post(body)).status]).toEqual([body, status]);
    expect((await post('x'.repeat(3 * 1024 * 1024))).status).toBe(413);
    expect((await post(LIST, { headers: { 'content-type': 'text/plain' } })).status).toBe(415);
    expect((await api.ask('/mcp?readonly=maybe', { body: LIST, headers: ACCEPT })).status).toBe(
      400,
    );
    expect((await api.ask('/mcp?nonsense=1', { body: LIST, headers: ACCEPT })).status).toBe(400);
  });

  test("a method that the protocol doesn't have here is refused, and no stream stays open", async () => {
    for (const method of ['subscriptions/listen', 'resources/list', 'nonsense']) {
      expect((await post(message(method))).body).toMatchObject({ error: { code: -32601 } });
    }
    const meta = {
      'io.modelcontextprotocol/protocolVersion': '2026-07-28',
      'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1' },
      'io.modelcontextprotocol/clientCapabilities': {},
    };
    const now = (method: string, params: object = {}) =>
      post(message(method, { ...params, _meta: meta }), {
        headers: { 'mcp-protocol-version': '2026-07-28', 'mcp-method': method },
      });
    expect((await now('tools/list')).body).toHaveProperty('result.tools');
    const listen = await now('subscriptions/listen', { notifications: { toolsListChanged: true } });
    expect(listen.text).toContain('"error"');
  });

  test('a handshake of an older client is answered, and keeps nothing', async () => {
    const params = {
      protocolVersion: '2025-06-18',
      capabilities: {},
      clientInfo: { name: 't', version: '1' },
    };
    const { body, headers } = await post(message('initialize', params));
    expect(body).toMatchObject({
      result: { protocolVersion: '2025-06-18', serverInfo: { name: 'ductile' } },
    });
    expect(headers['mcp-session-id']).toBeUndefined();
    const note = JSON.stringify({ jsonrpc: '2.0', method: 'notifications/initialized' });
    expect((await post(note)).status).toBe(202);
  });
});
