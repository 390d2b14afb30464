/** What is signed here is what is verified here, for every form that does not need its sender. */
import { expect, test } from 'vitest';
import { makeEndpointScheme } from '../../../src/webhook/hmac.ts';
import { presetNames, presets } from '../../../src/webhook/presets.ts';
import type { HookRequest } from '../../../src/webhook/request.ts';
import type { Scheme } from '../../../src/webhook/scheme.ts';
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

test('what only a sender knows is not made up', () => {
  expect(signAndVerify(presets.twilio)).toBeUndefined();
  expect(signRequest(presets.svix, plain, 'no base64!', { id: 'd', nowMs })).toBeUndefined();
});
