/** Settings of webhooks that could never work are refused when they are saved, and named by doctor. */
import { createHmac } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, expect, test, vi } from 'vitest';
import { isObject, type JsonObject } from '../../src/base/json.ts';
import { startApi, type Reply, type TestApi } from '../support/api-server.ts';
import { succeeds } from '../support/plugin-program.ts';
import { writePlugin } from '../support/plugin-tree.ts';

const commands = `commands:
  task: { input_schema: { type: object, properties: { provider: { type: string, examples: [claude, codex] } } } }
  turn: {}
config_keys: { optional: [allowed_users, providers] }`;
const SECRET = 'the-secret-of-the-sender';
const task = { mode: 'cron_task', task_folder: 'triage', prompt_template: 'See {{issue}}' };
const wake = { mode: 'wake', prompt_template: 'Hear {{text}}' };

let api: TestApi;
beforeAll(async () => {
  api = await startApi({
    webhooks: { listen: '127.0.0.1:0' },
    plugins: { agent: { config: { allowed_users: ['ann'], providers: { own: {} } } } },
    async prepare(directory) {
      const files = { name: 'agent', entrypoint: 'run', program: succeeds, commands };
      await writePlugin(join(directory, 'plugins', 'agent'), files);
    },
  });
});
afterAll(() => api.close());
afterEach(() => vi.restoreAllMocks());

function add(entry: JsonObject): Promise<Reply> {
  return api.ask('/webhooks', { body: JSON.stringify({ title: 'T', ...entry }) });
}

function edit(id: string, changes: JsonObject): Promise<Reply> {
  return api.ask(`/webhooks/${id}`, { method: 'PATCH', body: JSON.stringify(changes) });
}

async function configure(config: JsonObject): Promise<void> {
  const { file } = api.server.instance.config;
  const written = JSON.parse(await readFile(file, 'utf8')) as JsonObject;
  await writeFile(file, JSON.stringify({ ...written, plugins: { agent: { config } } }));
  expect((await api.ask('/system/reload', { body: '{}' })).status).toBe(200);
}

async function findings(): Promise<string> {
  return JSON.stringify((await api.ask('/system/doctor')).body['findings']);
}

test('a rate limit of 0, which accepts nothing, is refused', async () => {
  const refused = { status: 400, body: { place: 'rate_limit_per_minute' } };
  expect(await add({ plugin: 'echo', rate_limit_per_minute: 0 })).toMatchObject(refused);
  expect((await add({ id: 'rated', plugin: 'echo', rate_limit_per_minute: 1 })).status).toBe(201);
  expect(await edit('rated', { rate_limit_per_minute: 0 })).toMatchObject(refused);
});

test('a provider that the agent does not know is refused, and named by doctor when it is gone', async () => {
  const refused = { status: 400, body: { place: 'provider' } };
  expect(await add({ ...task, provider: 'claud' })).toMatchObject({
    ...refused,
    body: { error: expect.stringContaining('claud'), hint: expect.stringContaining('claude') },
  });
  for (const provider of ['claude', 'own']) {
    expect((await add({ id: `by-${provider}`, ...task, provider })).status).toBe(201);
  }
  expect(await edit('by-claude', { provider: 'nobody' })).toMatchObject(refused);
  expect(await findings()).not.toContain('by-own');
  await configure({ allowed_users: ['ann'] });
  expect(await findings()).toContain('webhook_fault:by-own');
  // Editing something else, or disabling it, is still possible.
  expect((await edit('by-own', { enabled: false })).status).toBe(200);
  expect(await findings()).not.toContain('webhook_fault:by-own');
  await configure({ allowed_users: ['ann'], providers: { own: {} } });
});

test('wake without users is refused, and named by doctor', async () => {
  expect((await add({ id: 'talk', ...wake })).status).toBe(201);
  await configure({ allowed_users: [] });
  expect(await add({ id: 'alone', ...wake })).toMatchObject({
    status: 400,
    body: { place: 'mode', error: expect.stringContaining('allowed_users') },
  });
  expect(await findings()).toContain('talk');
  await configure({ allowed_users: ['ann'], providers: { own: {} } });
  expect(await findings()).not.toContain('talk');
});

test.each(['{{a b}}', '{{}}', '{{#if x}}'])('the template %s is refused', async (template) => {
  const refused = {
    status: 400,
    body: { place: 'prompt_template', error: expect.stringContaining(template) },
  };
  expect(await add({ ...task, prompt_template: template })).toMatchObject(refused);
  const id = `t-${createHmac('sha1', template).digest('hex').slice(0, 8)}`;
  expect((await add({ id, ...task, prompt_template: '{{ a }} {{a-b}}' })).status).toBe(201);
  expect(await edit(id, { prompt_template: template })).toMatchObject(refused);
});

test("document 4's token and hmac_secret are other names of the secret", async () => {
  const bearer = await add({ id: 'bearer', plugin: 'echo', command: 'poll', token: SECRET });
  expect([bearer.status, bearer.body['secret']]).toEqual([201, null]);
  const token = { body: '{}', token: SECRET };
  expect((await api.deliver('/hooks/bearer', token)).status).toBe(202);
  const hmac = { plugin: 'echo', command: 'poll', auth_mode: 'hmac', hmac_header: 'X-Sig' };
  const signed = await add({ id: 'hmac', ...hmac, hmac_secret: SECRET });
  expect([signed.status, signed.body['secret']]).toEqual([201, null]);
  const mac = createHmac('sha256', SECRET).update('{}').digest('hex');
  const sent = { body: '{}', headers: { 'x-sig': `sha256=${mac}` } };
  expect((await api.deliver('/hooks/hmac', sent)).status).toBe(202);

  const rotated = await api.ask('/webhooks/bearer/rotate', { body: `{"token":"${SECRET}-2"}` });
  expect([rotated.status, rotated.text]).toEqual([200, expect.not.stringContaining(SECRET)]);
  expect((await api.deliver('/hooks/bearer', token)).status).toBe(401);

  for (const [entry, place] of [
    [{ plugin: 'echo', hmac_secret: SECRET }, 'hmac_secret'],
    [{ ...hmac, token: SECRET }, 'token'],
    [{ ...hmac, secret: SECRET, hmac_secret: SECRET }, 'hmac_secret'],
    [{ plugin: 'echo', token: 'short' }, 'token'],
  ] as const) {
    const refused = await add(entry);
    expect(refused).toMatchObject({ status: 400, body: { place } });
    expect(refused.text).not.toContain(SECRET);
  }
  const wrong = await api.ask('/webhooks/hmac/rotate', { body: `{"token":"${SECRET}"}` });
  expect(wrong).toMatchObject({ status: 400, body: { place: 'token' } });
  const { directives } = (await api.ask('/directives')).body;
  expect(JSON.stringify(directives)).not.toContain(SECRET);
});

test('OpenAPI names every key of signed', async () => {
  const { body } = await api.ask('/openapi.json');
  const found: unknown[] = [];
  const look = (value: unknown): void => {
    if (Array.isArray(value)) return value.forEach(look);
    if (!isObject(value)) return undefined;
    const { signed } = value;
    if (isObject(signed)) found.push(signed);
    return Object.values(value).forEach(look);
  };
  look(body);
  expect(found.length).toBeGreaterThan(1);
  for (const one of found) {
    const text = JSON.stringify(one);
    for (const key of ['header', 'payload', 'timestamp_unit', 'tolerance', 'unique_body']) {
      expect(text).toContain(`"${key}"`);
    }
  }
});

test('hmac with a signed time refuses what is old, and the same again starts nothing', async () => {
  const entry = {
    plugin: 'echo',
    command: 'poll',
    auth_mode: 'hmac',
    hmac_header: 'X-Sig',
    hmac_sig_regex: 'v1=([a-f0-9]+)',
    hmac_payload_prefix_regex: String.raw`t=(\w+)`,
    secret: SECRET,
  };
  expect((await add({ id: 'timed', ...entry })).status).toBe(201);
  expect((await add({ id: 'longer', ...entry, hmac_tolerance: '1h' })).status).toBe(201);
  expect((await add({ id: 'untimed', ...entry, hmac_tolerance: '0s' })).status).toBe(201);
  const send = async (id: string, time: string, body = '{}', key = ''): Promise<number> => {
    const mac = createHmac('sha256', SECRET).update(`${time}.${body}`).digest('hex');
    const headers = { 'x-sig': `t=${time},v1=${mac}`, ...(key && { 'idempotency-key': key }) };
    return (await api.deliver(`/hooks/${id}`, { body, headers })).status;
  };
  const now = Math.floor(Date.now() / 1000);
  vi.spyOn(Date, 'now').mockReturnValue(now * 1000);
  const outcomes = async (id: string, offsets: readonly number[]): Promise<number[]> =>
    await Promise.all(offsets.map((offset) => send(id, String(now + offset))));
  expect(await outcomes('timed', [-301, -300, 0, 300, 301])).toEqual([401, 202, 202, 202, 401]);
  expect(await outcomes('longer', [-3601, -3600, 3600, 3601])).toEqual([401, 202, 202, 401]);
  expect(await outcomes('untimed', [-99_999, 0])).toEqual([202, 202]);
  expect(await send('timed', String(now * 1000 + 1))).toBe(202);
  expect(await send('timed', String((now - 301) * 1000))).toBe(401);
  // The same signed time and body are the same delivery, under any id.
  expect(await send('timed', String(now))).toBe(200);
  expect(await send('timed', String(now), '{}', 'another')).toBe(200);
  expect(await send('timed', String(now), '{"other":1}', 'third')).toBe(202);
  expect([await send('untimed', '1'), await send('untimed', '1')]).toEqual([202, 202]);
  // Without a tolerance that was set, a prefix that is no time is signed like any other text.
  expect(await send('timed', 'nonce1')).toBe(202);
  expect(await send('longer', 'nonce1')).toBe(401);
  expect(
    await add({ ...entry, hmac_payload_prefix_regex: '', hmac_tolerance: '5m' }),
  ).toMatchObject({
    status: 400,
    body: { place: 'hmac_tolerance' },
  });
});
