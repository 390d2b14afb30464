import type { PresetName } from '../../src/webhook/verify/presets.ts';
import type { WebhookRequest } from '../../src/webhook/request.ts';
import { makeRequest } from './support.ts';

/** A delivery whose signature was not computed by the code that checks it. */
export interface Vector {
  readonly name: string;
  readonly preset: PresetName;
  readonly secret: string;
  readonly request: WebhookRequest;
  /** The header with the proof, and the position of the proof in it. */
  readonly proof: readonly [header: string, from: number];
  readonly at?: number;
}

export const STANDARD_SECRET = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw';
const SLACK_BODY =
  'token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V' +
  '&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=' +
  '&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN' +
  '&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c';
const TWILIO_URL = 'https://mycompany.com/myapp.php?foo=1&bar=2';
const TWILIO_FORM =
  'To=%2B18005551212&CallSid=CA1234567890ABCDE&Caller=%2B14158675309&Digits=1234&From=%2B14158675309';
const TWILIO_JSON = '{"property": "value", "boolean": true}';
const TWILIO_JSON_URL = `${TWILIO_URL}&bodySHA256=0a1ff7634d9ab3b95db5c9a2dfe9416e41502b283a80c7cf19632632f96e6620`;
export const form = 'application/x-www-form-urlencoded';

export const vectors: readonly Vector[] = [
  {
    name: 'github’s own',
    preset: 'github',
    secret: "It's a Secret to Everybody",
    request: makeRequest(
      {
        'x-hub-signature-256':
          'sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17',
      },
      'Hello, World!',
    ),
    proof: ['x-hub-signature-256', 7],
  },
  {
    name: 'github',
    preset: 'github',
    secret: 'topsecret',
    request: makeRequest({
      'x-hub-signature-256':
        'sha256=b9a510080ef5cedb995294a452aa2dfd4ab044e902075e4c1811a249a84d8f16',
    }),
    proof: ['x-hub-signature-256', 7],
  },
  {
    name: 'shopify',
    preset: 'shopify',
    secret: 'topsecret',
    request: makeRequest({
      'x-shopify-hmac-sha256': 'uaUQCA71ztuZUpSkUqot/UqwROkCB15MGBGiSahNjxY=',
    }),
    proof: ['x-shopify-hmac-sha256', 0],
  },
  {
    name: 'shopify’s newer headers',
    preset: 'shopify',
    secret: 'topsecret',
    request: makeRequest({
      'shopify-hmac-sha256': 'uaUQCA71ztuZUpSkUqot/UqwROkCB15MGBGiSahNjxY=',
    }),
    proof: ['shopify-hmac-sha256', 0],
  },
  {
    name: 'stripe',
    preset: 'stripe',
    secret: 'whsec_topsecret',
    request: makeRequest({
      'stripe-signature':
        't=1700000000,v1=7badf3cca4ea4012aada45ad62624ced8e33b1e5be0bc44aca89d82277f6e115',
    }),
    proof: ['stripe-signature', 16],
  },
  {
    name: 'slack',
    preset: 'slack',
    secret: 'topsecret',
    request: makeRequest({
      'x-slack-request-timestamp': '1700000000',
      'x-slack-signature': 'v0=a3ce3d4a5d74df152a3dcccef52081409f7d9e56357747a8fa2350e883cc2bdc',
    }),
    proof: ['x-slack-signature', 3],
  },
  {
    name: 'slack’s own',
    preset: 'slack',
    secret: '8f742231b10e8888abcd99yyyzzz85a5',
    request: makeRequest(
      {
        'x-slack-request-timestamp': '1531420618',
        'x-slack-signature': 'v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503',
      },
      SLACK_BODY,
    ),
    proof: ['x-slack-signature', 3],
    at: 1_531_420_618_000,
  },
  {
    name: 'the standard’s own',
    preset: 'standard-webhooks',
    secret: STANDARD_SECRET,
    request: makeRequest(
      {
        'webhook-id': 'msg_p5jXN8AQM9LWM0D4loKWxJek',
        'webhook-timestamp': '1614265330',
        'webhook-signature': 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
      },
      '{"test": 2432232314}',
    ),
    proof: ['webhook-signature', 3],
    at: 1_614_265_330_000,
  },
  {
    name: 'svix',
    preset: 'svix',
    secret: STANDARD_SECRET,
    request: makeRequest({
      'svix-id': 'msg_1',
      'svix-timestamp': '1700000000',
      'svix-signature': 'v1,BWNfYfylSBDDOVblQaWCsR91HeIouEgHkBUCoeWnCNM=',
    }),
    proof: ['svix-signature', 3],
  },
  {
    name: 'gitlab',
    preset: 'gitlab',
    secret: 'topsecret',
    request: makeRequest({ 'x-gitlab-token': 'topsecret' }),
    proof: ['x-gitlab-token', 0],
  },
  {
    name: 'twilio’s form',
    preset: 'twilio',
    secret: '12345',
    request: makeRequest(
      { 'x-twilio-signature': 'RSOYDt4T1cUTdK1PDd93/VVr8B8=', 'content-type': form },
      TWILIO_FORM,
      TWILIO_URL,
    ),
    proof: ['x-twilio-signature', 0],
  },
  {
    name: 'twilio’s JSON',
    preset: 'twilio',
    secret: '12345',
    request: makeRequest(
      { 'x-twilio-signature': 'a9nBmqA0ju/hNViExpshrM61xv4=', 'content-type': 'application/json' },
      TWILIO_JSON,
      TWILIO_JSON_URL,
    ),
    proof: ['x-twilio-signature', 0],
  },
];
