/** Access to the API, and what a stranger can learn. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { limits } from '../../src/base/limits.ts';
import { isOffered } from '../../src/operation/define.ts';
import { operations } from '../../src/operation/all.ts';
import { OWNER, startApi, type TestApi } from '../support/api-server.ts';

const tokens = [
  { name: 'owner', token: OWNER, scopes: ['*'] },
  { name: 'reader', token: 'reader-token-000000', scopes: ['read:*'] },
  { name: 'echo', token: 'echo-token-000000000', scopes: ['echo:rw'] },
  { name: 'shy', token: 'shy-token-0000000000', scopes: ['plugin:rw', 'echo:deny:handle'] },
  {
    name: 'clerk',
    token: 'clerk-token-00000000',
    scopes: ['jobs:rw', 'plugin:rw', 'echo:deny:handle', 'echo:deny:init'],
  },
  { name: 'none', token: 'none-token-000000000', scopes: [] },
];

let api: TestApi;

beforeAll(async () => {
  api = await startApi({ api: { auth: { tokens, api_key: 'legacy-key-00000' } } });
});

afterAll(async () => {
  await api.close();
});

const open = [
  '/',
  '/healthz',
  '/plugins',
  '/skills',
  '/openapi.json',
  '/plugin/echo/openapi.json',
  '/.well-known/ai-plugin.json',
];

describe('a stranger', () => {
  test.each(open)('may read %s', async (path) => {
    expect((await api.ask(path, { token: undefined })).status).toBe(200);
    expect((await api.ask(path, { token: 'wrong' })).status).toBe(200);
  });

  test('sees of the plugins what could be used, and nothing about this machine', async () => {
    const { body, text } = await api.ask('/plugins', { token: undefined });
    expect(Object.keys(body)).toEqual(['plugins', 'next_cursor']);
    expect(body['plugins']).toMatchObject([
      { name: 'echo', version: '1.0.0', commands: ['poll', 'handle'] },
      { name: 'sleeper' },
      { name: 'teller' },
    ]);
    expect(text).not.toContain('/tmp');
    expect((await api.ask('/plugins')).body).toHaveProperty('problems');
  });

  const bad: readonly (readonly [string, Readonly<Record<string, string>>, string])[] = [
    ['none', {}, '/jobs'],
    ['an empty one', { authorization: 'Bearer ' }, '/jobs'],
    ['an unknown one', { authorization: 'Bearer nonsense' }, '/jobs'],
    ['another scheme', { authorization: `Basic ${OWNER}` }, '/jobs'],
    ['a long one', { authorization: `Bearer ${'a'.repeat(5000)}` }, '/jobs'],
    ['a near one', { authorization: `Bearer ${OWNER.slice(0, -1)}` }, '/jobs'],
    ['one with more behind it', { authorization: `Bearer ${OWNER} x` }, '/jobs'],
    ['one in the query', {}, `/jobs?token=${OWNER}`],
    ['one in the query of a stream', {}, `/events?token=${OWNER}`],
    ['none, at an unknown place', {}, '/nowhere'],
    ['none, for an unknown job', {}, '/job/0199a1b2-0000-7000-8000-000000000000'],
    ['none, for an unknown plugin', {}, '/plugin/nobody'],
  ];

  test('learns the same from every bad token', async () => {
    const bodies = new Set<string>();
    for (const [, headers, path] of bad) {
      const reply = await api.ask(path, { token: undefined, headers });
      expect(reply.headers['www-authenticate']).toBe('Bearer realm="ductile"');
      const { request_id: _, ...rest } = reply.body;
      bodies.add(JSON.stringify([reply.status, rest]));
    }
    expect([...bodies]).toHaveLength(1);
    expect([...bodies][0]).toContain('401');
  });

  test('is refused with two tokens', async () => {
    const lines = ['GET /jobs HTTP/1.1', 'host: localhost', `authorization: Bearer ${OWNER}`];
    const rawText = await api.raw(`${[...lines, lines[2]].join('\r\n')}\r\n\r\n`, /\}\n$/);
    expect(rawText).toMatch(/^HTTP\/1\.1 401/);
  });

  test('is refused before the body is read', async () => {
    const reply = await api.ask('/plugin/echo/poll', { token: undefined, body: '{"a":' });
    expect(reply.status).toBe(401);
  });
});

describe('a token', () => {
  const run = (token: string, path: string): Promise<number> =>
    api.ask(path, { token, body: '' }).then(({ status }) => status);

  test.each([
    ['reader-token-000000', '/plugin/echo/poll', 202],
    ['reader-token-000000', '/plugin/echo/handle', 403],
    ['echo-token-000000000', '/plugin/echo/handle', 202],
    ['echo-token-000000000', '/plugin/teller/poll', 403],
    ['echo-token-000000000', '/plugin/nobody/poll', 403],
    ['shy-token-0000000000', '/plugin/echo/poll', 202],
    ['shy-token-0000000000', '/plugin/echo/handle', 403],
    ['none-token-000000000', '/plugin/echo/poll', 403],
    ['legacy-key-00000', '/plugin/echo/handle', 202],
    [OWNER, '/plugin/nobody/poll', 404],
    [OWNER, '/plugin/echo/dance', 404],
    [OWNER, '/trigger/echo/poll', 202],
  ])('%s at POST %s: %d', async (token, path, status) => {
    expect(await run(token, path)).toBe(status);
  });

  test('without scopes reaches only what is open, in every operation', async () => {
    const segments: Readonly<Record<string, string>> = {
      plugin: 'echo',
      command: 'poll',
      kind: 'job',
    };
    for (const { http, scope, name } of operations) {
      if (!isOffered(http)) continue;
      const path = http.path.replaceAll(
        /:(\w+)\??/g,
        (_, field: string) => segments[field] ?? '0199a1b2',
      );
      const reply = await api.ask(path, {
        method: http.method,
        token: 'none-token-000000000',
        headers: { accept: 'application/json' },
        ...(http.method === 'POST' ? { body: '{}' } : {}),
      });
      // Some inputs are invalid, which is detected before the permission is checked.
      const expected = scope === undefined ? [200, 503] : [403, 400, 404];
      expect([name, expected.includes(reply.status)]).toEqual([name, true]);
      if (scope !== undefined && reply.status !== 403) {
        expect([name, reply.body['code']]).toEqual([name, 'INPUT_INVALID']);
      }
    }
  });

  test('does not run what is denied to it by way of something else', async () => {
    const made = await api.ask('/plugin/echo/handle', { body: '{}' });
    const id = String(made.body['job_id']);
    await api.server.instance.engine.waitFor(id, 10_000);
    const asClerk = (path: string, body: object) =>
      api.ask(path, { token: 'clerk-token-00000000', body: JSON.stringify(body) });
    const ways: readonly (readonly [string, object])[] = [
      [`/job/${id}/retry`, {}],
      [`/job/${id}/retry?dry_run=true`, {}],
      ['/jobs/retry', { status: ['succeeded'] }],
      ['/jobs/retry', { plugin: 'echo' }],
      ['/jobs/retry', { command: 'handle' }],
      ['/plugins/echo/init', {}],
      ['/directives', { type: 'job.retry', params: { job_id: id } }],
      ['/directives', { type: 'job.retry', params: { plugin: 'echo', command: 'handle' } }],
      ['/directives', { type: 'plugin.init', params: { plugin: 'echo' } }],
      ['/trigger/echo/handle', {}],
    ];
    for (const [path, body] of ways) {
      const { status } = await asClerk(path, body);
      expect([path, body, status]).toEqual([path, body, 403]);
    }
    expect((await asClerk('/jobs/retry', { plugin: 'echo', command: 'poll' })).status).toBe(200);
    expect((await asClerk('/jobs/cancel', { plugin: 'echo' })).status).toBe(200);
  });

  test('asks for no directive that its scopes do not cover', async () => {
    for (const type of ['token.create', 'job.cancel', 'plugin.disable', 'nonsense']) {
      const body = JSON.stringify({ type, params: {} });
      const reply = await api.ask('/directives', { token: 'echo-token-000000000', body });
      expect([type, reply.status]).toEqual([type, 403]);
    }
  });

  test('is named in the job, and never in the log', async () => {
    const { body } = await api.ask('/plugin/echo/poll', {
      token: 'echo-token-000000000',
      body: '',
    });
    const job = await api.ask(`/job/${String(body['job_id'])}`);
    expect(job.body).toMatchObject({ actor: 'token:echo', submitted_by: 'api' });
    expect(JSON.stringify(api.records)).not.toContain('echo-token-000000000');
  });
});

test('guesses are throttled after a while; a known token is not', async () => {
  const guessed = await startApi({ api: { auth: { tokens } } });
  const guess = (path: string) => guessed.ask(path, { token: 'a-guess' });
  expect((await guessed.ask('/jobs')).status).toBe(200);
  const responses = await Promise.all(
    Array.from({ length: 2 * limits.wrongTokensMax }, () => guess('/jobs')),
  );
  const refused = responses.find(({ status }) => status === 429);
  if (refused === undefined) throw new Error('nobody was stopped');
  expect(responses.filter(({ status }) => status === 401).length).toBeGreaterThan(0);
  expect(refused.body['code']).toBe('TRIES_SPENT');
  expect(refused.headers['retry-after']).toBe('1');
  expect((await guess('/healthz')).status).toBe(200);
  expect((await guessed.ask('/jobs')).status).toBe(200);
  await guessed.close();
});

test('discovery can be closed; health stays open', async () => {
  const closed = await startApi({ api: { discovery: 'token', auth: { tokens } } });
  for (const path of open) {
    const { status } = await closed.ask(path, { token: undefined });
    expect([path, status]).toEqual([path, path === '/healthz' ? 200 : 401]);
    expect((await closed.ask(path, { token: 'none-token-000000000' })).status).toBe(200);
  }
  await closed.close();
});

describe('web pages', () => {
  let web: TestApi;
  beforeAll(async () => {
    web = await startApi({ api: { allowed_origins: ['https://board.example'], auth: { tokens } } });
  });
  afterAll(async () => {
    await web.close();
  });

  const preflight = (origin: string) =>
    web.ask('/jobs', {
      method: 'OPTIONS',
      token: undefined,
      headers: { origin, 'access-control-request-method': 'GET' },
    });

  test('from a listed origin may send requests and read responses', async () => {
    const before = await preflight('https://board.example');
    expect(before.status).toBe(204);
    expect(before.headers['access-control-allow-origin']).toBe('https://board.example');
    expect(before.headers['access-control-allow-headers']).toContain('authorization');
    const reply = await web.ask('/jobs', { headers: { origin: 'https://board.example' } });
    expect(reply.headers['access-control-allow-origin']).toBe('https://board.example');
  });

  test('from other origins read nothing', async () => {
    expect((await preflight('https://evil.example')).status).toBe(403);
    const reply = await web.ask('/jobs', { headers: { origin: 'https://evil.example' } });
    expect(reply.headers['access-control-allow-origin']).toBeUndefined();
  });

  test('make the host of their origin a name of this server', async () => {
    expect((await web.ask('/healthz', { headers: { host: 'board.example' } })).status).toBe(200);
    expect((await web.ask('/healthz', { headers: { host: 'evil.example' } })).status).toBe(421);
  });
});

test('a token is not made with a slip in its scopes', async () => {
  const make = (scope: string) =>
    api.ask('/tokens', {
      method: 'POST',
      body: JSON.stringify({ name: 'slip', scopes: ['plugin:rw', scope] }),
    });
  expect(await make('echo:deny:handel')).toMatchObject({
    status: 400,
    body: { code: 'INPUT_INVALID', place: 'scopes', hint: 'Did you mean handle?' },
  });
  expect(await make('ecko:rw')).toMatchObject({
    status: 400,
    body: { detail: expect.stringContaining('no plugin is configured as ecko') },
  });
  expect(await make('echo:deny:handle')).toMatchObject({ status: 201 });
});
