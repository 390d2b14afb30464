/** Webhooks from end to end: created, accepted, refused, repeated and rotated, on both databases. */
import { createHmac } from 'node:crypto';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { JsonObject } from '../../src/base/json.ts';
import { startApi, type ApiSetup, type Reply, type TestApi } from '../support/api-server.ts';
import { databases, type Database } from '../support/instance.ts';

async function open(setup: ApiSetup = {}): Promise<TestApi> {
  const api = await startApi({ webhooks: { listen: '127.0.0.1:0' }, ...setup });
  onTestFinished(() => api.close());
  return api;
}

async function add(api: TestApi, entry: JsonObject): Promise<Record<string, unknown>> {
  const made = await api.ask('/webhooks', { body: JSON.stringify({ title: 'T', ...entry }) });
  expect([made.status, made.text]).toEqual([201, expect.any(String)]);
  return made.body;
}

const github = { id: 'gh', plugin: 'echo', command: 'handle', auth_mode: 'github' };

function signed(secret: unknown, body: string, more: Readonly<Record<string, string>> = {}) {
  const mac = createHmac('sha256', String(secret)).update(body).digest('hex');
  return { token: undefined, body, headers: { 'x-hub-signature-256': `sha256=${mac}`, ...more } };
}

async function jobs(api: TestApi): Promise<readonly Record<string, unknown>[]> {
  const { body } = await api.ask('/jobs');
  return body['jobs'] as Record<string, unknown>[];
}

function shown(api: TestApi, id: string): Promise<Reply> {
  return api.ask(`/webhooks/${id}`);
}

describe.each(databases)('on %s', (database: Database) => {
  test('a delivery that is signed starts one job, on both listeners, and the same again none', async () => {
    const api = await open({ database });
    const { secret } = await add(api, github);
    const first = signed(secret, '{"message":"hi"}', { 'x-github-delivery': 'd-1' });
    const taken = await api.deliver('/hooks/gh', first);
    expect(taken).toMatchObject({ status: 202, body: { accepted: true, hook_id: 'gh' } });
    const again = await api.ask('/hooks/gh', first);
    const { signal_id: signalId, job_id: jobId } = taken.body;
    expect(again).toMatchObject({ status: 200, body: { duplicate: true, signal_id: signalId } });
    const same = signed(secret, '{"message":"hi"}', { 'x-github-delivery': 'd-2' });
    expect(await api.deliver('/hooks/gh', same)).toMatchObject({ status: 202 });
    const next = signed(secret, '{"message":"ho"}', { 'x-github-delivery': 'd-3' });
    expect((await api.deliver('/hooks/gh', next)).status).toBe(202);
    expect(await jobs(api)).toHaveLength(3);
    const signal = await api.ask(`/signals/${String(signalId)}`);
    expect(signal.body).toMatchObject({
      type: 'webhook.received',
      source: 'webhook:gh',
      source_event_id: 'd-1',
      data: { message: 'hi' },
      jobs: [{ job_id: jobId, submitted_by: 'webhook' }],
    });
    expect((await shown(api, 'gh')).body).toMatchObject({
      trigger_count: 3,
      last_error: null,
      last_triggered_at: expect.any(String),
    });
    const listed = await api.ask('/webhooks/deliveries?id=gh');
    expect(listed.body).toMatchObject({
      deliveries: [
        { sender_id: 'd-3', verdict: 'accepted', duplicates: 0, body_bytes: 16 },
        { sender_id: 'd-2', verdict: 'accepted', duplicates: 0 },
        { sender_id: 'd-1', verdict: 'accepted', duplicates: 1, signal_id: signalId },
      ],
    });
    expect(listed.text).not.toContain(first.headers['x-hub-signature-256']);
  });

  test('concurrent deliveries are each accepted once', async () => {
    const api = await open({ database });
    const { secret } = await add(api, github);
    const bodies = Array.from({ length: 20 }, (_, n) => `{"message":"${n % 10}"}`);
    const replies = await Promise.all(
      bodies.map((body, n) =>
        api.deliver('/hooks/gh', signed(secret, body, { 'x-github-delivery': `d-${n % 10}` })),
      ),
    );
    expect(replies.filter(({ status }) => status === 202)).toHaveLength(10);
    expect(replies.filter(({ status }) => status === 200)).toHaveLength(10);
    expect(await jobs(api)).toHaveLength(10);
    expect((await shown(api, 'gh')).body['trigger_count']).toBe(10);
  });

  test('a delivery without a valid proof starts nothing and gets no details', async () => {
    const api = await open({ database });
    const { secret } = await add(api, github);
    const body = '{"message":"hi"}';
    const refused = { status: 401, text: '{"error":"unauthorized"}\n' };
    const wrong = signed('other', body);
    const good = signed(secret, body);
    const at = (how: object): Promise<Reply> => api.deliver('/hooks/gh', how);
    expect(await at(wrong)).toMatchObject(refused);
    expect(await at({ body })).toMatchObject(refused);
    expect(await at({ ...good, body: '{"message":"hi" }' })).toMatchObject(refused);
    expect(await at({ ...good, headers: { 'x-hub-signature-256': '' } })).toMatchObject(refused);
    expect(await api.deliver('/hooks/nobody', good)).toMatchObject({
      status: 404,
      text: '{"error":"not_found"}\n',
    });
    const large = 'x'.repeat(1024 * 1024 + 1);
    expect(await at(signed(secret, large))).toMatchObject({ status: 413 });
    expect(await at(signed(secret, 'no json'))).toMatchObject({ status: 400 });
    const gzip = { 'content-encoding': 'gzip' };
    expect(await at(signed(secret, '{"z":1}', gzip))).toMatchObject({ status: 415 });
    expect(await api.deliver('/hooks/gh', { method: 'GET' })).toMatchObject({ status: 405 });
    expect(await jobs(api)).toEqual([]);
    expect((await shown(api, 'gh')).body['trigger_count']).toBe(0);
  });

  test('a webhook is edited, rotated and removed, at once', async () => {
    const api = await open({ database });
    const { secret: first } = await add(api, github);
    const patch = { method: 'PATCH', body: '{"enabled":false}' };
    expect(await api.ask('/webhooks/gh', patch)).toMatchObject({ status: 200 });
    const at = (secret: unknown, body: string): Promise<Reply> =>
      api.deliver('/hooks/gh', signed(secret, body));
    expect((await at(first, '{"a":1}')).status).toBe(404);
    await api.ask('/webhooks/gh', { method: 'PATCH', body: '{"enabled":true}' });
    expect((await at(first, '{"a":1}')).status).toBe(202);
    const rotated = await api.ask('/webhooks/gh/rotate', { body: '{"keep_old":"1h"}' });
    const { secret: second } = rotated.body;
    expect(second).not.toBe(first);
    expect((await at(first, '{"a":2}')).status).toBe(202);
    expect((await at(second, '{"a":3}')).status).toBe(202);
    const last = await api.ask('/webhooks/gh/rotate', { body: '{}' });
    expect((await at(second, '{"a":4}')).status).toBe(401);
    expect((await at(first, '{"a":4}')).status).toBe(401);
    expect((await at(last.body['secret'], '{"a":4}')).status).toBe(202);
    expect((await shown(api, 'gh')).text).not.toContain(String(last.body['secret']));
    const gone = await api.ask('/webhooks/gh', { method: 'DELETE' });
    expect(gone).toMatchObject({ status: 200, body: { removed: true } });
    expect((await at(last.body['secret'], '{"a":5}')).status).toBe(404);
  });

  test('a delivery that its target refuses is reported to the operator and may be sent again', async () => {
    const api = await open({ database });
    const { secret } = await add(api, github);
    const bad = signed(secret, '{"message":7}', { 'x-github-delivery': 'd-1' });
    expect(await api.deliver('/hooks/gh', bad)).toMatchObject({
      status: 422,
      text: '{"error":"payload_refused"}\n',
    });
    expect((await shown(api, 'gh')).body).toMatchObject({
      trigger_count: 1,
      last_error: expect.stringContaining('message'),
    });
    const good = signed(secret, '{"message":"7"}', { 'x-github-delivery': 'd-1' });
    expect((await api.deliver('/hooks/gh', good)).status).toBe(202);
    expect((await shown(api, 'gh')).body).toMatchObject({ trigger_count: 2, last_error: null });
    const verdicts = (await api.ask('/webhooks/deliveries')).body['deliveries'];
    expect(verdicts).toMatchObject([{ verdict: 'accepted' }, { verdict: 'failed' }]);
  });

  test('a bearer webhook without a token goes by the global one, which is made once', async () => {
    const api = await open({ database });
    const { global_token: token, secret } = await add(api, { id: 'a', signal: 'thing.seen' });
    expect(secret).toBeNull();
    expect((await add(api, { id: 'b', signal: 'thing.seen' }))['global_token']).toBeNull();
    const as = (given: unknown) => ({ token: String(given), body: '{"n":1}' });
    expect((await api.deliver('/hooks/a', as(token))).status).toBe(202);
    expect((await api.deliver('/hooks/b', as(token))).status).toBe(202);
    expect((await api.deliver('/hooks/b', as('wrong'))).status).toBe(401);
    const { secret: own } = (await api.ask('/webhooks/b/rotate', { body: '{}' })).body;
    expect((await api.deliver('/hooks/b', as(token))).status).toBe(401);
    expect((await api.deliver('/hooks/b', as(own))).status).toBe(202);
    const response = await api.ask('/signals?type=thing.seen');
    expect(response.body['signals']).toHaveLength(3);
  });

  test('an Idempotency-Key with another body is refused, and reported to the operator', async () => {
    const api = await open({ database });
    const { global_token: token } = await add(api, { id: 'k', signal: 'thing.seen' });
    const send = (key: string, body: string): Promise<Reply> => {
      const headers = { 'idempotency-key': key };
      return api.deliver('/hooks/k', { token: String(token), body, headers });
    };
    expect((await send('order-1', '{"n":1}')).status).toBe(202);
    const again = await send('"order-1"', '{"n":1}');
    expect(again).toMatchObject({ status: 200, body: { duplicate: true } });
    const other = await send('order-1', '{"n":2}');
    expect(other).toMatchObject({ status: 422, text: '{"error":"idempotency_mismatch"}\n' });
    expect((await send('order-2', '{"n":1}')).status).toBe(202);
    expect((await api.ask('/webhooks/k')).body).toMatchObject({ last_error: null });
    expect((await api.ask('/signals?type=thing.seen')).body['signals']).toHaveLength(2);
    const { deliveries } = (await api.ask('/webhooks/deliveries')).body;
    const reason = 'this Idempotency-Key was used with another body before';
    expect(deliveries).toMatchObject([
      { verdict: 'accepted', duplicates: 0 },
      { verdict: 'failed', reason },
      { verdict: 'accepted', duplicates: 1 },
    ]);
  });

  test('a pipeline is run, and a delivery can be replayed and tested', async () => {
    const steps = [{ id: 'look', uses: 'echo.poll' }];
    const api = await open({ database, pipelines: [{ name: 'care', steps }] });
    await add(api, { id: 'p', pipeline: 'care', auth_mode: 'github' });
    const tested = await api.ask('/webhooks/p/test', { body: '{"payload":{"n":1}}' });
    expect(tested).toMatchObject({ status: 200, body: { status: 202 } });
    const { signal_id: signalId } = tested.body['answer'] as { signal_id: string };
    const { deliveries } = (await api.ask('/webhooks/deliveries')).body;
    const [{ delivery_id: id } = { delivery_id: '' }] = deliveries as { delivery_id: string }[];
    const replayed = await api.ask(`/webhooks/deliveries/${id}/replay`, { body: '{}' });
    expect(replayed).toMatchObject({ status: 200, body: { runs: 1, signal_id: signalId } });
    const signal = await api.ask(`/signals/${signalId}`);
    expect(signal.body['runs']).toMatchObject([
      { pipeline: 'care', submitted_by: 'replay' },
      { pipeline: 'care', submitted_by: 'webhook' },
    ]);
  });
});

test('the secret of a webhook outlives the key that it was sealed with', async () => {
  const api = await open();
  const { secret } = await add(api, github);
  const before = await api.server.instance.engine.ledger.seals.count();
  expect(before).toMatchObject([{ webhooks: 1 }]);
  const rotated = await api.ask('/credentials/rotate-key', { body: '{}' });
  expect(rotated.body).toMatchObject({ resealed: 1, left: 0 });
  expect((await api.deliver('/hooks/gh', signed(secret, '{"n":1}'))).status).toBe(202);
});

test.each(['bearer', 'github', 'gitlab', 'standard-webhooks', 'hmac'] as const)(
  'a test delivery as %s is verified',
  async (mode) => {
    const api = await open();
    const more = mode === 'hmac' ? { hmac_header: 'X-Sig' } : {};
    await add(api, { id: 'h', plugin: 'echo', auth_mode: mode, ...more });
    const tested = await api.ask('/webhooks/h/test', { body: '{}' });
    expect(tested.body).toMatchObject({ status: 202 });
  },
);

test.each(['stripe', 'slack'])('a %s secret comes from a credential', async (mode) => {
  const api = await open();
  const entry = { title: 'T', id: 'h', plugin: 'echo', auth_mode: mode };
  const without = await api.ask('/webhooks', { body: JSON.stringify(entry) });
  expect(without).toMatchObject({ status: 400, text: expect.stringContaining('credential') });
  const value = JSON.stringify({ name: 'theirs', value: 'whsec-of-the-provider' });
  await api.ask('/credentials', { body: value });
  expect((await add(api, { ...entry, credential: 'theirs' }))['secret']).toBeNull();
  const tested = await api.ask('/webhooks/h/test', { body: '{}' });
  expect(tested.body).toMatchObject({ status: 202 });
});

test('an invalid webhook is refused with its key', async () => {
  const api = await open();
  const refused = async (entry: JsonObject): Promise<Reply> =>
    await api.ask('/webhooks', { body: JSON.stringify({ title: 'T', id: 'h', ...entry }) });
  expect((await refused({ mode: 'wake' })).text).toContain('prompt_template is required');
  const agent = await refused({ mode: 'wake', prompt_template: '{{a}}' });
  expect(agent).toMatchObject({ status: 404, body: { code: 'PLUGIN_NOT_FOUND' } });
  expect((await refused({ plugin: 'none' })).status).toBe(404);
  expect((await refused({})).status).toBe(400);
  expect((await refused({ plugin: 'echo', id: 'No Such' })).status).toBe(400);
  expect((await refused({ plugin: 'echo', id: 'deliveries' })).status).toBe(400);
  expect((await refused({ plugin: 'echo', auth_mode: 'hmac' })).text).toContain('hmac_header');
  await add(api, github);
  expect((await refused({ ...github })).status).toBe(409);
});

test('a burst beyond the limit gets Retry-After, and earlier deliveries run', async () => {
  const api = await open();
  const { secret } = await add(api, { ...github, rate_limit_per_minute: 3 });
  const replies: Reply[] = [];
  for (let n = 0; n < 5; n += 1) {
    replies.push(await api.deliver('/hooks/gh', signed(secret, `{"n":${n}}`)));
  }
  expect(replies.map(({ status }) => status)).toEqual([202, 202, 202, 429, 429]);
  expect(Number(replies[4]?.headers['retry-after'])).toBeGreaterThan(0);
  expect(await jobs(api)).toHaveLength(3);
});

test('a sender that fails too often is stopped, and others behind the same proxy are not', async () => {
  const proxied = { listen: '127.0.0.1:0', trusted_proxies: ['127.0.0.1'] };
  const api = await open({ webhooks: proxied });
  const { secret } = await add(api, github);
  const from = (address: string) => ({ 'x-forwarded-for': `6.6.6.6, ${address}` });
  const bad = signed('wrong', '{}', from('203.0.113.9'));
  const statuses = new Set<number>();
  for (let n = 0; n < 110; n += 1) statuses.add((await api.deliver('/hooks/gh', bad)).status);
  expect([...statuses]).toEqual([401, 429]);
  const good = signed(secret, '{}', from('203.0.113.10'));
  expect((await api.deliver('/hooks/gh', good)).status).toBe(202);
});

const endpoint = {
  path: '/hook/github',
  plugin: 'echo',
  secret_ref: 'gh_secret',
  signature_header: 'X-Hub-Signature-256',
  max_body_size: '1KB',
};
const inTokens = [{ name: 'gh_secret', key: 'a-secret-of-the-files', scopes: [] }];

test('a static endpoint takes what is signed, and says nothing to the others', async () => {
  const webhooks = { listen: '127.0.0.1:0', endpoints: [endpoint] };
  const api = await open({ webhooks, tokens: inTokens });
  const good = signed('a-secret-of-the-files', '{"message":"hi"}');
  const taken = await api.deliver('/hook/github', good);
  expect(taken).toMatchObject({ status: 202, body: { job_id: expect.any(String) } });
  const bad = await api.deliver('/hook/github', signed('x', '{"message":"hi"}'));
  expect(bad).toMatchObject({ status: 403, text: '{"error":"forbidden"}\n' });
  const large = signed('a-secret-of-the-files', JSON.stringify({ message: 'x'.repeat(2000) }));
  expect((await api.deliver('/hook/github', large)).status).toBe(413);
  expect((await api.ask('/hook/github', good)).status).toBe(401);
  expect(await jobs(api)).toMatchObject([{ job_id: taken.body['job_id'], plugin: 'echo' }]);
  expect(await api.deliver('/healthz')).toMatchObject({ status: 200, body: { status: 'ok' } });
  const headers = { 'x-forwarded-for': '203.0.113.9' };
  expect((await api.deliver('/healthz', { headers })).status).toBe(404);
  expect((await api.deliver('/health')).text).toBe('{"status":"ok"}\n');
  expect((await api.deliver('/jobs')).status).toBe(404);
});

test('a static endpoint without a secret keeps the service from starting', async () => {
  const webhooks = { listen: '127.0.0.1:0', endpoints: [endpoint] };
  await expect(startApi({ webhooks })).rejects.toThrow(/gh_secret/);
});

test('compat reads the body first, and says what is wrong with it', async () => {
  const api = await open({ webhooks: { listen: '127.0.0.1:0', order: 'compat' } });
  await add(api, github);
  const form = { 'content-type': 'application/x-www-form-urlencoded' };
  const at = (body: string, headers = {}): Promise<Reply> =>
    api.deliver('/hooks/gh', { body, headers });
  expect((await at('a=1', form)).text).toBe('{"error":"content_type_must_be_json"}\n');
  expect((await at('[]')).text).toBe('{"error":"body_must_be_object"}\n');
  expect((await api.deliver('/hooks/none', { body: '{}' })).text).toBe(
    '{"error":"hook_not_found"}\n',
  );
  await api.ask('/webhooks/gh', { method: 'PATCH', body: '{"enabled":false}' });
  expect(await at('{}')).toMatchObject({ status: 403, text: '{"error":"hook_disabled"}\n' });
});

test('secrets in what was delivered are masked in the signal, and the job gets them', async () => {
  const api = await open();
  const { secret } = await add(api, { ...github, command: 'poll' });
  const body = '{"password":"correct horse battery"}';
  const { signal_id: id, job_id: jobId } = (await api.deliver('/hooks/gh', signed(secret, body)))
    .body;
  const signal = await api.ask(`/signals/${String(id)}`);
  expect(signal.text).not.toContain('correct horse');
  const job = await api.server.instance.engine.ledger.jobs.find(String(jobId));
  expect(job?.payload).toBe(body);
});

test('two concurrent changes are never mixed', async () => {
  const api = await open();
  await add(api, github);
  const edit = (changes: object): Promise<Reply> =>
    api.ask('/webhooks/gh', { method: 'PATCH', body: JSON.stringify(changes) });
  const replies = await Promise.all([
    edit({ title: 'A' }),
    edit({ description: 'B' }),
    edit({ rate_limit_per_minute: 7 }),
  ]);
  const { body } = await shown(api, 'gh');
  const found = [
    body['title'] === 'A',
    body['description'] === 'B',
    body['rate_limit_per_minute'] === 7,
  ];
  expect(replies.map(({ status }) => status === 200)).toEqual(found);
  expect(replies.filter(({ status }) => status !== 200).map(({ status }) => status)).toEqual(
    found.filter((isDone) => !isDone).map(() => 503),
  );
});

test('a key of the caller makes a change once, also with PATCH', async () => {
  const api = await open();
  await add(api, github);
  const headers = { 'idempotency-key': 'k' };
  const edit = (body: string): Promise<Reply> =>
    api.ask('/webhooks/gh', { method: 'PATCH', body, headers });
  const first = await edit('{"title":"A"}');
  expect(await edit('{"title":"A"}')).toMatchObject({ status: 200, body: first.body });
  expect((await edit('{"title":"B"}')).status).toBe(422);
});

test('asking again with the same key opens no second webhook', async () => {
  const api = await open();
  const ask = (entry: JsonObject, key: string): Promise<Reply> =>
    api.ask('/webhooks', { body: JSON.stringify(entry), headers: { 'idempotency-key': key } });
  const made = { title: 'T', signal: 'a.b', auth_mode: 'github' };
  const [first, again] = [await ask(made, 'k-1'), await ask(made, 'k-1')];
  expect([first.status, again.status]).toEqual([201, 201]);
  expect(again.body).toMatchObject({ id: first.body['id'], secret: null });
  const brought = { ...made, id: 'theirs', secret: 'the-secret-of-the-sender' };
  expect(await ask(brought, 'k-2')).toMatchObject({ status: 201, body: { secret: null } });
  expect((await ask(brought, 'k-2')).status).toBe(201);
  expect((await ask({ ...brought, secret: 'another-one-of-theirs' }, 'k-2')).status).toBe(422);
  expect((await ask({ ...made, secret: 'abc-123' }, 'k-3')).text).toContain('fewer than 8');
  expect((await api.ask('/webhooks')).body['webhooks']).toHaveLength(2);
});
