/** Null counts as absent, because programs send it for missing fields, as documents 4 and 5 allow. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startApi, type Reply, type TestApi } from '../support/api-server.ts';

let api: TestApi;
beforeAll(async () => {
  api = await startApi({ webhooks: { listen: '127.0.0.1:0' } });
});
afterAll(() => api.close());

function send(path: string, body: object, method = 'POST'): Promise<Reply> {
  return api.ask(path, { method, body: JSON.stringify(body) });
}

const unsaid = { subject: null, metadata: null, occurred_at: null, source_event_id: null };
const paid = { type: 'order.paid', source: 'shop', dedupe_key: null, ...unsaid };

test('a signal whose optional fields are null is one that does not have them', async () => {
  const first = await send('/signals', { ...paid, data: { kept: null } });
  expect(first).toMatchObject({ status: 201, body: { created: true } });
  const shown = await api.ask(`/signals/${String(first.body['signal_id'])}`);
  expect(shown.body).toMatchObject({ dedupe_key: null, subject_id: null, data: { kept: null } });
  const many = await send('/signals/batch', { signals: [paid, { ...paid, data: null }] });
  expect(many.body).toMatchObject({ signals: [{ created: true }, { created: true }] });
});

test('required fields are required, and mistyped ones are named', async () => {
  expect(await send('/signals', { ...paid, source: null })).toMatchObject({
    status: 400,
    body: { error: 'source is required', place: 'source' },
  });
  expect((await send('/signals', { ...paid, sorce: null })).body).toMatchObject({
    error: 'sorce is not a known key',
  });
});

const overrides = { provider: null, model: null, reasoning_effort: null };
const guards = { quiet_start: null, quiet_end: null, dependency: null };
const hook = { id: 'said', title: 'Said', plugin: 'echo', mode: null, ...overrides, ...guards };

test('a webhook takes null where document 4 has it, and loses a setting by it', async () => {
  const made = await send('/webhooks', hook);
  expect([made.status, made.body]).toEqual([201, expect.objectContaining({ id: 'said' })]);
  expect((await send('/webhooks/said', { delivery_header: 'X-Id' }, 'PATCH')).status).toBe(200);
  expect((await api.ask('/webhooks/said')).body['delivery_header']).toBe('X-Id');
  expect((await send('/webhooks/said', { delivery_header: null }, 'PATCH')).status).toBe(200);
  expect((await api.ask('/webhooks/said')).body['delivery_header']).toBeNull();
  expect((await send('/webhooks/said', { title: null }, 'PATCH')).body).toMatchObject({
    error: 'title is required',
  });
});

test('only a setting that a webhook has can be removed from it, in either spelling', async () => {
  const edit = (changes: object): Promise<Reply> => send('/webhooks/said', changes, 'PATCH');
  expect((await edit({ delivery_header: 'X-Id' })).status).toBe(200);
  const names = expect.stringContaining('delivery_header');
  for (const unset of ['nosuch', 'id', 'token', 'unset', 'toString']) {
    expect(await edit({ unset: [unset] })).toMatchObject({
      status: 400,
      body: { code: 'INPUT_INVALID', error: names },
    });
  }
  expect((await edit({ unset: ['delivery-header'] })).status).toBe(200);
  expect((await api.ask('/webhooks/said')).body['delivery_header']).toBeNull();
});

test('an edit that changes nothing is refused and is not on record', async () => {
  const before = (await api.ask('/directives')).text;
  const direct = (changes: object): Promise<Reply> =>
    send('/directives', { type: 'webhook.update', params: { id: 'said', changes } });
  for (const refused of [
    await send('/webhooks/said', {}, 'PATCH'),
    await send('/webhooks/said', { unset: [] }, 'PATCH'),
    await send('/webhooks/said', { dry_run: true }, 'PATCH'),
    await direct({}),
  ]) {
    expect(refused).toMatchObject({
      status: 400,
      body: { code: 'INPUT_INVALID', error: expect.stringContaining('nothing') },
    });
  }
  expect(await direct({ nosuch: null })).toMatchObject({
    status: 400,
    body: { error: expect.stringContaining('nosuch'), hint: expect.stringContaining('plugin') },
  });
  expect((await api.ask('/directives')).text).toBe(before);
});

/** The fields of document 4 without secrets, and the later ones. */
const fields = [
  'id title description mode prompt_template enabled task_folder created_at trigger_count',
  'last_triggered_at last_error auth_mode hmac_header hmac_algorithm hmac_encoding hmac_sig_prefix',
  'hmac_sig_regex hmac_payload_prefix_regex provider model reasoning_effort cli_parameters',
  'quiet_start quiet_end dependency plugin command pipeline signal max_body_bytes',
  'rate_limit_per_minute respond respond_within delivery_header',
].flatMap((line) => line.split(' '));

const limited = { max_body_bytes: 1_048_576, rate_limit_per_minute: 600, respond: 'accepted' };
const noHmac = { hmac_header: null, hmac_algorithm: null, hmac_sig_prefix: null };
const noTask = { task_folder: null, cli_parameters: null, quiet_action: null };

test.each([
  [
    { plugin: 'echo' },
    { command: 'handle', pipeline: null, ...limited, ...noHmac, ...noTask, respond_within: null },
  ],
  [
    { plugin: 'echo', command: 'poll', respond: 'result', rate_limit_per_minute: 7 },
    { command: 'poll', respond: 'result', respond_within: '10s', rate_limit_per_minute: 7 },
  ],
  [
    { signal: 'a.b', auth_mode: 'hmac', hmac_header: 'X-Sig', hmac_algorithm: 'sha1' },
    { command: null, hmac_encoding: 'hex', hmac_sig_prefix: 'sha1=', hmac_sig_regex: null },
  ],
])('%j is shown with all fields and what counts where nothing was said', async (said, shown) => {
  const made = await send('/webhooks', { title: 'T', ...said });
  const one = await api.ask(`/webhooks/${String(made.body['id'])}`);
  expect(one.body).toMatchObject({ ...said, ...shown, last_error: null, description: '' });
  expect(Object.keys(one.body)).toEqual(expect.arrayContaining(fields));
  const { webhooks } = (await api.ask('/webhooks')).body as { webhooks: unknown[] };
  // Only the response for one webhook has its credentials, because its secrets are decrypted for
  // that.
  const { credentials: _, ...listed } = one.body;
  expect(webhooks).toContainEqual(listed);
});

test('a directive without a key may say so', async () => {
  const nothing = { idempotency_key: null, correlation_id: null, causation_id: null, run_at: null };
  const request = { type: 'plugin.disable', params: { plugin: 'echo' }, dry_run: true, ...nothing };
  expect((await send('/directives', request)).status).toBe(200);
});

test("a filter that is null by mistake isn't a filter, and is refused", async () => {
  expect(await send('/jobs/cancel', { plugin: null, status: ['queued'] })).toMatchObject({
    status: 400,
    body: { error: 'plugin must be text, not null' },
  });
});
