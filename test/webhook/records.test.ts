/** The record of a delivery, and its hidden parts. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { limits } from '../../src/base/limits.ts';
import {
  mac,
  openAttackedService,
  parseResponse,
  type AttackedService,
  type Lines,
} from '../support/webhook-attacks.ts';

const KEY = 'a-secret-of-the-files';
const endpoint = {
  path: '/static',
  plugin: 'echo',
  secret_ref: 'of_files',
  signature_header: 'X-Sig',
};

let at: AttackedService;
beforeAll(async () => {
  at = await openAttackedService({
    webhooks: { listen: '127.0.0.1:0', endpoints: [endpoint] },
    tokens: [{ name: 'of_files', key: KEY, scopes: [] }],
  });
});
afterAll(() => at.api.close());

interface Row {
  readonly headers: readonly (readonly [string, string])[];
  readonly reason: string | null;
  readonly body_bytes: number;
}

async function rowsOf(id: string): Promise<readonly Row[]> {
  const { body } = await at.api.ask(`/webhooks/deliveries?id=${encodeURIComponent(id)}`);
  return body['deliveries'] as Row[];
}

describe('a body that is larger than its webhook takes', () => {
  const body = JSON.stringify({ message: 'x'.repeat(100) });
  const post = (id: string, key: string, sent = body) =>
    at.post(`/hooks/${id}`, [['x-gitlab-token', key]], sent);

  test('is reported only to a sender with the secret, and recorded', async () => {
    const entry = { plugin: 'echo', auth_mode: 'gitlab', max_body_bytes: 50 };
    const secret = await at.open('small', entry);
    expect(await post('small', 'wrong')).toMatchObject({
      status: 401,
      text: '{"error":"unauthorized"}\n',
    });
    expect((await post('nobody', secret)).status).toBe(404);
    expect(await post('small', secret)).toMatchObject({
      status: 413,
      text: '{"error":"payload_too_large"}\n',
    });
    await expect
      .poll(() => rowsOf('small'))
      .toMatchObject([
        { verdict: 'refused', reason: 'too_large', body_bytes: body.length },
        { verdict: 'refused', reason: 'token_wrong' },
      ]);
    await at.api.ask('/webhooks/small', { method: 'PATCH', body: '{"enabled":false}' });
    expect((await post('small', secret)).status).toBe(404);
  });

  test('is 413 for every sender if no webhook accepts as much', async () => {
    const sent = 'x'.repeat(limits.webhookBodyBytesMax + 1);
    expect((await post('small', 'wrong', sent)).status).toBe(413);
    expect((await post('nobody', 'wrong', sent)).status).toBe(413);
  });
});

test('the size of what no webhook takes is what was said, or what came', async () => {
  await at.open('vast', { plugin: 'echo', auth_mode: 'gitlab' });
  const most = limits.webhookBodyBytesMax;
  const head = 'POST /hooks/vast HTTP/1.1\r\nhost: h\r\n';
  for (const said of [3 * most, 1e15, 1e18]) {
    const response = parseResponse(await at.raw([`${head}content-length: ${said}\r\n\r\n`]));
    expect(response.status).toBe(413);
  }
  const chunk = `${(most + 1).toString(16)}\r\n${'x'.repeat(most + 1)}\r\n`;
  const sent = await at.raw([`${head}transfer-encoding: chunked\r\n\r\n`, chunk]);
  expect(parseResponse(sent).status).toBe(413);
  await expect.poll(() => rowsOf('vast')).toHaveLength(4);
  const sizes = (await rowsOf('vast')).map(({ body_bytes: size }) => size);
  const [came, ...said] = sizes.toSorted((a, b) => a - b);
  expect(came).toBeGreaterThan(most);
  expect(came).toBeLessThanOrEqual(most + 1);
  expect(said).toEqual([3 * most, 1e15, Number.MAX_SAFE_INTEGER]);
});

describe('the reason of a refused body is for the operator alone', () => {
  test.each([
    [
      'number',
      'invalid_json',
      'a number at $.items.1.id with too many characters',
      `{"items":[{},{"id":${'9'.repeat(1001)}}]}`,
    ],
    ['twice', 'invalid_json', 'has a key twice in one object', '{"a":1,"a":2}'],
    ['null', 'invalid_json', String.raw`$.a\u0000b contains`, String.raw`{"a\u0000b":1}`],
    ['text', 'invalid_json', 'is not JSON', 'no'],
    ['list', 'body_must_be_object', 'is not an object', '[]'],
    ['event', 'invalid_event', 'specversion', '{"type":"a.b"}'],
  ])('%s is %s: %s', async (id, word, why, body) => {
    const secret = await at.open(id, { plugin: 'echo', auth_mode: 'gitlab' });
    const type = word === 'invalid_event' ? 'application/cloudevents+json' : 'application/json';
    const lines: Lines = [
      ['x-gitlab-token', secret],
      ['content-type', type],
    ];
    const response = await at.post(`/hooks/${id}`, lines, body);
    expect([response.status, response.text]).toEqual([400, `{"error":"${word}"}\n`]);
    await expect.poll(() => rowsOf(id)).toHaveLength(1);
    const [row] = await rowsOf(id);
    expect(row?.reason).toMatch(new RegExp(`^${word}: `));
    expect(row?.reason).toContain(why);
  });

  test('in a few words, whatever the body says', async () => {
    const secret = await at.open('wordy', { plugin: 'echo', auth_mode: 'gitlab' });
    const body = JSON.stringify({ ['k'.repeat(10_000)]: '\u0000' });
    expect((await at.post('/hooks/wordy', [['x-gitlab-token', secret]], body)).status).toBe(400);
    await expect.poll(() => rowsOf('wordy')).toHaveLength(1);
    const [row] = await rowsOf('wordy');
    expect(row?.reason?.length).toBeLessThan(limits.webhookReasonChars + 50);
  });
});

describe('the headers that prove a delivery are not kept', () => {
  const body = '{"message":"hi"}';
  const shownOf = async (id: string, names: readonly string[]): Promise<unknown[]> => {
    const rows = await rowsOf(id);
    return rows.map(({ headers }) =>
      headers.filter(([name]) => names.includes(name)).map(([, value]) => value),
    );
  };

  test.each([
    ['taken', 202],
    ['refused', 401],
  ])('hmac, when the delivery is %s', async (what, status) => {
    const id = `hmac-${what}`;
    const entry = { plugin: 'echo', auth_mode: 'hmac', hmac_header: 'X-Webhook-Check' };
    const secret = await at.open(id, entry);
    const sent = mac(status === 202 ? secret : 'wrong', body, 'hex');
    const lines: Lines = [
      ['X-Webhook-Check', sent],
      ['x-said', 'shown'],
    ];
    expect((await at.post(`/hooks/${id}`, lines, body)).status).toBe(status);
    await expect
      .poll(() => shownOf(id, ['x-webhook-check', 'x-said']))
      .toEqual([['[redacted]', 'shown']]);
  });

  test('signed, with the parts that are signed beside the body', async () => {
    const signed = { header: 'X-S', payload: '{header:X-Nonce}.{body}' };
    const secret = await at.open('general', { plugin: 'echo', auth_mode: 'signed', signed });
    const lines: Lines = [
      ['x-nonce', 'n-1'],
      ['x-s', mac(secret, `n-1.${body}`, 'hex')],
    ];
    expect((await at.post('/hooks/general', lines, body)).status).toBe(202);
    expect(await shownOf('general', ['x-s', 'x-nonce'])).toEqual([['[redacted]', '[redacted]']]);
  });

  test('an endpoint of the configuration', async () => {
    const lines: Lines = [['x-sig', mac(KEY, body, 'hex')]];
    expect((await at.post('/static', lines, body)).status).toBe(202);
    expect(await shownOf('/static', ['x-sig'])).toEqual([['[redacted]']]);
  });

  test('whichever of the names of a preset they come under', async () => {
    const secret = await at.open('std', { plugin: 'echo', auth_mode: 'standard-webhooks' });
    const stamp = String(Math.floor(Date.now() / 1000));
    const key = Buffer.from(secret.replace('whsec_', ''), 'base64');
    const lines: Lines = [
      ['svix-id', 'd-1'],
      ['svix-timestamp', stamp],
      ['svix-signature', `v1,${mac(key, `d-1.${stamp}.${body}`, 'base64')}`],
    ];
    expect((await at.post('/hooks/std', lines, body)).status).toBe(202);
    const names = ['svix-id', 'svix-timestamp', 'svix-signature'];
    expect(await shownOf('std', names)).toEqual([names.map(() => '[redacted]')]);
  });
});
