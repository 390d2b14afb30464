/** A token can't run a denied command through a webhook. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { OWNER, startApi, type Reply, type TestApi } from '../support/api-server.ts';
import { mac } from '../support/webhook-attacks.ts';

const DENIED = 'denied-token-0123456789abcdef';
const LIMITED = 'limited-token-0123456789abcdef';
const LIMITS = ['webhooks:rw', 'echo:deny:handle'];

const KEY = 'a-secret-of-the-files';
const endpoint = { path: '/static', plugin: 'echo', secret_ref: 's', signature_header: 'X-Sig' };

let api: TestApi;
beforeAll(async () => {
  const tokens = [
    { name: 'owner', token: OWNER, scopes: ['*'] },
    { name: 'denied', token: DENIED, scopes: ['*', 'echo:deny:handle'] },
    { name: 'limited', token: LIMITED, scopes: LIMITS },
  ];
  api = await startApi({
    api: { auth: { tokens } },
    webhooks: { listen: '127.0.0.1:0', endpoints: [endpoint] },
    tokens: [{ name: 's', key: KEY, scopes: [] }],
    routes: [
      { event_type: 'order.paid', to: 'echo' },
      { event_type: 'code.changed.push', to: 'echo' },
    ],
    pipelines: [
      { name: 'care', steps: [{ uses: 'teller.poll' }, { uses: 'echo.handle' }] },
      { name: 'mends', on_halt: 'echo.handle', steps: [{ uses: 'teller.poll' }] },
      { name: 'hears', on: 'order.lost', steps: [{ uses: 'echo.handle' }] },
      { name: 'pulls', on: 'code.seen.pull_request', steps: [{ uses: 'echo.handle' }] },
    ],
  });
});
afterAll(() => api.close());

const post = (path: string, body: object = {}, token = DENIED): Promise<Reply> =>
  api.ask(path, { body: JSON.stringify(body), token });
const refused = { status: 403, body: { code: 'FORBIDDEN' } };

test.each([
  ['its command', { plugin: 'echo', command: 'handle' }],
  ['its usual command', { plugin: 'echo' }],
  ['a pipeline with it', { pipeline: 'care' }],
  ['a pipeline that runs it after a failure', { pipeline: 'mends' }],
  ['a signal that is routed to it', { signal: 'order.paid' }],
  ['a signal that starts a pipeline with it', { signal: 'order.lost' }],
  ['a signal that one event type routes to it', { signal: 'code.changed' }],
  ['a signal that one event type starts a pipeline with it', { signal: 'code.seen' }],
])('no webhook is created for %s', async (_what, target) => {
  const sent = { title: 'T', ...target };
  expect(await post('/webhooks', sent)).toMatchObject(refused);
  expect(await post('/webhooks', { ...sent, dry_run: true })).toMatchObject(refused);
  expect((await api.ask('/webhooks')).body).toEqual({ webhooks: [], next_cursor: null });
});

test('no webhook is changed to a denied command, tested, replayed or given a new secret', async () => {
  const other = { id: 'other', title: 'T', plugin: 'echo', command: 'poll', auth_mode: 'github' };
  expect((await post('/webhooks', other)).status).toBe(201);
  expect((await post('/webhooks/other/test')).status).toBe(200);
  const change = (body: object) =>
    api.ask('/webhooks/other', { method: 'PATCH', body: JSON.stringify(body), token: DENIED });
  expect(await change({ command: 'handle' })).toMatchObject(refused);
  expect((await change({ title: 'Another' })).status).toBe(200);
  const theirs = { id: 'theirs', title: 'T', plugin: 'echo', auth_mode: 'github' };
  expect((await post('/webhooks', theirs, OWNER)).status).toBe(201);
  expect((await post('/webhooks/theirs/test', {}, OWNER)).status).toBe(200);
  const { body } = await api.ask('/webhooks/deliveries?id=theirs');
  const [delivery] = body['deliveries'] as { delivery_id: string }[];
  const before = (await api.ask('/jobs')).body['total'];
  for (const token of [DENIED, LIMITED]) {
    expect(await post('/webhooks/theirs/test', {}, token)).toMatchObject(refused);
  }
  const replay = `/webhooks/deliveries/${delivery?.delivery_id ?? ''}/replay`;
  expect(await post(replay)).toMatchObject(refused);
  expect(await post('/webhooks/theirs/rotate')).toMatchObject(refused);
  expect((await api.ask('/jobs')).body['total']).toBe(before);
  const remove = { method: 'DELETE', token: DENIED };
  expect((await api.ask('/webhooks/theirs', remove)).status).toBe(200);
});

test('a delivery to an endpoint for it is not replayed', async () => {
  const body = '{"message":"hi"}';
  const headers = { 'x-sig': mac(KEY, body, 'hex') };
  expect((await api.deliver('/static', { body, headers })).status).toBe(202);
  const { deliveries } = (await api.ask('/webhooks/deliveries?id=/static')).body;
  const [delivery] = deliveries as { delivery_id: string }[];
  const replay = `/webhooks/deliveries/${delivery?.delivery_id ?? ''}/replay`;
  expect(await post(replay)).toMatchObject(refused);
  expect((await post(replay, {}, OWNER)).status).toBe(200);
});
