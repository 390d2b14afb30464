/** The source of deliveries can't be forged, and an endpoint without a secret can't be opened. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { limits } from '../../src/base/limits.ts';
import { startApi } from '../support/api-server.ts';
import {
  mac,
  openAttackedService,
  type AttackedService,
  type Lines,
} from '../support/webhook-attacks.ts';

const BODY = '{"message":"hi"}';
let at: AttackedService;
let secret: string;
beforeAll(async () => {
  at = await openAttackedService({
    webhooks: { listen: '127.0.0.1:0', trusted_proxies: ['10.0.0.0/8'] },
  });
  secret = await at.open('gh', { plugin: 'echo', auth_mode: 'github' });
});
afterAll(() => at.api.close());

function signed(key: string): Lines {
  return [['x-hub-signature-256', `sha256=${mac(key, BODY, 'hex')}`]];
}

test('22 a sender that fails is counted by its address, whatever address it claims', async () => {
  const claim = (n: number): Lines => [
    ['x-forwarded-for', `203.0.113.${n}, 10.0.0.${n}`],
    ['x-real-ip', `203.0.113.${n}`],
    ['forwarded', `for=203.0.113.${n}`],
    ['x-forwarded-for', `198.51.100.${n}`],
  ];
  await at.comesToNothing(async () => {
    const statuses: number[] = [];
    for (let n = 0; n < limits.webhookFailuresMax + 3; n += 1) {
      statuses.push((await at.post('/hooks/gh', [...signed('wrong'), ...claim(n)], BODY)).status);
    }
    const tried = Array.from({ length: limits.webhookFailuresMax }, () => 401);
    expect(statuses).toEqual([...tried, 429, 429, 429]);
    for (const path of ['/hooks/gh', '/hooks/nobody']) {
      const response = await at.post(path, [...signed('wrong'), ...claim(1)], BODY);
      expect([response.status, response.text]).toEqual([429, '{"error":"rate_limited"}\n']);
      expect(response.head).toMatch(/^retry-after: [1-9]\d*\r$/im);
    }
    const large = JSON.stringify({ message: 'x'.repeat(limits.webhookSmallBodyBytes) });
    const proof: Lines = [['x-hub-signature-256', `sha256=${mac(secret, large, 'hex')}`]];
    expect((await at.post('/hooks/gh', proof, large)).status).toBe(429);
  });
  const { deliveries } = (await at.api.ask('/webhooks/deliveries?limit=500')).body;
  const sources = new Set((deliveries as { source: string }[]).map(({ source }) => source));
  expect([...sources]).toEqual(['127.0.0.1']);
  expect(deliveries).toHaveLength(limits.webhookRejectionsKeptMax);
  expect((await at.post('/hooks/gh', signed(secret), BODY)).status).toBe(202);
});

test('a sender that copies a delivery uses nothing of the budget of its webhook', async () => {
  const key = await at.open('few', {
    plugin: 'echo',
    auth_mode: 'github',
    rate_limit_per_minute: 3,
  });
  const statuses: number[] = [];
  for (let n = 0; n < 10; n += 1) {
    statuses.push((await at.post('/hooks/few', signed(key), BODY)).status);
  }
  expect(statuses).toEqual([202, ...Array.from({ length: 9 }, () => 200)]);
  const other = '{"message":"another"}';
  const proof: Lines = [['x-hub-signature-256', `sha256=${mac(key, other, 'hex')}`]];
  expect((await at.post('/hooks/few', proof, other)).status).toBe(202);
});

describe('19 without a secret the service does not start', () => {
  const endpoint = {
    path: '/static',
    plugin: 'echo',
    secret_ref: 'of_files',
    signature_header: 'X-Signature',
  };
  const webhooks = { listen: '127.0.0.1:0', endpoints: [endpoint] };
  test.each([
    ['an empty one', { webhooks, tokens: [{ name: 'of_files', key: '', scopes: [] }] }],
    ['a blank one', { webhooks, tokens: [{ name: 'of_files', key: '  ', scopes: [] }] }],
    [
      'one that was not filled in',
      { webhooks, tokens: [{ name: 'of_files', key: '${NOT_THERE}' }] },
    ],
    ['no name of one', { webhooks: { ...webhooks, endpoints: [{ ...endpoint, secret_ref: '' }] } }],
  ])('%s', async (_, setup) => {
    await expect(startApi(setup)).rejects.toThrow();
  });

  test("a webhook can't be created or left without a secret", async () => {
    const empty = await at.api.ask('/credentials', { body: '{"name":"blank","value":""}' });
    expect(empty.status).toBe(400);
    const entry = { title: 'T', id: 'h', plugin: 'echo', auth_mode: 'stripe', credential: 'blank' };
    const opened = await at.api.ask('/webhooks', { body: JSON.stringify(entry) });
    expect(opened.status).toBe(404);
  });

  test('a credential that is gone leaves a webhook that refuses every delivery', async () => {
    await at.api.ask('/credentials', { body: '{"name":"theirs","value":"whsec_0123"}' });
    await at.open('gone', { plugin: 'echo', auth_mode: 'slack', credential: 'theirs' });
    const deleted = await at.api.ask('/credentials/theirs/delete', { body: '{}' });
    expect(deleted.status).toBe(200);
    const { engine } = at.api.server.instance;
    const known = await engine.webhookIntake.store.find('gone');
    expect(known?.secrets).toEqual([]);
  });
});

describe('a secret that is easy to guess is refused', () => {
  const short = 'x'.repeat(limits.webhookSecretCharsMin - 1);
  const entry = { title: 'T', id: 'short', plugin: 'echo', auth_mode: 'hmac', hmac_header: 'X-S' };

  test('given with the webhook', async () => {
    const response = await at.api.ask('/webhooks', {
      body: JSON.stringify({ ...entry, secret: short }),
    });
    expect([response.status, response.text]).toEqual([
      400,
      expect.stringContaining('fewer than 8'),
    ]);
    expect(response.text).not.toContain(short);
  });

  test('as a credential', async () => {
    await at.api.ask('/credentials', { body: JSON.stringify({ name: 'short', value: short }) });
    const body = JSON.stringify({ ...entry, credential: 'short' });
    const response = await at.api.ask('/webhooks', { body });
    const words = 'the credential short has fewer than 8 characters';
    expect([response.status, response.text]).toEqual([400, expect.stringContaining(words)]);
  });

  test('in a rotation', async () => {
    await at.open('turned', { ...entry, id: 'turned' });
    const response = await at.api.ask('/webhooks/turned/rotate', {
      body: JSON.stringify({ secret: short }),
    });
    expect(response.status).toBe(400);
  });
});

const elsewhere: readonly (readonly [number, string, string])[] = [
  [1, 'webhook/attacks-proof.test.ts', '1 nothing'],
  [2, 'webhook/attacks-proof.test.ts', '2 empty'],
  [3, 'webhook/attacks-proof.test.ts', '3 none'],
  [4, 'webhook/attacks-proof.test.ts', '4 longer'],
  [5, 'webhook/attacks-proof.test.ts', '5 the other encoding'],
  [6, 'webhook/attacks-proof.test.ts', '6 written anew'],
  [7, 'webhook/attacks-proof.test.ts', '7 with one space more'],
  [8, 'webhook/attacks-proof.test.ts', '8 two headers'],
  [9, 'webhook/attacks-proof.test.ts', '9 a thousand are not tried'],
  [10, 'webhook/attacks-time.test.ts', '10 as %j is 401'],
  [11, 'webhook/attacks-time.test.ts', '11 is good to the second'],
  [12, 'webhook/attacks-time.test.ts', '12 a separator inside of a part'],
  [13, 'webhook/attacks-time.test.ts', '13 the same bytes again are 200'],
  [14, 'webhook/attacks-time.test.ts', '14 later they are 401'],
  [15, 'webhook/attacks-time.test.ts', '15 with replay strict, the same bytes under an id'],
  [16, 'webhook/attacks-proof.test.ts', '16 the proof of another webhook'],
  [17, 'webhook/attacks-proof.test.ts', '17 the secret of another tenant'],
  [18, 'webhook/attacks-time.test.ts', '18 a secret that was rotated'],
  [
    19,
    'webhook/webhooks.test.ts',
    'a static endpoint without a secret keeps the service from starting',
  ],
  [20, 'webhook/attacks-body.test.ts', '20 a compressed body is 415'],
  [21, 'webhook/attacks-body.test.ts', '21 a body that dribbles'],
  [21, 'http/slow-clients.test.ts', 'that never ends its body gets 408 and is cut off'],
  [22, 'webhook/webhooks.test.ts', 'others behind the same proxy are not'],
  [23, 'webhook/attacks-body.test.ts', '23 a body is what it was declared to be'],
  [24, 'webhook/deliveries.crash.test.ts', 'a crash %s the commit leaves %i jobs'],
  [24, 'prove/webhook-kills.test.ts', 'kills under a load of deliveries'],
  [25, 'webhook/burst.test.ts', 'a burst past the limit'],
];

test.each(elsewhere)('attack %i is tried in %s: %s', async (_, file, title) => {
  expect(await readFile(join(import.meta.dirname, '..', file), 'utf8')).toContain(title);
});
