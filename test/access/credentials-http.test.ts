import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { startApi, type Reply, type TestApi } from '../support/api-server.ts';
import { databases } from '../support/instance.ts';
import { dumpLedger, findLeaks } from '../support/leak-search.ts';

const value = 'Pl4nted-value-0123456789';
const reader = 'reader-token-0123456789abcdef';

describe.each(databases)('credentials over HTTP on %s', (database) => {
  let api: TestApi;
  const answers: string[] = [];
  const ask = async (path: string, how: Parameters<TestApi['ask']>[1] = {}): Promise<Reply> => {
    const reply = await api.ask(path, how);
    answers.push(reply.text, JSON.stringify(reply.headers));
    return reply;
  };
  const post = (path: string, body: object, headers: Record<string, string> = {}) =>
    ask(path, { body: JSON.stringify(body), headers });

  beforeAll(async () => {
    const tokens = [
      { name: 'owner', token: 'owner-token-0123456789abcdef', scopes: ['*'] },
      { name: 'reader', token: reader, scopes: ['credentials:ro'] },
    ];
    api = await startApi({ database, api: { auth: { tokens } } });
  });
  afterAll(() => api.close());

  test('are set once for a key, listed and shown without their values', async () => {
    const body = { name: 'github', value, provider: 'github', expires: '90d' };
    const key = { 'idempotency-key': 'once' };
    const first = await post('/credentials', body, key);
    expect(first).toMatchObject({ status: 200, body: { name: 'github', created: true } });
    const again = await post('/credentials', body, key);
    expect(again.body).toEqual(first.body);
    expect(await post('/credentials', { ...body, value: `${value}-2` }, key)).toMatchObject({
      status: 422,
      body: { code: 'IDEMPOTENCY_MISMATCH' },
    });
    const shown = await ask('/credentials/github', { token: reader });
    expect(shown.body).toMatchObject({
      name: 'github',
      provider: 'github',
      status: 'active',
      used_by: [],
    });
    expect((await ask('/credentials')).body).toEqual({
      credentials: [shown.body],
      next_cursor: null,
    });
    expect(await ask('/credentials/nobody')).toMatchObject({
      status: 404,
      body: { code: 'CREDENTIAL_NOT_FOUND' },
    });
  });

  test('are refused without an echo of what was wrong', async () => {
    const bad = [
      { name: 'a', value: 12345678901 },
      { name: 'a', value: [value] },
      { name: 'a', value: 'qzx' },
      { name: 'a', value: `${value}\u0000` },
      { name: 'a', value: `${value}\ud800` },
      { name: 'a', value: value.repeat(4000) },
      { name: 'a b', value },
      { name: 'a', valeu: value },
    ];
    for (const body of bad) {
      const { status, text } = await post('/credentials', body);
      expect(status, text).toBe(400);
      expect(text).not.toMatch(/12345678901|qzx/);
    }
    const request = { type: 'credential.set', params: { name: 'a', value } };
    expect((await post('/directives', request)).status).toBe(400);
    const empty = { type: 'credential.set', params: { name: 'a' } };
    expect((await post('/directives', empty)).text).toContain('the value is missing');
    const denied = { body: JSON.stringify({ name: 'a', value }), token: reader };
    expect((await ask('/credentials', denied)).status).toBe(403);
    expect((await ask('/credentials/a')).status).toBe(404);
  });

  test('are planned before they are changed, deleted and sealed again', async () => {
    const planned = await post('/credentials', { name: 'github', value, dry_run: true });
    expect(planned.body['plan']).toContain('The current value cannot be recovered.');
    const keyBefore = (await ask('/credentials/github')).body['key_id'];
    const rotated = await post('/credentials/rotate-key', {});
    expect(rotated.body).toMatchObject({ resealed: 1, left: 0, tenants: 0 });
    const keyAfter = (await ask('/credentials/github')).body['key_id'];
    expect(keyAfter).toBe(rotated.body['key_id']);
    expect(keyAfter).not.toBe(keyBefore);
    const removal = await post('/credentials/github/delete', { dry_run: true });
    expect(JSON.stringify(removal.body)).toContain('cannot be undone');
    expect(await post('/credentials/github/delete', {})).toMatchObject({ status: 200 });
    expect((await post('/credentials/github/delete', {})).status).toBe(404);
  });

  test('have left their values in no answer, table or log', async () => {
    for (const path of ['/directives', '/signals', '/jobs', '/config/view', '/events?limit=100']) {
      const { status } = await ask(path, { headers: { accept: 'application/json' } });
      expect(status, path).toBe(200);
    }
    const sinks: Record<string, string> = {
      ...(await dumpLedger(api.server.instance.engine.ledger)),
      answers: answers.join('\n'),
      log: JSON.stringify(api.records),
    };
    expect(sinks['directives']).toContain('fingerprint');
    expect(findLeaks(sinks, [value, Buffer.from(value).toString('base64')])).toEqual([]);
  });
});

test('a credential that webhooks are verified with names them before it is gone', async () => {
  const endpoint = { path: '/a', plugin: 'echo', secret_ref: 'theirs', signature_header: 'X-Sig' };
  const webhooks = { listen: '127.0.0.1:0', enabled: false, endpoints: [endpoint] };
  const api = await startApi({ webhooks });
  onTestFinished(() => api.close());
  const post = (path: string, body: object) => api.ask(path, { body: JSON.stringify(body) });
  await post('/credentials', { name: 'theirs', value });
  const hook = { title: 'T', signal: 'thing.seen' };
  await post('/webhooks', { ...hook, id: 'own', auth_mode: 'github' });
  await post('/webhooks', { ...hook, id: 'named', auth_mode: 'github', credential: 'theirs' });
  await post('/webhooks', { ...hook, id: 'shared' });
  const { credentials } = (await api.ask('/credentials')).body;
  expect(credentials).toMatchObject([
    { name: 'theirs', used_by: ['webhook:named', 'webhook:/a'] },
    { name: 'webhook-token', used_by: ['webhook:shared'] },
  ]);
  const planned = await post('/credentials/theirs/delete', { dry_run: true });
  expect(planned.body['plan']).toContain(
    'Webhooks that use it: named, /a. Their next deliveries will be refused.',
  );
  const shown = async (id: string) => (await api.ask(`/webhooks/${id}`)).body['credentials'];
  expect(await shown('own')).toEqual([]);
  expect(await shown('named')).toEqual(['theirs']);
  expect(await shown('shared')).toEqual(['webhook-token']);
  await post('/webhooks/shared/rotate', { keep_old: '1h' });
  expect(await shown('shared')).toEqual(['webhook-token']);
  await post('/webhooks/shared/rotate', {});
  expect(await shown('shared')).toEqual([]);
});

test('a value that a webhook could never be verified with is refused, planned or not', async () => {
  const api = await startApi();
  onTestFinished(() => api.close());
  const post = (path: string, body: object) => api.ask(path, { body: JSON.stringify(body) });
  const hook = { title: 'T', signal: 'thing.seen' };
  await post('/credentials', { name: 'theirs', value: 'whsec_AAAAAAAAAAAAAAAAAAAAAAAA' });
  await post('/webhooks', { ...hook, id: 'h', auth_mode: 'svix', credential: 'theirs' });
  const tries = [
    ['theirs', 'not base64 at all!', /the webhook h uses this credential: the credential theirs/],
    ['theirs', 'whsec_', /the webhook h/],
  ] as const;
  for (const [name, given, message] of tries) {
    for (const more of [{}, { dry_run: true }]) {
      const refused = await post('/credentials', { name, value: given, ...more });
      expect(refused).toMatchObject({ status: 400, body: { place: 'value' } });
      expect(refused.body['error']).toMatch(message);
      expect(refused.text).not.toContain(given);
    }
  }
  for (const more of [{}, { dry_run: true }]) {
    const secret = 'not base64 at all!';
    expect((await post('/webhooks/h/rotate', { secret, ...more })).status).toBe(400);
  }
  await api.ask('/webhooks/h', { method: 'PATCH', body: '{"enabled":false}' });
  expect((await post('/credentials', { name: 'theirs', value: 'plain words' })).status).toBe(200);
});
