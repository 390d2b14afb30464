/** No request may block others: its cost is limited before it is parsed. */
import { once } from 'node:events';
import { request, type ClientRequest, type IncomingMessage } from 'node:http';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { describeUnsafeJson, parseStrictJson } from '../../src/base/json.ts';
import { limits } from '../../src/base/limits.ts';
import * as z from 'zod';
import { describeIssues } from '../../src/config/issues.ts';
import { OWNER, startApi, type TestApi } from '../support/api-server.ts';
import { makeTenant } from '../support/tenants.ts';

const NONE = 'none-token-000000000';
const JOBS = 'jobs-token-000000000';
const tokens = [
  { name: 'owner', token: OWNER, scopes: ['*'] },
  { name: 'none', token: NONE, scopes: [] },
  { name: 'jobs', token: JOBS, scopes: ['jobs:rw'] },
];
const wideList = (count: number): string => `[${'1,'.repeat(count - 1)}1]`;

let api: TestApi;

beforeAll(async () => {
  api = await startApi({
    api: { auth: { tokens }, trusted_proxies: ['127.0.0.1'] },
    tenants: { trust: 'shared' },
  });
});

afterAll(async () => {
  await api.close();
});

describe('rights are checked before the body is parsed', () => {
  test.each([
    ['/plugin/echo/poll', NONE],
    ['/plugin/echo', JOBS],
    ['/trigger/echo/poll', JOBS],
    ['/system/pause', JOBS],
    ['/directives', NONE],
    ['/pipelines/any/test', NONE],
    ['/tenants', JOBS],
  ])('POST %s', async (path, token) => {
    const reply = await api.ask(path, { token, body: '{"not json' });
    expect([path, reply.status, reply.body['code']]).toEqual([path, 403, 'FORBIDDEN']);
  });

  test('a token of a tenant, at what is for the operator alone', async () => {
    const { token } = await makeTenant(api);
    const reply = await api.ask('/tenants', { token, body: '{"not json' });
    expect(reply).toMatchObject({ status: 403, body: { code: 'FORBIDDEN' } });
  });

  test('a command in the query decides like one in the path', async () => {
    const ask = (query: string) =>
      api.ask(`/plugin/echo${query}`, { token: OWNER, body: '{"not json' });
    expect((await ask('?command=poll')).status).toBe(400);
    const denied = await api.ask('/plugin/echo?command=handle', { token: JOBS, body: '{"a' });
    expect(denied.status).toBe(403);
  });
});

describe('a body with very many values', () => {
  test('is refused with the limit that it exceeds', async () => {
    const list = `{"payload":{"list":${wideList(limits.jsonElementsMax + 1)}}}`;
    const reply = await api.ask('/plugin/echo/poll', { body: list });
    expect(reply).toMatchObject({ status: 400, body: { code: 'INPUT_INVALID' } });
    expect(reply.body['error']).toContain(`more than ${limits.jsonElementsMax} elements`);
  });

  test('is accepted at the limit', async () => {
    const list = `{"list":${wideList(limits.jsonElementsMax - 10)}}`;
    expect((await api.ask('/plugin/echo/poll', { body: list })).status).toBe(202);
  });

  test('costs in proportion to its size', () => {
    const json = wideList(limits.jsonElementsMax);
    const value: unknown = JSON.parse(wideList(1_000_000));
    // Once before it is measured, so that all of it is compiled.
    for (const measured of [false, true]) {
      const strict = cpuMs(() => parseStrictJson(json));
      const unsafe = cpuMs(() => describeUnsafeJson(value, limits.jsonDepthMax));
      if (measured) expect([strict < 200, unsafe < 200]).toEqual([true, true]);
    }
  });

  test('lists at most so many of its problems', () => {
    const schema = z.strictObject({ first: z.string(), second: z.string() });
    const value = Object.fromEntries(
      Array.from({ length: limits.jsonKeysMax }, (_, at) => [`${'key'.repeat(20)}${at}`, at]),
    );
    const { error } = schema.safeParse(value);
    const where = { value, problems: [], placeOf: () => '' };
    const problems = describeIssues(error?.issues ?? [], schema, where);
    expect(problems).toHaveLength(limits.problemsMax);
  });

  test('a list that no field takes is refused before its entries are checked', async () => {
    const body = JSON.stringify({ signals: Array.from({ length: 50_000 }, () => 1) });
    const reply = await api.ask('/signals/batch', { body });
    expect(reply).toMatchObject({ status: 400, body: { place: 'signals' } });
    expect(reply.body['error']).toContain(`at most ${limits.inputListMax} entries`);
  });
});

describe('responses that stay the same', () => {
  test.each([
    '/openapi.json',
    '/plugins',
    '/skills',
    '/plugin/echo/openapi.json',
    '/.well-known/ai-plugin.json',
  ])('%s has a tag, is compressed and is not sent twice', async (path) => {
    const open = { token: undefined };
    const plain = await api.ask(path, open);
    const tag = String(plain.headers.etag);
    expect(tag).toMatch(/^W\/"[\w-]+"$/);
    expect(plain.headers['cache-control']).toBe('private, no-cache');
    expect(plain.headers['content-encoding']).toBeUndefined();
    const known = await api.ask(path, { ...open, headers: { 'if-none-match': `"x", ${tag}` } });
    expect([known.status, known.text]).toEqual([304, '']);
    const other = await api.ask(path, { ...open, headers: { 'if-none-match': '"x"' } });
    expect(other.text).toBe(plain.text);
    const head = await api.ask(path, { ...open, method: 'HEAD' });
    expect([head.status, head.headers.etag, head.text]).toEqual([200, tag, '']);
    expect((await api.ask(`${path}?nonsense=1`, open)).status).toBe(400);
  });

  test('are compressed where the client accepts that', async () => {
    const zipped = async (accepted: string): Promise<string | undefined> => {
      const response = await fetch(`http://127.0.0.1:${api.port}/openapi.json`, {
        headers: { 'accept-encoding': accepted },
      });
      await response.arrayBuffer();
      return response.headers.get('content-encoding') ?? undefined;
    };
    expect(await zipped('br, gzip')).toBe('gzip');
    expect(await zipped('*')).toBe('gzip');
    expect(await zipped('gzip;q=0, *;q=1')).toBeUndefined();
    expect(await zipped('identity')).toBeUndefined();
    const plain = await api.ask('/openapi.json');
    const raw = await api.raw(
      `GET /openapi.json HTTP/1.1\r\nhost: localhost\r\naccept-encoding: gzip\r\nconnection: close\r\n\r\n`,
    );
    const size = Number(/content-length: (\d+)/.exec(raw)?.[1]);
    expect(size).toBeLessThan(plain.text.length / 4);
    const body = await fetch(`http://127.0.0.1:${api.port}/openapi.json`);
    expect(await body.text()).toBe(plain.text);
  });

  test('are the same bytes, and others after a reload', async () => {
    const before = await api.ask('/plugins', { token: undefined });
    const { engine } = api.server.instance;
    const { catalog } = engine;
    const reloaded = await api.ask('/system/reload', { body: '' });
    expect(reloaded.status).toBeLessThan(300);
    expect(engine.catalog).not.toBe(catalog);
    const after = await api.ask('/plugins', { token: undefined });
    expect(after.headers.etag).toBe(before.headers.etag);
  });

  test('a caller with more rights gets their own', async () => {
    const open = await api.ask('/plugins', { token: undefined });
    const owner = await api.ask('/plugins');
    expect(owner.body).toHaveProperty('problems');
    expect(open.body).not.toHaveProperty('problems');
  });
});

describe('wrong tokens', () => {
  const from = (address: string) => ({ 'x-forwarded-for': address });
  const guess = async (address: string): Promise<void> => {
    for (let count = 0; count < 2 * limits.wrongTokensMax; count += 50) {
      const batch = Array.from({ length: 50 }, (_, at) => `wrong-token-${count}-${at}-00000000`);
      await Promise.all(batch.map((token) => api.ask('/jobs', { token, headers: from(address) })));
    }
  };
  const wrong = (address: string) =>
    api.ask('/jobs', { token: 'wrong-token-000000000', headers: from(address) });

  test('lock out no valid token of the same address', async () => {
    // A valid token that was never used before.
    const { token } = await makeTenant(api);
    await guess('192.0.2.1');
    expect(await wrong('192.0.2.1')).toMatchObject({
      status: 429,
      body: { code: 'TRIES_SPENT' },
    });
    const valid = await api.ask('/jobs', { token: JOBS, headers: from('192.0.2.1') });
    expect(valid.status).toBe(200);
    const tenant = await api.ask('/jobs', { token, headers: from('192.0.2.1') });
    expect(tenant.status).toBe(200);
  });

  test('are counted for the client behind a trusted proxy', async () => {
    await guess('192.0.2.2');
    expect((await wrong('192.0.2.2')).status).toBe(429);
    expect((await wrong('192.0.2.3')).status).toBe(401);
    // A client can write what it likes in front of its own address.
    expect((await wrong('192.0.2.3, 192.0.2.2')).status).toBe(429);
  });

  test('are counted for the connection without a trusted proxy', async () => {
    const other = await startApi({ api: { auth: { tokens } } });
    onTestFinished(() => other.close());
    for (let count = 0; count < 2 * limits.wrongTokensMax; count += 1) {
      await other.ask('/jobs', {
        token: 'wrong-token-000000000',
        headers: from(`192.0.2.${count}`),
      });
    }
    const reply = await other.ask('/jobs', { token: 'wrong-token-000000000' });
    expect(reply.status).toBe(429);
  });
});

test("a tenant can't take all event streams", async () => {
  const tenant = await makeTenant(api);
  const more = await Promise.all(
    [1, 2, 3].map((count) => tenant.makeToken(`stream-${count}`, { role: 'member' })),
  );
  const streams: ClientRequest[] = [];
  onTestFinished(() => {
    for (const stream of streams) stream.destroy();
  });
  const open = async (as: string): Promise<IncomingMessage> => {
    const headers = { authorization: `Bearer ${as}` };
    const { port } = api;
    const stream = request({ port, host: '127.0.0.1', path: '/events', agent: false, headers });
    streams.push(stream.on('error', () => undefined));
    stream.end();
    const [response] = (await once(stream, 'response')) as [IncomingMessage];
    return response.on('error', () => undefined);
  };
  const statuses: number[] = [];
  for (const as of [tenant.token, ...more]) {
    for (let count = 0; count < limits.eventStreamsPerTokenMax; count += 1) {
      statuses.push((await open(as)).statusCode ?? 0);
    }
  }
  expect(statuses.filter((status) => status === 200)).toHaveLength(limits.eventStreamsPerTenantMax);
  const refused = JSON.parse(await text(await open(more[1] ?? ''))) as Record<string, unknown>;
  expect(refused).toMatchObject({ status: 429, code: 'STREAMS_SPENT' });
  expect(refused['error']).toContain('this tenant already has');
  expect((await open(OWNER)).statusCode).toBe(200);
  const { token: another } = await makeTenant(api);
  expect((await open(another)).statusCode).toBe(200);
});

function cpuMs(work: () => unknown): number {
  const before = process.cpuUsage();
  work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000;
}
