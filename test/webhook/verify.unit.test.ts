import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { makeEndpointScheme, type HmacScheme } from '../../src/webhook/verify/hmac.ts';
import { parsePattern } from '../../src/webhook/verify/pattern.ts';
import type { WebhookRequest } from '../../src/webhook/request.ts';
import type { SignedScheme } from '../../src/webhook/verify/signed.ts';
import {
  chooseTokens,
  createBearerScheme,
  identifyDelivery,
  isKeyReused,
  verifyDelivery,
} from '../../src/webhook/verify/verify.ts';
import { AT, BODY, makeRequest, sign } from './support.ts';

const bearer = createBearerScheme(['idempotency-key']);

function patternOf(text: string) {
  const parsed = parsePattern(text);
  if (!parsed.ok) throw new Error(parsed.message);
  return parsed.pattern;
}

function hmac(differences: Partial<HmacScheme> = {}): HmacScheme {
  return { ...makeEndpointScheme('X-Sig'), ...differences };
}

function outcome(verdict: ReturnType<typeof verifyDelivery>): string {
  return verdict.kind === 'refused' ? verdict.reason : verdict.kind;
}

const judge = (scheme: HmacScheme, headers: Record<string, string>, body = BODY): string =>
  outcome(verifyDelivery(scheme, makeRequest(headers, body), ['topsecret'], AT));

describe('bearer', () => {
  test.each([
    ['Bearer tok', 'accepted'],
    ['Bearer toc', 'token_wrong'],
    ['Bearer tok ', 'token_wrong'],
    ['Bearer to', 'token_wrong'],
    ['Bearer ', 'token_wrong'],
    ['Bearer', 'token_wrong'],
    ['bearer tok', 'token_wrong'],
    ['Bearer  tok', 'token_wrong'],
    ['Basic tok', 'token_wrong'],
    ['tok', 'token_wrong'],
    ['Bearer tök', 'token_wrong'],
    ['Bearer tоk', 'token_wrong'],
    [`Bearer ${'t'.repeat(5000)}`, 'header_too_long'],
    ['', 'header_missing'],
  ])('W-01, W-12, W-13 %j is %s', (authorization, expected) => {
    expect(outcome(verifyDelivery(bearer, makeRequest({ authorization }), ['tok'], AT))).toBe(
      expected,
    );
  });

  test('W-01 without its header, or with two, is refused', () => {
    expect(outcome(verifyDelivery(bearer, makeRequest({}), ['tok'], AT))).toBe('header_missing');
    const twice = makeRequest([
      ['authorization', 'Bearer tok'],
      ['authorization', 'Bearer tok'],
    ]);
    expect(outcome(verifyDelivery(bearer, twice, ['tok'], AT))).toBe('header_repeated');
  });

  test('W-02 a hook’s own tokens shut the global one out', () => {
    expect(chooseTokens(['own'], 'global')).toEqual(['own']);
    expect(chooseTokens([], 'global')).toEqual(['global']);
    expect(chooseTokens([], '')).toEqual([]);
    expect(chooseTokens([], undefined)).toEqual([]);
    const empty = makeRequest({ authorization: 'Bearer ' });
    expect(outcome(verifyDelivery(bearer, empty, [], AT))).toBe('secret_missing');
    expect(outcome(verifyDelivery(bearer, empty, ['', 'x'], AT))).toBe('token_wrong');
  });

  test('a delivery may be named by its idempotency key', () => {
    const headers = { authorization: 'Bearer tok', 'idempotency-key': 'k' };
    const verdict = verifyDelivery(bearer, makeRequest(headers), ['other', 'tok'], AT);
    expect(verdict).toEqual({ kind: 'accepted', secretIndex: 1, deliveryId: 'k' });
  });

  test.each([
    ['"k"', 'k'],
    [String.raw`"a\"b\\c"`, String.raw`a"b\c`],
    ['"', '"'],
    ['"k', '"k'],
    ['"k" x', '"k" x'],
    ['""', undefined],
  ])('an idempotency key is the same in quotes: %s', (written, expected) => {
    const headers = { authorization: 'Bearer tok', 'idempotency-key': written };
    const named = expected === undefined ? {} : { deliveryId: expected };
    const accepted = { kind: 'accepted', secretIndex: 0, ...named };
    expect(verifyDelivery(bearer, makeRequest(headers), ['tok'], AT)).toEqual(accepted);
    const other = makeRequest({ authorization: 'Bearer tok', 'x-id': written });
    expect(verifyDelivery(createBearerScheme(['x-id']), other, ['tok'], AT)).toMatchObject({
      deliveryId: written,
    });
  });
});

describe('the identity of a delivery', () => {
  const taken = { payload: {}, event: undefined };
  const accepted = { kind: 'accepted', secretIndex: 0, deliveryId: 'k' } as const;
  const named = (headers: Record<string, string>, body: string, more: object = {}) =>
    identifyDelivery(bearer, { ...accepted, ...more }, makeRequest(headers, body), taken);

  test('an idempotency key goes with its body', () => {
    const one = named({ 'idempotency-key': 'k' }, 'a');
    expect(one.deliveryId).toBe('k');
    expect(named({ 'idempotency-key': '"k"' }, 'a')).toEqual(one);
    const other = named({ 'idempotency-key': 'k' }, 'b');
    expect(isKeyReused(one.replayKey, other.replayKey)).toBe(true);
    expect(isKeyReused(one.replayKey, one.replayKey)).toBe(false);
    expect(isKeyReused(null, other.replayKey)).toBe(false);
    expect(isKeyReused(one.replayKey, 'signed')).toBe(false);
  });

  test('a signed id comes first, and other ids exclude the body', () => {
    const signed = { replayKey: 'signed' };
    expect(named({ 'idempotency-key': 'k' }, 'a', signed)).toMatchObject(signed);
    expect(named({ 'x-id': 'k' }, 'a')).toEqual({ deliveryId: 'k', replayKey: null });
    const event = { source: '/s', source_event_id: 'e' };
    const request = makeRequest({ 'idempotency-key': 'k' }, 'a');
    expect(identifyDelivery(bearer, accepted, request, { payload: {}, event })).toEqual({
      deliveryId: '["/s","e"]',
      replayKey: null,
    });
  });
});

describe('generic HMAC', () => {
  const hex = sign('topsecret', BODY);

  test('W-04 its vectors', () => {
    expect(judge(hmac(), { 'x-sig': `sha256=${hex}` })).toBe('accepted');
    expect(judge(hmac(), { 'x-sig': hex })).toBe('accepted');
    expect(hex).toBe('b9a510080ef5cedb995294a452aa2dfd4ab044e902075e4c1811a249a84d8f16');
    const sha1 = hmac({ algorithm: 'sha1', prefix: 'sha1=' });
    expect(judge(sha1, { 'x-sig': 'sha1=7f80a3200da3366c39605a0bb342dcec98429e7d' })).toBe(
      'accepted',
    );
    const sha512 = sign('topsecret', BODY, 'sha512');
    expect(judge(hmac({ algorithm: 'sha512', prefix: '' }), { 'x-sig': sha512 })).toBe('accepted');
  });

  test.each([
    [{ 'x-sig': '' }, 'header_missing'],
    [{}, 'header_missing'],
    [{ 'x-sig': 'sha256=' }, 'signature_wrong'],
    [{ 'x-sig': 'none' }, 'signature_wrong'],
    [{ 'x-sig': `sha512=${hex}` }, 'signature_wrong'],
    [{ 'x-sig': `sha256=${hex.toUpperCase()}` }, 'signature_wrong'],
    [{ 'x-sig': `sha256=${Buffer.from(hex, 'hex').toString('base64')}` }, 'signature_wrong'],
    [{ 'x-sig': `sha256=${hex.slice(1)}` }, 'signature_wrong'],
    [{ 'x-sig': `sha256=${hex}00` }, 'signature_wrong'],
    [{ 'x-sig': 'sha256=é€😀' }, 'signature_wrong'],
    [{ authorization: 'Bearer topsecret' }, 'header_missing'],
  ])('W-04, W-07, W-12, W-13 %j is %s', (headers, expected) => {
    expect(judge(hmac(), headers)).toBe(expected);
  });

  test('W-04 the body is what was signed, byte for byte', () => {
    const headers = { 'x-sig': hex };
    const reserialised = JSON.stringify(JSON.parse(BODY), null, 1);
    for (const body of [reserialised, `${BODY} `, BODY.replace('ping', 'pong'), '']) {
      expect(judge(hmac(), headers, body)).toBe('signature_wrong');
    }
  });

  test('W-05 base64', () => {
    const base64 = hmac({ encoding: 'base64', prefix: '' });
    expect(judge(base64, { 'x-sig': 'uaUQCA71ztuZUpSkUqot/UqwROkCB15MGBGiSahNjxY=' })).toBe(
      'accepted',
    );
    for (const wrong of [
      'uaUQCA71ztuZUpSkUqot/UqwROkCB15MGBGiSahNjxY',
      'uaUQCA71ztuZUpSkUqot_UqwROkCB15MGBGiSahNjxY=',
      hex,
    ]) {
      expect(judge(base64, { 'x-sig': wrong })).toBe('signature_wrong');
    }
  });

  const stripe = hmac({
    prefix: 'v9=',
    signature: patternOf('v1=([a-f0-9]+)'),
    payloadPrefix: patternOf(String.raw`t=(\d+)`),
  });
  const timed = sign('topsecret', `1700000000.${BODY}`);

  test('W-06 a pattern finds the signature and what was signed before the body', () => {
    expect(judge(stripe, { 'x-sig': `t=1700000000,v1=${timed}` })).toBe('accepted');
    expect(judge(stripe, { 'x-sig': `t=1700000001,v1=${timed}` })).toBe('signature_wrong');
    expect(judge(stripe, { 'x-sig': `t=1700000000,v9=${timed}` })).toBe('signature_malformed');
    expect(judge(stripe, { 'x-sig': 'junk' })).toBe('signature_malformed');
  });

  test('W-06 one with the time before the signature, as document 4’s tools have it', () => {
    const slackLike = hmac({
      signature: patternOf(':([a-f0-9]+)$'),
      payloadPrefix: patternOf(String.raw`v0=(\d+):`),
    });
    expect(judge(slackLike, { 'x-sig': `v0=1700000000:${timed}` })).toBe('accepted');
  });

  test('W-08 what should be signed before the body and is not there is no bare body', () => {
    expect(judge(stripe, { 'x-sig': `v1=${hex}` })).toBe('prefix_unmatched');
    expect(judge(stripe, { 'x-sig': `t=,v1=${hex}` })).toBe('prefix_unmatched');
  });

  test('W-08 what is signed before the body has no dot, which is where the body begins', () => {
    const loose = hmac({
      signature: patternOf('v1=([a-f0-9]+)'),
      payloadPrefix: patternOf('t=([^,]+)'),
    });
    const body = '{"price":1.5}';
    const proof = sign('topsecret', `5.${body}`);
    expect(judge(loose, { 'x-sig': `t=5,v1=${proof}` }, body)).toBe('accepted');
    const moved = { 'x-sig': `t=5.{"price":1,v1=${proof}` };
    expect(judge(loose, moved, '5}')).toBe('value_ambiguous');
  });

  test('W-09 the second of two signatures is enough, a ninth is too many', () => {
    const wrong = 'v1=00,';
    expect(judge(stripe, { 'x-sig': `t=1700000000,${wrong}v1=${timed}` })).toBe('accepted');
    const eight = `t=1700000000,${wrong.repeat(8)}v1=${timed}`;
    expect(judge(stripe, { 'x-sig': eight })).toBe('signatures_too_many');
  });

  test('both patterns share what one delivery may take', () => {
    const header = { 'x-sig': 'a'.repeat(1200) };
    const half = patternOf('(?:a*){15}!|^(a+)$');
    expect(judge(hmac({ signature: half }), header)).toBe('signature_wrong');
    expect(judge(hmac({ signature: half, payloadPrefix: half }), header)).toBe('pattern_exhausted');
    const whole = patternOf('(?:a*){300}(!)');
    expect(judge(hmac({ signature: whole }), header)).toBe('pattern_exhausted');
  });

  test('another endpoint’s secret is none', () => {
    const request = makeRequest({ 'x-sig': hex });
    expect(outcome(verifyDelivery(hmac(), request, ['other'], AT))).toBe('signature_wrong');
    expect(outcome(verifyDelivery(hmac(), request, ['other', 'topsecret'], AT))).toBe('accepted');
  });
});

describe('the general form', () => {
  const scheme: SignedScheme = {
    kind: 'signed',
    header: 'x-sig',
    separator: ';',
    prefix: 's:',
    payload: [
      { kind: 'method' },
      { kind: 'text', text: ' ' },
      { kind: 'url' },
      { kind: 'text', text: '\n' },
      { kind: 'header', name: 'x-time' },
      { kind: 'text', text: '|' },
      { kind: 'body' },
    ],
    algorithm: 'sha512',
    encoding: 'base64',
    key: { encoding: 'hex', prefix: 'k_' },
    timestamp: { part: { kind: 'header', name: 'x-time' }, unit: 'ms', toleranceMs: 1000 },
    idHeaders: ['x-id'],
    idField: undefined,
    once: 'never',
    hasChallenge: false,
  };
  const made = (time: string, url: string): WebhookRequest => {
    const text = `POST ${url}\n${time}|${BODY}`;
    const signature = sign(Buffer.from('00ff', 'hex'), text, 'sha512', 'base64');
    return makeRequest({ 'x-sig': `a;s:${signature}`, 'x-time': time, 'x-id': '9' }, BODY, url);
  };

  test('signs the address, the method and headers, with a key of any form', () => {
    const verdict = verifyDelivery(scheme, made(`${AT}`, 'https://a/b'), ['k_00ff'], AT + 999);
    expect(verdict).toMatchObject({ kind: 'accepted', deliveryId: '9', timestampMs: AT });
    const moved = { ...made(`${AT}`, 'https://a/b'), url: 'https://a/c' };
    expect(outcome(verifyDelivery(scheme, moved, ['k_00ff'], AT))).toBe('signature_wrong');
    expect(outcome(verifyDelivery(scheme, made(`${AT}`, 'u'), ['00ff'], AT + 1001))).toBe(
      'timestamp_old',
    );
  });

  test("a secret that isn't a key matches nothing", () => {
    expect(outcome(verifyDelivery(scheme, made(`${AT}`, 'u'), ['not hex'], AT))).toBe(
      'signature_wrong',
    );
  });
});

test('no input of a stranger throws or is accepted', () => {
  const latin1 = fc.uint8Array().map((bytes) => Buffer.from(bytes).toString('latin1'));
  const word = fc.oneof(latin1, fc.string());
  const schemes = [bearer, hmac(), hmac({ signature: patternOf('(.*)') })];
  fc.assert(
    fc.property(fc.constantFrom(...schemes), word, word, word, (scheme, value, body, url) => {
      const headers = { authorization: value, 'x-sig': value };
      return verifyDelivery(scheme, makeRequest(headers, body, url), ['s'], AT).kind === 'refused';
    }),
  );
});
