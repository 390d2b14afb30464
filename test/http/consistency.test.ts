/** Rules that hold for the whole API: methods, locations, pages, keys, names of fields, streams. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { JsonObject } from '../../src/base/json.ts';
import { isOffered } from '../../src/operation/define.ts';
import { operations } from '../../src/operation/all.ts';
import { startApi, type TestApi } from '../support/api-server.ts';
import { eventually } from '../support/instance.ts';

const json = { 'content-type': 'application/json' };
let api: TestApi;

beforeAll(async () => {
  const slow = { name: 'slow', on: 'sleeper.poll', execution_mode: 'synchronous', timeout: '50ms' };
  api = await startApi({
    pipelines: [
      { ...slow, steps: [{ id: 'nap', uses: 'sleeper' }] },
      { name: 'quick', steps: [{ id: 'say', uses: 'echo' }] },
    ],
  });
});

afterAll(() => api.close());

const post = (path: string, body: JsonObject, headers = {}) =>
  api.ask(path, { body: JSON.stringify(body), headers: { ...json, ...headers } });

test('OPTIONS says without a token which methods a path has', async () => {
  const reply = await api.ask('/jobs', { method: 'OPTIONS', token: undefined });
  expect([reply.status, reply.headers.allow]).toEqual([204, 'GET, HEAD, OPTIONS']);
  expect((await api.ask('/nope', { method: 'OPTIONS', token: undefined })).status).toBe(401);
});

describe('Location', () => {
  test.each<[string, string, JsonObject, (body: Record<string, unknown>) => string]>([
    ['a job', '/plugin/echo/poll', {}, (body) => `/job/${String(body['job_id'])}`],
    ['a run', '/pipeline/quick?async=true', {}, (body) => `/runs/${String(body['run_id'])}`],
    [
      'a signal',
      '/signals',
      { type: 'a.b', source: 'test' },
      (body) => `/signals/${String(body['signal_id'])}`,
    ],
    [
      'a directive',
      '/directives',
      { type: 'system.resume', params: {} },
      (body) => `/directives/${String(body['directive_id'])}`,
    ],
    [
      'a webhook',
      '/webhooks',
      { id: 'located', title: 'L', plugin: 'echo', auth_mode: 'github' },
      () => '/webhooks/located',
    ],
  ])('leads to %s', async (_what, path, body, place) => {
    const reply = await post(path, body);
    expect([201, 202]).toContain(reply.status);
    expect(reply.headers.location).toBe(place(reply.body));
    expect((await api.ask(String(reply.headers.location))).status).toBe(200);
  });

  test('is the same for a request that is repeated with its key', async () => {
    const once = { 'idempotency-key': 'located-once' };
    const first = await post('/plugin/echo/poll', {}, once);
    const again = await post('/plugin/echo/poll', {}, once);
    expect(again.headers['idempotency-replayed']).toBe('true');
    expect(again.headers.location).toBe(first.headers.location);
  });

  test('is declared for every operation that makes or accepts something', () => {
    const makers = operations.flatMap(({ name, http }) =>
      isOffered(http) && (http.statuses ?? [200]).some((status) => status === 201 || status === 202)
        ? [[name, http.location] as const]
        : [],
    );
    const without = makers.filter(([, location]) => location === undefined).map(([name]) => name);
    // The token is in the response, and nothing shows it again.
    expect(without).toEqual(['tenant.token']);
  });
});

test('an Idempotency-Key means the same with and without quotes', async () => {
  const bare = await post('/plugin/echo/poll', {}, { 'idempotency-key': 'quoted-1' });
  const quoted = await post('/plugin/echo/poll', {}, { 'idempotency-key': '"quoted-1"' });
  expect(quoted.body['job_id']).toBe(bare.body['job_id']);
});

test('PATCH returns the changed resource', async () => {
  const made = { id: 'patched', title: 'Old', plugin: 'echo', auth_mode: 'github' };
  await post('/webhooks', made);
  const reply = await api.ask('/webhooks/patched', {
    method: 'PATCH',
    body: '{"title":"New"}',
    headers: json,
  });
  const shown = await api.ask('/webhooks/patched');
  expect(reply.body).toMatchObject({ title: 'New', changed: true, webhook_id: 'patched' });
  const { credentials: _, ...resource } = shown.body;
  expect(reply.body).toMatchObject(resource);
});

describe('lists', () => {
  const isList = (path: string): boolean =>
    /s$|\/queue$|\/history$|\/facts$/.test(path) && !/:id\/|status$|metrics$|\/events$/.test(path);

  test('all take a limit and a cursor', () => {
    const lists = operations.filter(
      ({ http, effect }) =>
        effect === 'read' && isOffered(http) && http.method === 'GET' && isList(http.path),
    );
    expect(lists.length).toBeGreaterThan(15);
    const without = lists.filter(
      ({ input }) => !('limit' in input.shape && 'cursor' in input.shape),
    );
    // The log of a process continues after `after`, and the lanes of a queue are a summary.
    expect(without.map(({ name }) => name)).toEqual(['system.logs', 'analytics.queue']);
  });

  test.each([
    ['/plugins', 'plugins', 'name'],
    ['/pipelines', 'pipelines', 'name'],
    ['/queue', 'jobs', 'job_id'],
    ['/webhooks', 'webhooks', 'webhook_id'],
  ])('%s can be read page by page', async (path, rows, key) => {
    await post('/webhooks', { id: 'one', title: 'L', plugin: 'echo', auth_mode: 'github' });
    await post('/webhooks', { id: 'two', title: 'L', plugin: 'echo', auth_mode: 'github' });
    await post('/plugin/echo/poll?delay=1h', {});
    await post('/plugin/echo/poll?delay=1h', {});
    await eventually('only delayed jobs are left, so that the queue stays as it is', async () => {
      const { ready, running } = await api.server.instance.engine.ledger.jobs.countQueue();
      return ready + running === 0;
    });
    const names = (body: Record<string, unknown>) =>
      (body[rows] as JsonObject[]).map((row) => row[key]);
    const all = names((await api.ask(path)).body);
    const read: unknown[] = [];
    for (let cursor: string | null = ''; cursor !== null;) {
      const from = cursor === '' ? '' : `&cursor=${cursor}`;
      const { status, body } = await api.ask(`${path}?limit=1${from}`);
      expect(status).toBe(200);
      read.push(...names(body));
      cursor = body['next_cursor'] as string | null;
    }
    expect(all.length).toBeGreaterThan(1);
    expect(read).toEqual(all);
  });
});

test.each(['/plugins', '/webhooks', '/config/history', '/queue'])(
  'a cursor that is none is refused by %s',
  async (path) => {
    const { status, body } = await api.ask(`${path}?cursor=no%20cursor`);
    expect([status, body['code'], body['place']]).toEqual([400, 'INPUT_INVALID', 'cursor']);
  },
);

describe('names of fields', () => {
  test('a step is `step` by its id in the pipeline, in jobs too', async () => {
    const { body } = await post('/pipeline/quick?wait=10s', {});
    const { body: job } = await api.ask(`/job/${String(body['job_id'])}`);
    expect(job).toMatchObject({ step: 'say', run_id: body['run_id'] });
  });

  test('a signal is `signal_id` among events, too', async () => {
    const { body } = await post('/signals', { type: 'named.signal', source: 'test' });
    const accept = { accept: 'application/json' };
    const { body: page } = await api.ask('/events?after=start&type=named.signal', {
      headers: accept,
    });
    expect(page['events']).toMatchObject([{ signal_id: body['signal_id'] }]);
  });
});

test('events can be streamed as `message`, which a browser gives to onmessage', async () => {
  await post('/signals', { type: 'plain.message', source: 'test' });
  const token = 'authorization: Bearer owner-token-0123456789abcdef';
  const request = (query: string) =>
    `GET /events?after=start&type=plain.message${query} HTTP/1.1\r\nhost: 127.0.0.1\r\n${token}\r\n\r\n`;
  expect(await api.raw(request(''), /plain\.message"/)).toContain('event: plain.message\n');
  const plain = await api.raw(request('&message=true'), /plain\.message"/);
  expect(plain).not.toContain('event:');
  expect(plain).toMatch(/\ndata: \{[^\n]*"type":"plain\.message"/);
});

test('a trigger that takes too long names the run', async () => {
  const { status, body } = await post('/trigger/sleeper/poll', {});
  const [run] = body['runs'] as JsonObject[];
  expect([status, body['timeout_exceeded'], body['run_id']]).toEqual([202, true, run?.['run_id']]);
  await post(`/job/${String(body['job_id'])}/cancel`, {});
  await post(`/runs/${String(body['run_id'])}/cancel`, {});
});

test('OpenAPI names its server, and an object in a query is JSON', async () => {
  const { body } = await api.ask('/openapi.json');
  expect(body['servers']).toEqual([{ url: '/' }]);
  const paths = body['paths'] as Record<string, Record<string, { parameters: JsonObject[] }>>;
  const parameters = paths['/plugin/echo/poll']?.['post']?.parameters ?? [];
  const context = parameters.find(({ name }) => name === 'context');
  expect(context).toMatchObject({
    content: { 'application/json': { schema: { type: 'object' } } },
  });
  expect(context).not.toHaveProperty('schema');
});

describe('CloudEvents', () => {
  const event = { specversion: '1.0', type: 'cloud.event', source: '/test' };
  const structured = { 'content-type': 'application/cloudevents+json' };
  const dataOf = async (reply: { body: Record<string, unknown> }) =>
    (await api.ask(`/signals/${String(reply.body['signal_id'])}`)).body['data'];

  test('may have no data, in the body or in headers', async () => {
    const whole = await post('/signals', { ...event, id: 'n1' }, structured);
    expect([whole.status, await dataOf(whole)]).toEqual([201, {}]);
    const binary = await api.ask('/signals', {
      method: 'POST',
      headers: {
        'ce-specversion': '1.0',
        'ce-type': 'cloud.event',
        'ce-source': '/t',
        'ce-id': 'n2',
      },
    });
    expect([binary.status, await dataOf(binary)]).toEqual([201, {}]);
  });

  test('may have data in Base64, which is read if it is JSON', async () => {
    const base64 = (text: string) => Buffer.from(text).toString('base64');
    const read = await post(
      '/signals',
      { ...event, id: 'b1', data_base64: base64('{"n":1}') },
      structured,
    );
    expect(await dataOf(read)).toEqual({ n: 1 });
    const other = { id: 'b2', datacontenttype: 'image/png', data_base64: base64('\u0089PNG') };
    const response = await post('/signals', { ...event, ...other }, structured);
    expect(await dataOf(response)).toEqual({
      data_base64: other.data_base64,
      datacontenttype: 'image/png',
    });
    for (const wrong of ['***', base64('{')]) {
      const refused = await post(
        '/signals',
        { ...event, id: 'b3', data_base64: wrong },
        structured,
      );
      expect([refused.status, refused.body['place']]).toEqual([400, 'data_base64']);
    }
  });

  test('may come as a batch', async () => {
    const batch = [
      { ...event, id: 'm1' },
      { ...event, id: 'm2', data: { n: 2 } },
    ];
    const reply = await api.ask('/signals', {
      body: JSON.stringify(batch),
      headers: { 'content-type': 'application/cloudevents-batch+json' },
    });
    expect(reply.body['signals']).toHaveLength(2);
  });
});
