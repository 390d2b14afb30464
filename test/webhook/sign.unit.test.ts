/** Ductile's own signatures can be verified, for every scheme that it can sign. */
import { expect, test } from 'vitest';
import { makeEndpointScheme } from '../../src/webhook/verify/hmac.ts';
import { parsePattern } from '../../src/webhook/verify/pattern.ts';
import { presetNames, presets } from '../../src/webhook/verify/presets.ts';
import type { WebhookRequest } from '../../src/webhook/request.ts';
import type { Scheme } from '../../src/webhook/verify/verify.ts';
import type { SignedScheme } from '../../src/webhook/verify/signed.ts';
import { signRequest } from '../../src/webhook/verify/sign.ts';
import { verifyDelivery } from '../../src/webhook/verify/verify.ts';

const nowMs = 1_700_000_000_000;
const secret = 'c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0';
const plain: WebhookRequest = {
  method: 'POST',
  url: 'https://hooks.example.org/hooks/a',
  headers: [['content-type', 'application/json']],
  rawBody: Buffer.from('{"n":1}'),
};

function signAndVerify(scheme: Scheme, own = secret) {
  const request = signRequest(scheme, plain, own, { id: 'd-1', nowMs });
  return request === undefined ? undefined : verifyDelivery(scheme, request, [secret], nowMs);
}

test.each(presetNames)('%s', (name) => {
  expect(signAndVerify(presets[name])).toMatchObject({ kind: 'accepted', secretIndex: 0 });
  expect(signAndVerify(presets[name], 'b3RoZXItb3RoZXI=')).toMatchObject({ kind: 'refused' });
});

test('an endpoint of the configuration', () => {
  expect(signAndVerify(makeEndpointScheme('X-Sig'))).toMatchObject({ kind: 'accepted' });
});

test('twilio signs the whole address, including its query', () => {
  const input = { ...plain, url: `${plain.url}?k=v` };
  const request = signRequest(presets.twilio, input, secret, { id: 'd-1', nowMs });
  expect(request?.url).toMatch(/\?k=v&bodySHA256=[0-9a-f]{64}$/);
  const verdict = request && verifyDelivery(presets.twilio, request, [secret], nowMs);
  expect(verdict).toMatchObject({ kind: 'accepted', deliveryId: 'd-1' });
});

test('the first of several schemes and of several delivery names is used', () => {
  const namesOf = (scheme: Scheme) =>
    signRequest(scheme, plain, secret, { id: 'd-1', nowMs })
      ?.headers.slice(plain.headers.length)
      .map(([name]) => name);
  expect(namesOf(presets.shopify)).toEqual(['x-shopify-webhook-id', 'x-shopify-hmac-sha256']);
  expect(namesOf(presets.svix)).toEqual(['svix-id', 'svix-timestamp', 'svix-signature']);
  expect(namesOf(presets.gitlab)).toEqual(['idempotency-key', 'x-gitlab-token']);
});

const stamped: SignedScheme = {
  ...presets.stripe,
  payload: [{ kind: 'header', name: 'x-time' }, { kind: 'text', text: '.' }, { kind: 'body' }],
  timestamp: { part: { kind: 'header', name: 'x-time' }, unit: 'ms', toleranceMs: 10 },
};

test('a time in milliseconds is written as such', () => {
  const signed = signRequest(stamped, plain, secret, { id: 'd', nowMs });
  expect(signed?.headers).toContainEqual(['x-time', String(nowMs)]);
  expect(signAndVerify(stamped)).toMatchObject({ kind: 'accepted' });
});

test('an entry that is not the time, and a header that is not there, are not made up', () => {
  const nonce = [
    { kind: 'entry', name: 'n' },
    { kind: 'text', text: '.' },
    { kind: 'body' },
  ] as const;
  expect(signAndVerify({ ...presets.stripe, payload: nonce })).toBeUndefined();
  expect(signAndVerify({ ...stamped, payload: nonce })).toBeUndefined();
  expect(signAndVerify({ ...stamped, timestamp: undefined })).toBeUndefined();
});

test('values that only a sender knows are not made up', () => {
  const found = parsePattern('v1=([a-f0-9]+)');
  if (!found.ok) throw new Error(found.message);
  const sought = { ...makeEndpointScheme('X-Sig'), signature: found.pattern };
  expect(signAndVerify(sought)).toBeUndefined();
  expect(signRequest(presets.svix, plain, 'no base64!', { id: 'd', nowMs })).toBeUndefined();
});
