/** The exact claims that a verified delivery proves. */
import { createHash } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { limits } from '../../src/base/limits.ts';
import { makeEndpointScheme } from '../../src/webhook/verify/hmac.ts';
import {
  algorithms,
  digestParts,
  encodings,
  findSigner,
  parseKey,
  keyEncodings,
  createSignature as signParts,
} from '../../src/webhook/verify/mac.ts';
import { parsePattern } from '../../src/webhook/verify/pattern.ts';
import type { SignedScheme } from '../../src/webhook/verify/signed.ts';
import {
  createBearerScheme,
  findDeliveryId,
  verifyDelivery,
} from '../../src/webhook/verify/verify.ts';
import { AT, BODY, makeRequest, sign } from './support.ts';

const scheme: SignedScheme = {
  kind: 'signed',
  header: 'x-sig',
  separator: ',',
  prefix: 'v1=',
  algorithm: 'sha256',
  encoding: 'hex',
  key: { encoding: 'utf8', prefix: '' },
  payload: [{ kind: 'body' }],
  timestamp: undefined,
  idHeaders: ['x-id'],
  idField: 'id',
  once: 'never',
  hasChallenge: true,
};
const timed: SignedScheme = {
  ...scheme,
  timestamp: { part: { kind: 'header', name: 'x-time' }, unit: 's', toleranceMs: 60_000 },
};

const deliver = (
  one: SignedScheme,
  body = BODY,
  more: Readonly<Record<string, string>> = {},
  secret = 'topsecret',
) =>
  verifyDelivery(
    one,
    makeRequest({ 'x-sig': `v1=${sign(secret, body)}`, ...more }, body),
    ['topsecret'],
    AT,
  );

describe('a signed delivery', () => {
  test('proves what it says, and nothing that it does not', () => {
    expect(deliver(scheme)).toStrictEqual({ kind: 'accepted', secretIndex: 0 });
    expect(deliver({ ...scheme, once: 'always' })).toStrictEqual({
      kind: 'accepted',
      secretIndex: 0,
      replayKey: digestParts([BODY]),
    });
    const time = { 'x-time': String(AT / 1000) };
    expect(deliver(timed, BODY, { ...time, 'x-id': 'd1' })).toStrictEqual({
      kind: 'accepted',
      secretIndex: 0,
      timestampMs: AT,
      replayKey: digestParts([BODY]),
      deliveryId: 'd1',
    });
  });

  test('without the time that its form demands is refused', () => {
    expect(deliver(timed)).toEqual({ kind: 'refused', reason: 'header_missing' });
    expect(deliver(timed, BODY, { 'x-time': 'soon' })).toEqual({
      kind: 'refused',
      reason: 'timestamp_malformed',
    });
  });

  test('may bring as many signatures as are tried, and not one more', () => {
    const good = `v1=${sign('topsecret', BODY)}`;
    const bring = (count: number) => {
      const header = [...Array<string>(count - 1).fill('v1=00'), good].join(',');
      return deliver(scheme, BODY, { 'x-sig': header });
    };
    expect(bring(limits.webhookSignaturesMax)).toMatchObject({ kind: 'accepted' });
    expect(bring(limits.webhookSignaturesMax + 1)).toEqual({
      kind: 'refused',
      reason: 'signatures_too_many',
    });
  });

  test('a generic signature may be prefixed, too', () => {
    const found = parsePattern('v1=([a-f0-9]+)');
    if (!found.ok) throw new Error(found.message);
    const generic = { ...makeEndpointScheme('X-Sig'), signature: found.pattern };
    const bring = (count: number) => {
      const all = [...Array<string>(count - 1).fill('v1=00'), `v1=${sign('topsecret', BODY)}`];
      return verifyDelivery(generic, makeRequest({ 'x-sig': all.join(',') }), ['topsecret'], AT)
        .kind;
    };
    expect([bring(limits.webhookSignaturesMax), bring(limits.webhookSignaturesMax + 1)]).toEqual([
      'accepted',
      'refused',
    ]);
  });
});

describe('a challenge', () => {
  const ask = (value: unknown) => JSON.stringify(value);
  const question = ask({ type: 'url_verification', challenge: 'abc' });

  test('is answered where the form has one, when it is signed', () => {
    expect(deliver(scheme, question)).toEqual({ kind: 'challenge', answer: 'abc' });
    expect(deliver(scheme, question, {}, 'guess')).toMatchObject({ kind: 'refused' });
    const longest = 'x'.repeat(limits.webhookChallengeCharsMax);
    const challengeRequest = (challenge: string) =>
      deliver(scheme, ask({ type: 'url_verification', challenge }));
    expect([challengeRequest(longest).kind, challengeRequest(`${longest}x`).kind]).toEqual([
      'challenge',
      'accepted',
    ]);
  });

  test.each([
    ['of another type', ask({ type: 'other', note: 'url_verification', challenge: 'abc' })],
    ['that is no text', ask({ type: 'url_verification', challenge: 7 })],
    ['that is not there', ask({ type: 'url_verification' })],
    ['in what is no object', ask(['url_verification'])],
    ['in what is no JSON', '{"type":"url_verification"'],
  ])('%s is a delivery like any other', (_, body) => {
    expect(deliver(scheme, body)).toMatchObject({ kind: 'accepted' });
  });

  test('is not answered by a form that has none', () => {
    expect(deliver({ ...scheme, hasChallenge: false }, question)).toMatchObject({
      kind: 'accepted',
    });
    const headers = { authorization: 'Bearer tok', 'x-sig': sign('tok', question) };
    for (const other of [createBearerScheme([]), makeEndpointScheme('X-Sig')]) {
      expect(verifyDelivery(other, makeRequest(headers, question), ['tok'], AT)).toStrictEqual({
        kind: 'accepted',
        secretIndex: 0,
      });
    }
  });
});

test('a delivery is called by its own name, or by the digest of one that is too long', () => {
  const longest = 'n'.repeat(limits.deliveryIdCharsMax);
  const digest = createHash('sha256').update(`${longest}n`).digest('hex');
  const called = (name: string) => findDeliveryId(scheme, undefined, { id: name }, undefined);
  expect([called(longest), called(`${longest}n`)]).toEqual([longest, `sha256:${digest}`]);
  expect(findDeliveryId(createBearerScheme([]), undefined, { id: 'x' }, undefined)).toBeUndefined();
  expect(findDeliveryId({ ...scheme, idField: undefined }, undefined, { id: 'x' }, undefined)).toBe(
    undefined,
  );
  expect(findDeliveryId(scheme, 'header', { id: 'x' }, undefined)).toBe('header');
});

describe('the arithmetic', () => {
  test('works with every form that can be configured', () => {
    const key = { encoding: 'utf8', prefix: '' } as const;
    for (const algorithm of algorithms) {
      for (const encoding of encodings) {
        const signing = { algorithm, encoding, key };
        const made = signParts(Buffer.from('k'), ['a', Buffer.from('b')], signing);
        expect(made).toBe(sign('k', 'ab', algorithm, encoding));
        expect(findSigner(['x', 'k'], [made], ['ab'], signing)).toBe(1);
      }
    }
    const written = { utf8: 'key', base64: 'a2V5', hex: '6b6579' };
    const keys = keyEncodings.map((encoding) =>
      parseKey(written[encoding], { encoding, prefix: '' }),
    );
    expect(keys.map(String)).toEqual(['key', 'key', 'key']);
  });

  test('a digest is that of all parts as one, in whatever pieces they come', () => {
    const whole = createHash('sha256').update('äbc').digest('hex');
    for (const parts of [['äbc'], [Buffer.from('äbc')], ['ä', 'bc'], [Buffer.from('ä'), 'bc']])
      expect(digestParts(parts)).toBe(whole);
    expect(digestParts([])).toBe(createHash('sha256').digest('hex'));
  });
});
