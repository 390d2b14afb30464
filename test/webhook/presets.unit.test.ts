import { describe, expect, test } from 'vitest';
import { webhookEntrySchema, toWebhook } from '../../src/webhook/webhook.ts';
import { presets } from '../../src/webhook/verify/presets.ts';
import type { WebhookRequest } from '../../src/webhook/request.ts';
import type { Scheme } from '../../src/webhook/verify/verify.ts';
import { findDeliveryId, verifyDelivery } from '../../src/webhook/verify/verify.ts';
import { AT, BODY, makeRequest, mutate, sign } from './support.ts';
import { form, STANDARD_SECRET, vectors, type Vector } from './vectors.ts';

function judge({ preset, secret, at = AT }: Vector, request: WebhookRequest, secrets = [secret]) {
  return verifyDelivery(presets[preset], request, secrets, at);
}

function withHeader(request: WebhookRequest, name: string, value: string): WebhookRequest {
  const headers = request.headers.map(([key, old]) => [key, key === name ? value : old] as const);
  return { ...request, headers };
}

describe.each(vectors)('N-02 $name', (vector) => {
  const { request, proof } = vector;
  const [header, from] = proof;
  const value = request.headers.find(([name]) => name === header)?.[1] ?? '';

  test('is accepted, also by the second of two secrets (N-09)', () => {
    expect(judge(vector, request)).toMatchObject({ kind: 'accepted', secretIndex: 0 });
    const rotated = judge(vector, request, [STANDARD_SECRET.slice(0, -1), vector.secret]);
    expect(rotated).toMatchObject({ kind: 'accepted', secretIndex: 1 });
    expect(judge(vector, request, ['retired'])).toMatchObject({ kind: 'refused' });
  });

  test('is known when it comes again, where its body is proven', () => {
    const isProven = vector.preset !== 'gitlab';
    expect('replayKey' in judge(vector, request)).toBe(isProven);
  });

  test('is refused with any one character of the proof changed', () => {
    for (let at = from; at < value.length; at += 1) {
      const changed = withHeader(request, header, mutate(value, at));
      expect(judge(vector, changed), `at ${at}`).toMatchObject({ kind: 'refused' });
    }
  });

  test('is refused with any one byte of the body changed, one more and one less', () => {
    if (vector.preset === 'gitlab') return;
    const body = request.rawBody.toString();
    const bodies = Array.from(body, (_, at) => mutate(body, at));
    for (const changed of [...bodies, `${body}x`, body.slice(0, -1), '']) {
      const verdict = judge(vector, { ...request, rawBody: Buffer.from(changed) });
      expect(verdict, changed).toMatchObject({ kind: 'refused' });
    }
  });

  test('is refused with no proof, an empty one, two, a cut one and a longer one', () => {
    const without = request.headers.filter(([name]) => name !== header);
    expect(judge(vector, { ...request, headers: without })).toEqual({
      kind: 'refused',
      reason: 'header_missing',
    });
    const twice = { ...request, headers: [...request.headers, [header, value] as const] };
    expect(judge(vector, twice)).toEqual({ kind: 'refused', reason: 'header_repeated' });
    const others = [
      '',
      'none',
      value.slice(0, -1),
      `${value}=`,
      `${value}0`,
      value.slice(from + 1),
    ];
    for (const other of [...others, `${value.slice(0, from)}é€`, 'x'.repeat(100_000)]) {
      expect(judge(vector, withHeader(request, header, other)), other.slice(0, 100)).toMatchObject({
        kind: 'refused',
      });
    }
  });

  test('is refused in another case, and without a secret', () => {
    const upper = withHeader(request, header, value.slice(0, from) + flip(value.slice(from)));
    expect(judge(vector, upper)).toMatchObject({ kind: 'refused' });
    for (const secrets of [[], ['']]) {
      expect(judge(vector, request, secrets)).toEqual({
        kind: 'refused',
        reason: 'secret_missing',
      });
    }
  });
});

function flip(text: string): string {
  const upper = text.toUpperCase();
  return upper === text ? text.toLowerCase() : upper;
}

describe('the time of a signature', () => {
  const key = Buffer.from(STANDARD_SECRET.slice(6), 'base64');
  const standard = (timestamp: string, id = 'msg_1', body = BODY, signatures?: string) =>
    makeRequest(
      {
        'webhook-id': id,
        'webhook-timestamp': timestamp,
        'webhook-signature':
          signatures ?? `v1,${sign(key, `${id}.${timestamp}.${body}`, 'sha256', 'base64')}`,
      },
      body,
    );
  const judgeStandard = (request: WebhookRequest, nowMs = AT) =>
    verifyDelivery(presets['standard-webhooks'], request, [STANDARD_SECRET], nowMs);

  test.each([
    [-300_000, 'accepted'],
    [-301_000, 'timestamp_ahead'],
    [300_000, 'accepted'],
    [301_000, 'timestamp_old'],
  ])('W-10, N-01 may be five minutes off: %i ms', (off, expected) => {
    const verdict = judgeStandard(standard('1700000000'), AT + off);
    expect(verdict.kind === 'refused' ? verdict.reason : verdict.kind).toBe(expected);
  });

  test.each(['soon', '-1700000000', '1e20', '1700000000000000000', '1700000000 ', '0x65'])(
    'N-01 must be a number: %j',
    (timestamp) => {
      const verdict = judgeStandard(standard(timestamp));
      expect(verdict).toEqual({ kind: 'refused', reason: 'timestamp_malformed' });
    },
  );

  test('N-01 and the id must be there, and have no dot', () => {
    for (const missing of ['webhook-id', 'webhook-timestamp']) {
      const request = standard('1700000000');
      const headers = request.headers.filter(([name]) => name !== missing);
      expect(judgeStandard({ ...request, headers })).toMatchObject({ reason: 'header_missing' });
    }
    const forged = standard('1700000000', 'msg.1');
    expect(judgeStandard(forged)).toEqual({ kind: 'refused', reason: 'value_ambiguous' });
  });

  test('N-01 may sign an empty body; other versions are ignored, one good signature is enough', () => {
    const good = standard('1700000000', 'msg_1', '');
    expect(judgeStandard(good)).toMatchObject({ kind: 'accepted', deliveryId: 'msg_1' });
    const right = sign(key, `msg_1.1700000000.${BODY}`, 'sha256', 'base64');
    const wrong = sign('other', `msg_1.1700000000.${BODY}`, 'sha256', 'base64');
    const list = `v1a,${right} v2,x v1,${wrong} v1,${right}`;
    expect(judgeStandard(standard('1700000000', 'msg_1', BODY, list)).kind).toBe('accepted');
    const others = `v1a,${right} v2,${right}`;
    expect(judgeStandard(standard('1700000000', 'msg_1', BODY, others))).toMatchObject({
      reason: 'signature_malformed',
    });
  });

  test('N-01 is signed by the same secret with and without whsec_', () => {
    const bare = STANDARD_SECRET.slice(6);
    const verdict = verifyDelivery(presets.svix, standard('1700000000'), [bare], AT);
    expect(verdict).toMatchObject({ kind: 'accepted', timestampMs: AT });
  });

  test('may come under the names of svix, of whom it was first', () => {
    const svix = vectors.find(({ preset }) => preset === 'svix');
    if (svix === undefined) throw new Error('there is no such vector');
    expect(judgeStandard(svix.request)).toMatchObject({ kind: 'accepted', deliveryId: 'msg_1' });
  });

  test('a thousand signatures are not tried', () => {
    const list = Array.from({ length: 1000 }, () => 'v1,x').join(' ');
    expect(judgeStandard(standard('1700000000', 'msg_1', BODY, list))).toMatchObject({
      kind: 'refused',
      reason: 'header_too_long',
    });
    const nine = Array.from({ length: 9 }, () => 'v1,x').join(' ');
    expect(judgeStandard(standard('1700000000', 'msg_1', BODY, nine))).toMatchObject({
      reason: 'signatures_too_many',
    });
  });
});

describe('stripe', () => {
  const at = (header: string) =>
    verifyDelivery(
      presets.stripe,
      makeRequest({ 'stripe-signature': header }),
      ['whsec_topsecret'],
      AT,
    );
  const good = '7badf3cca4ea4012aada45ad62624ced8e33b1e5be0bc44aca89d82277f6e115';

  test('W-09 the second of two signatures is enough while a secret is changed', () => {
    expect(at(`t=1700000000,v1=${'0'.repeat(64)},v1=${good}`).kind).toBe('accepted');
    expect(at(`t=1700000000,v0=${good}`)).toMatchObject({ reason: 'signature_malformed' });
    expect(at(`v1=${good}`)).toMatchObject({ reason: 'signature_malformed' });
    expect(at(`t=1700000000,t=1,v1=${good}`)).toMatchObject({ reason: 'signature_malformed' });
  });

  test('a delivery is named by its event, and each signing has a key of its own', () => {
    const verdict = at(`t=1700000000,v1=${good}`);
    expect(verdict).toMatchObject({ replayKey: expect.stringMatching(/^[0-9a-f]{64}$/) });
    expect(findDeliveryId(presets.stripe, undefined, { id: 'evt_1' }, undefined)).toBe('evt_1');
    expect(findDeliveryId(presets.stripe, undefined, { id: 7 }, undefined)).toBeUndefined();
  });
});

describe('the name of a delivery', () => {
  const github = (delivery: string, scheme: Scheme = presets.github) =>
    verifyDelivery(
      scheme,
      makeRequest({
        'x-hub-signature-256': `sha256=${sign('s', BODY)}`,
        'x-github-delivery': delivery,
      }),
      ['s'],
      AT,
    );

  test('an id that is not signed distinguishes deliveries with the same body', () => {
    expect(github('a')).toStrictEqual({ kind: 'accepted', secretIndex: 0, deliveryId: 'a' });
    expect(github('')).toMatchObject({ replayKey: expect.stringMatching(/^[0-9a-f]{64}$/) });
  });

  test('replay strict gives the same body the same replay key under any id', () => {
    const { webhook: hook } = toWebhook(
      webhookEntrySchema.parse({
        id: 'gh',
        title: 'T',
        plugin: 'echo',
        auth_mode: 'github',
        hmac_secret: 's',
        replay: 'strict',
      }),
    );
    const [first, second] = [github('a', hook.auth), github('b', hook.auth)];
    const keyOf = (verdict: typeof first) => verdict.kind === 'accepted' && verdict.replayKey;
    expect(keyOf(first)).toMatch(/^[0-9a-f]{64}$/);
    expect(keyOf(first)).toBe(keyOf(second));
  });

  test.each([
    ['gitlab', 'idempotency-key'],
    ['shopify', 'x-shopify-webhook-id'],
    ['twilio', 'i-twilio-idempotency-token'],
  ] as const)('%s names it in %s', (preset, header) => {
    const vector = vectors.find((one) => one.preset === preset);
    if (vector === undefined) throw new Error('there is no such vector');
    const headers = [...vector.request.headers, [header, 'd-1'] as const];
    expect(judge(vector, { ...vector.request, headers })).toMatchObject({ deliveryId: 'd-1' });
  });

  test('slack names it in its payload', () => {
    expect(findDeliveryId(presets.slack, undefined, { event_id: 'Ev1' }, undefined)).toBe('Ev1');
  });

  test('a long id is kept as its digest, and two are refused', () => {
    expect(github('x'.repeat(300))).toMatchObject({
      deliveryId: expect.stringMatching(/^sha256:[0-9a-f]{64}$/),
    });
    const request = makeRequest([
      ['x-hub-signature-256', `sha256=${sign('s', BODY)}`],
      ['x-github-delivery', 'a'],
      ['x-github-delivery', 'b'],
    ]);
    expect(verifyDelivery(presets.github, request, ['s'], AT)).toMatchObject({
      reason: 'header_repeated',
    });
  });

  test('N-04 a CloudEvent is named by its source and id', () => {
    const event = { source: '/s', source_event_id: 'e' };
    expect(findDeliveryId(presets.github, undefined, {}, event)).toBe('["/s","e"]');
  });

  test('N-04 which is more than a header that was not signed, and less than one that was', () => {
    const event = { source: '/s', source_event_id: 'e' };
    for (const preset of [presets.github, presets.gitlab, presets.shopify, presets.twilio]) {
      expect(findDeliveryId(preset, 'h', {}, event)).toBe('["/s","e"]');
      expect(findDeliveryId(preset, 'h', {}, undefined)).toBe('h');
    }
    for (const preset of [presets.svix, presets['standard-webhooks']]) {
      expect(findDeliveryId(preset, 'h', {}, event)).toBe('h');
    }
  });
});

describe('N-03 slack’s challenge', () => {
  const body = '{"token":"t","challenge":"3eZbrw1aB","type":"url_verification"}';
  const ask = (secret: string, text = body) =>
    verifyDelivery(
      presets.slack,
      makeRequest(
        {
          'x-slack-request-timestamp': '1700000000',
          'x-slack-signature': `v0=${sign(secret, `v0:1700000000:${text}`)}`,
        },
        text,
      ),
      ['topsecret'],
      AT,
    );

  test('is answered after its signature was checked', () => {
    expect(ask('topsecret')).toEqual({ kind: 'challenge', answer: '3eZbrw1aB' });
    expect(ask('other')).toEqual({ kind: 'refused', reason: 'signature_wrong' });
  });

  test('is none of others', () => {
    const request = makeRequest({ 'x-hub-signature-256': `sha256=${sign('s', body)}` }, body);
    expect(verifyDelivery(presets.github, request, ['s'], AT)).toMatchObject({ kind: 'accepted' });
  });

  test('is none in other events, and none when it is too long', () => {
    expect(ask('topsecret', '{"type":"event","text":"url_verification"}').kind).toBe('accepted');
    const long = JSON.stringify({ type: 'url_verification', challenge: 'x'.repeat(2000) });
    expect(ask('topsecret', long).kind).toBe('accepted');
  });
});

describe('twilio', () => {
  const request = (url: string, signed: string, body = '', type = form): WebhookRequest =>
    makeRequest(
      { 'x-twilio-signature': sign('12345', signed, 'sha1', 'base64'), 'content-type': type },
      body,
      url,
    );
  const judgeTwilio = (given: WebhookRequest) =>
    verifyDelivery(presets.twilio, given, ['12345'], AT);

  test('may have signed the address with its usual port or without', () => {
    for (const [seen, signed] of [
      ['https://a.example/x?y=1', 'https://a.example:443/x?y=1'],
      ['https://a.example:443/x', 'https://a.example/x'],
      ['http://a.example/x', 'http://a.example:80/x'],
      ['https://a.example:8443/x', 'https://a.example:8443/x'],
    ] as const) {
      expect(judgeTwilio(request(seen, signed)), seen).toMatchObject({ kind: 'accepted' });
    }
    const other = request('https://a.example:8443/x', 'https://a.example/x');
    expect(judgeTwilio(other)).toMatchObject({ reason: 'signature_wrong' });
  });

  test('is known again by what was signed, however a copy of it is cut', () => {
    const fields = 'AccountSidAC1BodypayMessageSidSM1';
    const signed = `http://a.example/x?k=v${fields}`;
    const copies = [
      ['http://a.example/x?k=v', 'AccountSid=AC1&Body=pay&MessageSid=SM1'],
      ['http://a.example:80/x?k=v', 'AccountSid=AC1&Body=pay&MessageSid=SM1'],
      ['http://a.example/x?k=vAccountSidAC1', 'Body=pay&MessageSid=SM1'],
      ['http://a.example:80/x?k=vAccountSidAC1Bodypay', 'MessageSid=SM1'],
      [signed, ''],
    ] as const;
    const keys = copies.map(([url, body]) => judgeTwilio(request(url, signed, body)));
    expect(keys[0]).toMatchObject({ replayKey: expect.stringMatching(/^[0-9a-f]{64}$/) });
    for (const key of keys) expect(key).toEqual(keys[0]);
    const ported = signed.replace('.example', '.example:80');
    expect(judgeTwilio(request(copies[0][0], ported, copies[0][1]))).toEqual(keys[0]);
    const other = judgeTwilio(request(copies[0][0], `${signed}1`, `${copies[0][1]}1`));
    expect(other).toMatchObject({ kind: 'accepted' });
    expect(other).not.toEqual(keys[0]);
  });

  test('signs fields in order of their names, each value once', () => {
    const url = 'https://a.example/x';
    const given = request(url, `${url}A1B2B3B4C5`, 'B=3&B=4&C=5&B=2&A=1&B=2');
    expect(judgeTwilio(given)).toMatchObject({ kind: 'accepted' });
    const broken = request(url, url, 'A=%');
    expect(judgeTwilio(broken)).toEqual({ kind: 'refused', reason: 'signature_malformed' });
  });

  test('signs the address alone where there is no body', () => {
    const url = 'https://a.example/x';
    const empty = request(url, url, '', 'application/json');
    expect(judgeTwilio(empty)).toMatchObject({ kind: 'accepted' });
    const twice = `${url}?bodySHA256=0&bodySHA256=1`;
    expect(judgeTwilio(request(twice, twice))).toEqual({ kind: 'refused', reason: 'url_invalid' });
  });

  test('a body that the signature does not cover is refused', () => {
    const url = 'https://a.example/x';
    const json = request(url, url, '{}', 'application/json');
    expect(judgeTwilio(json)).toEqual({ kind: 'refused', reason: 'body_unsigned' });
    const changed = `${url}?bodySHA256=${'0'.repeat(64)}`;
    expect(judgeTwilio(request(changed, changed, '{}', 'application/json'))).toMatchObject({
      reason: 'body_changed',
    });
    expect(judgeTwilio(request('nowhere', 'nowhere'))).toMatchObject({ reason: 'url_invalid' });
  });
});
