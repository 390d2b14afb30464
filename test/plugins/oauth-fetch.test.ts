import { beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { JsonObject } from '../../src/base/json.ts';
import { runError, runOk, type RequestParts } from '../support/plugin-process.ts';
import { startWebServer, type ReceivedRequest, type WebServer } from '../support/web-server.ts';

/** An authorization server that rotates its refresh token, and an API that knows its tokens. */
let server: WebServer;
let serial: number;
let valid: Set<string>;
let apiStatus: number;
let apiBody: string;
let tokenAnswer: { status: number; body: string } | undefined;

beforeAll(async () => {
  server = await startWebServer((request, response) => {
    const { status, body } = request.path === '/token' ? grant() : serve(request);
    const headers = { 'content-type': 'application/json', 'retry-after': '40' };
    response.writeHead(status, headers).end(body);
  });
});

beforeEach(() => {
  server.received.length = 0;
  serial = 0;
  valid = new Set();
  apiStatus = 200;
  apiBody = '{"steps":4211}';
  tokenAnswer = undefined;
});

describe('oauth-fetch', () => {
  test('gets a token with the first refresh token, uses it and keeps both', async () => {
    const { events, stateUpdates } = await runOk('oauth-fetch', poll());
    expect(events).toMatchObject([
      {
        type: 'oauth-fetch.data',
        payload: { status: 200, content_type: 'application/json', data: { steps: 4211 } },
      },
    ]);
    expect(stateUpdates).toEqual({
      access_token: 'access-1',
      refresh_token: 'refresh-1',
      token_expiry: expect.stringMatching(/^\d{4}-.*\.\d{3}Z$/),
      refresh_seed: expect.stringMatching(/^[0-9a-f]{16}$/),
      is_refused: false,
    });
    const [token, api] = server.received;
    expect(token).toMatchObject({
      method: 'POST',
      headers: { authorization: `Basic ${Buffer.from('id%3A1:s%26cret').toString('base64')}` },
    });
    expect(Object.fromEntries(new URLSearchParams(token?.body))).toEqual({
      grant_type: 'refresh_token',
      refresh_token: 'first',
    });
    expect(api?.headers.authorization).toBe('Bearer access-1');
  });

  test.each([
    ['token_url', {}],
    ['api_url', { refresh_token: null }],
  ])('does not reach %s on this machine without permission', async (key, more) => {
    const state = key === 'api_url' ? { access_token: 'a', refresh_token: 'first' } : {};
    const config = { allow_private: false, ...more };
    const { error, retry } = await runError('oauth-fetch', poll(state, config));
    expect(error).toContain('127.0.0.1, which must not be reached');
    expect(retry).toBe(false);
    expect(server.received).toEqual([]);
  });

  test('uses a token as long as it is valid and does not touch the state', async () => {
    const state = await firstState();
    const { stateUpdates, events } = await runOk('oauth-fetch', poll(state));
    expect(stateUpdates).toBeUndefined();
    expect(events).toHaveLength(1);
    expect(server.received.map(({ path }) => path)).toEqual(['/api']);
  });

  test('refreshes an expired token with the rotated refresh token', async () => {
    const state = { ...(await firstState()), token_expiry: '2026-01-01T00:00:00.000Z' };
    const { stateUpdates } = await runOk('oauth-fetch', poll(state));
    expect(new URLSearchParams(server.received[0]?.body).get('refresh_token')).toBe('refresh-1');
    expect(stateUpdates).toMatchObject({ access_token: 'access-2', refresh_token: 'refresh-2' });
  });

  test('refreshes once when the API refuses a token that looks valid', async () => {
    const state = await firstState();
    valid.clear();
    const { events, stateUpdates } = await runOk('oauth-fetch', poll(state));
    expect(server.received.map(({ path }) => path)).toEqual(['/api', '/token', '/api']);
    expect(events).toHaveLength(1);
    expect(stateUpdates).toMatchObject({ access_token: 'access-2', is_refused: false });
  });

  test('does not lose new tokens when the API fails after the refresh', async () => {
    apiStatus = 503;
    const { events, stateUpdates, logs } = await runOk('oauth-fetch', poll());
    expect(events).toEqual([]);
    expect(stateUpdates).toMatchObject({ access_token: 'access-1', refresh_token: 'refresh-1' });
    expect(logs).toMatchObject([{ level: 'error', message: expect.stringContaining('503') }]);
    const again = await runError('oauth-fetch', poll(stateUpdates));
    expect(again).toMatchObject({ retry: true, retryAfterMs: 40_000 });
  });

  test('fails, and stops refreshing, when the API refuses even a new token', async () => {
    apiStatus = 401;
    const { stateUpdates } = await runOk('oauth-fetch', poll());
    expect(stateUpdates).toMatchObject({ is_refused: true });
    server.received.length = 0;
    const { error, retry } = await runError('oauth-fetch', poll(stateUpdates));
    expect(error).toBe('config.api_url answered 401');
    expect(retry).toBe(false);
    expect(server.received.map(({ path }) => path)).toEqual(['/api']);
    apiStatus = 200;
    expect((await runOk('oauth-fetch', poll(stateUpdates))).stateUpdates).toMatchObject({
      is_refused: false,
    });
  });

  test('requests a new refresh token when the old one is refused, and uses it', async () => {
    const state = { ...(await firstState()), token_expiry: '2026-01-01T00:00:00.000Z' };
    tokenAnswer = {
      status: 400,
      body: '{"error":"invalid_grant","error_description":"refresh-1 is dead"}',
    };
    const { error, retry } = await runError('oauth-fetch', poll(state));
    expect(error).toContain('invalid_grant');
    expect(error).toContain('config.refresh_token');
    expect(error).not.toContain('refresh-1');
    expect(retry).toBe(false);
    tokenAnswer = undefined;
    server.received.length = 0;
    await runOk('oauth-fetch', poll(state, { refresh_token: 'second' }));
    expect(new URLSearchParams(server.received[0]?.body).get('refresh_token')).toBe('second');
  });

  test.each([
    [{ status: 503, body: 'down' }, true],
    [{ status: 200, body: '{}' }, false],
    [{ status: 200, body: 'not json' }, false],
    [{ status: 200, body: '{"access_token":"bad\\r\\ntoken"}' }, false],
    [{ status: 302, body: '' }, false],
  ])('reports a token endpoint that answers %j', async (answer, retry) => {
    tokenAnswer = answer;
    const failed = await runError('oauth-fetch', poll());
    const retryAfterMs = retry ? 40_000 : undefined;
    const error = expect.stringContaining('config.token_url');
    expect(failed).toMatchObject({ error, retry, retryAfterMs });
    expect(server.received.map(({ path }) => path)).toEqual(['/token']);
  });

  test("keeps a response that isn't JSON, or that a ledger can't store, as text", async () => {
    for (const body of [
      '<p>hello</p>',
      '{"a":"\\u0000"}',
      '{"a":NaN}',
      `${'['.repeat(99)}${']'.repeat(99)}`,
    ]) {
      apiBody = body;
      expect((await runOk('oauth-fetch', poll())).events[0]?.payload).toMatchObject({ body });
    }
  });

  test('refuses an answer that is larger than the limit', async () => {
    const state = await firstState();
    apiBody = JSON.stringify('x'.repeat(2000));
    const { error } = await runError('oauth-fetch', poll(state, { max_bytes: 1000 }));
    expect(error).toContain('config.max_bytes');
  });

  test('sends the secret in the body when the server wants it there', async () => {
    await runOk('oauth-fetch', poll({}, { client_auth: 'body', scope: 'read write' }));
    expect(server.received[0]?.headers.authorization).toBeUndefined();
    expect(Object.fromEntries(new URLSearchParams(server.received[0]?.body))).toMatchObject({
      client_id: 'id:1',
      client_secret: 's&cret',
      scope: 'read write',
    });
  });

  test.each<[string, JsonObject]>([
    ['config.token_url must be https', { token_url: 'http://example.com/token' }],
    ['config.api_url must be https', { api_url: 'http://example.com/api' }],
    ['config.api_url must be an http', { api_url: 'file:///etc/passwd' }],
    ['config.client_secret', { client_secret: '' }],
    ['config.client_auth', { client_auth: 'none' }],
    ['config.refresh_token is needed', { refresh_token: null }],
    ['config.headers', { headers: { authorization: 'Basic x' } }],
  ])('calls it a configuration error: %s', async (message, config) => {
    const { code, error } = await runError('oauth-fetch', poll({}, config));
    expect(error).toContain(message);
    expect(code).toBe(78);
  });

  test('starts again from a state that it did not write', async () => {
    const state = { access_token: 3, refresh_token: ['x'], token_expiry: {}, refresh_seed: null };
    const { stateUpdates } = await runOk('oauth-fetch', poll(state));
    expect(stateUpdates).toMatchObject({ access_token: 'access-1' });
  });
});

function grant(): { status: number; body: string } {
  if (tokenAnswer !== undefined) return tokenAnswer;
  serial += 1;
  valid.add(`Bearer access-${serial}`);
  const body = {
    access_token: `access-${serial}`,
    refresh_token: `refresh-${serial}`,
    expires_in: 3600,
  };
  return { status: 200, body: JSON.stringify(body) };
}

function serve({ headers }: ReceivedRequest): { status: number; body: string } {
  if (!valid.has(headers.authorization ?? '')) return { status: 401, body: '{}' };
  return { status: apiStatus, body: apiBody };
}

function poll(state: JsonObject = {}, config: JsonObject = {}): RequestParts {
  return {
    command: 'poll',
    state,
    config: {
      client_id: 'id:1',
      client_secret: 's&cret',
      token_url: `${server.url}/token`,
      api_url: `${server.url}/api`,
      refresh_token: 'first',
      allow_private: true,
      ...config,
    },
  };
}

async function firstState(): Promise<JsonObject> {
  const { stateUpdates } = await runOk('oauth-fetch', poll());
  server.received.length = 0;
  return stateUpdates ?? {};
}
