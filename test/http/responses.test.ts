/** Responses of the service: request ids, errors, methods, limits, and shutdown. */
import { request } from 'node:http';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { OWNER, startApi, type TestApi } from '../support/api-server.ts';
import { eventually } from '../support/instance.ts';

let api: TestApi;

beforeAll(async () => {
  api = await startApi({ api: { max_concurrent_sync: 1, max_sync_timeout: '50ms' } });
});

afterAll(async () => {
  await api.close();
});

describe('answers', () => {
  test('carry the caller’s id, or one of ours', async () => {
    const response = await api.ask('/jobs', { headers: { 'x-request-id': 'abc-123' } });
    expect(response.headers['x-request-id']).toBe('abc-123');
    for (const bad of ['a b', 'a'.repeat(200), '<x>']) {
      const { headers } = await api.ask('/jobs', { headers: { 'x-request-id': bad } });
      expect(headers['x-request-id']).toMatch(/^[0-9a-f-]{36}$/);
    }
  });

  test('are never kept, framed or guessed at', async () => {
    for (const path of ['/jobs', '/nowhere', '/healthz']) {
      expect((await api.ask(path)).headers).toMatchObject({
        'cache-control': 'no-store',
        'x-content-type-options': 'nosniff',
        'content-security-policy': expect.stringContaining("default-src 'none'"),
      });
    }
  });

  test('that are errors are problems with the words of the catalogue', async () => {
    const reply = await api.ask('/job/0199a1b2-0000-7000-8000-000000000000', {
      headers: { 'x-request-id': 'mine' },
    });
    expect(reply.headers['content-type']).toBe('application/problem+json');
    expect(reply.body).toEqual({
      type: 'urn:ductile:error:JOB_NOT_FOUND',
      title: 'Not Found',
      status: 404,
      detail: expect.any(String),
      error: expect.stringContaining('there is no job'),
      code: 'JOB_NOT_FOUND',
      place: '0199a1b2-0000-7000-8000-000000000000',
      hint: expect.any(String),
      retryable: false,
      request_id: 'mine',
      docs: '/docs/reference/errors#job_not_found',
    });
  });

  test('tell nothing of a defect but its id', async () => {
    const { engine } = api.server.instance;
    const status = engine.status.bind(engine);
    engine.status = () => {
      throw new TypeError('secret detail');
    };
    const reply = await api.ask('/healthz');
    engine.status = status;
    expect(reply).toMatchObject({ status: 500, body: { code: 'INTERNAL' } });
    expect(reply.text).not.toMatch(/secret detail|at .*\.ts/);
    const logged = api.records.find(({ level }) => level === 'error');
    expect(logged).toMatchObject({ request_id: reply.body['request_id'] });
  });
});

describe('a field that came twice is refused', () => {
  test.each([
    ['/system/pause?dry_run=true', { dry_run: false }],
    ['/job/0199a1b2/cancel', { id: '0199a1b3' }],
    ['/plugin/echo/poll?payload={}', { a: 1 }],
  ])('POST %s', async (path, body) => {
    const reply = await api.ask(path, { body: JSON.stringify(body) });
    expect(reply).toMatchObject({ status: 400, body: { code: 'INPUT_INVALID', place: 'body' } });
  });

  test('JSON in a query is read as strictly as a body', async () => {
    const long = `{"a":${'9'.repeat(1001)}}`;
    for (const json of ['{"a":1,"a":2}', long, '{"__proto__":1}']) {
      const path = `/plugin/echo/poll?context=${encodeURIComponent(json)}`;
      expect((await api.ask(path, { body: '{}' })).status).toBe(400);
    }
  });
});

describe('methods', () => {
  test.each([
    ['DELETE', '/jobs', 'GET, HEAD, OPTIONS'],
    ['POST', '/jobs', 'GET, HEAD, OPTIONS'],
    ['GET', '/plugin/echo/poll', 'POST, OPTIONS'],
    ['PUT', '/plugin/echo', 'GET, POST, HEAD, OPTIONS'],
  ])('%s %s is not possible', async (method, path, allow) => {
    const reply = await api.ask(path, { method });
    expect([reply.status, reply.headers.allow?.split(', ').sort()]).toEqual([
      405,
      allow.split(', ').sort(),
    ]);
  });

  test('OPTIONS names them', async () => {
    const reply = await api.ask('/jobs', { method: 'OPTIONS' });
    expect([reply.status, reply.headers.allow]).toEqual([204, 'GET, HEAD, OPTIONS']);
  });

  test('HEAD is GET without its body', async () => {
    const head = await api.ask('/plugins', { method: 'HEAD' });
    const get = await api.ask('/plugins');
    expect([head.status, head.text]).toEqual([200, '']);
    expect(head.headers['content-length']).toBe(get.headers['content-length']);
  });
});

describe('waiting', () => {
  test('is bounded by the configuration, in time and in number', async () => {
    const began = performance.now();
    const slow = api.ask('/plugin/sleeper/poll?wait=5m', { body: '' });
    const replies = await Promise.all([
      slow,
      api.ask('/plugin/sleeper/poll?wait=5m', { body: '' }),
    ]);
    expect(performance.now() - began).toBeLessThan(5000);
    const statuses = replies.map(({ status }) => status).sort((a, b) => a - b);
    expect(statuses).toEqual([202, 503]);
    const refused = replies.find(({ status }) => status === 503);
    expect(refused?.body).toMatchObject({ code: 'BUSY', place: 'api.max_concurrent_sync' });
    expect(refused?.headers['retry-after']).toBe('1');
    // A refused request has not been accepted either.
    const { body } = await api.ask('/jobs?plugin=sleeper');
    expect(body['total']).toBe(1);
  });
});

test('a caller that hangs up gives its place to the next, and finds its job under its key', async () => {
  const server = await startApi({ api: { max_concurrent_sync: 1, max_sync_timeout: '5m' } });
  onTestFinished(() => server.close());
  const outgoing = request({
    port: server.port,
    host: '127.0.0.1',
    method: 'POST',
    path: '/plugin/sleeper/poll?wait=5m',
    agent: false,
    headers: { authorization: `Bearer ${OWNER}`, 'idempotency-key': 'once' },
  });
  outgoing.on('error', () => undefined);
  outgoing.end();
  const jobs = async (): Promise<unknown[]> =>
    (await server.ask('/jobs?plugin=sleeper')).body['jobs'] as unknown[];
  await eventually('it was accepted', async () => (await jobs()).length === 1);
  const next = () => server.ask('/plugin/echo/poll?wait=10s', { body: '' });
  expect((await next()).body).toMatchObject({ code: 'BUSY' });
  outgoing.destroy();
  await eventually('there is room', async () => (await next()).status === 200);
  const { ledger } = server.server.instance.engine;
  const [job] = await ledger.jobs.list({ plugin: 'sleeper', limit: 2 });
  await server.ask(`/job/${job?.id}/cancel`, { body: '' });
  const again = await server.ask('/plugin/sleeper/poll?wait=5m', {
    body: '',
    headers: { 'idempotency-key': 'once' },
  });
  expect(again.body).toMatchObject({ job_id: job?.id, status: 'cancelled' });
  expect(await jobs()).toHaveLength(1);
});

test('a database that is away is 503, for reads and writes', async () => {
  const broken = await startApi();
  await broken.server.instance.engine.ledger.close();
  expect((await broken.ask('/jobs')).status).toBe(503);
  const reply = await broken.ask('/plugin/echo/poll', { body: '{}' });
  expect(reply).toMatchObject({ status: 503, body: { code: 'LEDGER_UNAVAILABLE' } });
  expect((await broken.ask('/healthz')).status).toBe(503);
  await broken.close().catch(() => undefined);
});
