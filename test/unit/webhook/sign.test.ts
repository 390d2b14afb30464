/** What is signed here is what is verified here, for every form that does not need its sender. */
import { expect, test } from 'vitest';
import { makeEndpointScheme } from '../../../src/webhook/hmac.ts';
import { presetNames, presets } from '../../../src/webhook/presets.ts';
import type { HookRequest } from '../../../src/webhook/request.ts';
import type { Scheme } from '../../../src/webhook/scheme.ts';
import type { SignedScheme } from '../../../src/webhook/signed.ts';
import { signRequest } from '../../../src/webhook/sign.ts';
import { verify } from '../../../src/webhook/verify.ts';

const nowMs = 1_700_000_000_000;
const secret = 'c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0';
const plain: HookRequest = {
  method: 'POST',
  url: 'https://hooks.example.org/hooks/a',
  headers: [['content-type', 'application/json']],
  rawBody: Buffer.from('{"n":1}'),
};

function signAndVerify(scheme: Scheme, own = secret) {
  const signed = signRequest(scheme, plain, own, { id: 'd-1', nowMs });
  if (signed === undefined) return undefined;
  const request = { ...plain, headers: [...plain.headers, ...signed] };
  return verify(scheme, request, [secret], nowMs);
}

test.each(presetNames.filter((name) => name !== 'twilio'))('%s', (name) => {
  expect(signAndVerify(presets[name])).toMatchObject({ kind: 'accepted', secretIndex: 0 });
  expect(signAndVerify(presets[name], 'b3RoZXItb3RoZXI=')).toMatchObject({ kind: 'refused' });
});

test('an endpoint of the configuration', () => {
  expect(signAndVerify(makeEndpointScheme('X-Sig'))).toMatchObject({ kind: 'accepted' });
});

test('of several ways the first is taken, and of several names of a delivery too', () => {
  const namesOf = (scheme: Scheme) =>
    signRequest(scheme, plain, secret, { id: 'd-1', nowMs })?.map(([name]) => name);
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
  expect(signed).toContainEqual(['x-time', String(nowMs)]);
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

test('what only a sender knows is not made up', () => {
  expect(signAndVerify(presets.twilio)).toBeUndefined();
  expect(signRequest(presets.svix, plain, 'no base64!', { id: 'd', nowMs })).toBeUndefined();
});
