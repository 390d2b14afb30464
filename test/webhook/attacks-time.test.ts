/** Deliveries at the wrong time, twice, under another id, or with an expired secret. */
import { createHmac } from 'node:crypto';
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest';
import {
  mac,
  openAttackedService,
  parseResponse,
  type AttackedService,
  type Lines,
  type AttackResponse,
} from '../support/webhook-attacks.ts';

const TOLERANCE_S = 300;
const KEPT_S = 3600;

let at: AttackedService;
let standardKey: Buffer;
let general: string;
let github: string;
beforeAll(async () => {
  at = await openAttackedService();
  const echo = { plugin: 'echo', command: 'poll' };
  const secret = await at.open('std', { ...echo, auth_mode: 'standard-webhooks' });
  standardKey = Buffer.from(secret.slice('whsec_'.length), 'base64');
  const signed = {
    header: 'X-Sig',
    payload: '{header:X-Time}.{body}',
    timestamp: '{header:X-Time}',
  };
  general = await at.open('signed', { ...echo, auth_mode: 'signed', signed });
  github = await at.open('gh', { ...echo, auth_mode: 'github' });
  const credential = JSON.stringify({ name: 'stripe', value: 'whsec_of-stripe' });
  await at.api.ask('/credentials', { body: credential });
  await at.open('stripe', { ...echo, auth_mode: 'stripe', credential: 'stripe' });
  expect((await sendStandard({ id: 'first' })).status).toBe(202);
});
afterAll(() => at.api.close());
afterEach(() => vi.restoreAllMocks());

const nowS = (): number => Math.floor(Date.now() / 1000);

/** The server, which is in this process, sees another time. */
function shift(seconds: number): void {
  const real = Date.now.bind(Date);
  vi.spyOn(Date, 'now').mockImplementation(() => real() + seconds * 1000);
}

/** Stops the clock, so that differences in seconds are exact. */
function stop(): number {
  const atMs = Date.now();
  const whole = atMs - (atMs % 1000);
  vi.spyOn(Date, 'now').mockReturnValue(whole);
  return whole / 1000;
}

interface Standard {
  readonly id?: string;
  readonly stamp?: string;
  readonly body?: string;
}

function standardLines({ id = 'msg', stamp = `${nowS()}`, body = '{}' }: Standard): Lines {
  return [
    ['webhook-id', id],
    ['webhook-timestamp', stamp],
    ['webhook-signature', `v1,${mac(standardKey, `${id}.${stamp}.${body}`, 'base64')}`],
  ];
}

function sendStandard(sent: Standard): Promise<AttackResponse> {
  return at.post('/hooks/std', standardLines(sent), sent.body ?? '{}');
}

function sendStripe(stamp: string, body: string): Promise<AttackResponse> {
  const proof = mac('whsec_of-stripe', `${stamp}.${body}`, 'hex');
  return at.post('/hooks/stripe', [['stripe-signature', `t=${stamp},v1=${proof}`]], body);
}

function sendGeneral(stamp: string, body: string): Promise<AttackResponse> {
  const proof = mac(general, `${stamp}.${body}`, 'hex');
  const lines: Lines = [
    ['x-sig', proof],
    ['x-time', stamp],
  ];
  return at.post('/hooks/signed', lines, body);
}

const senders = {
  'standard-webhooks': (stamp: string, body: string) => sendStandard({ id: body, stamp, body }),
  stripe: sendStripe,
  'the general form': sendGeneral,
} as const;

describe.each(Object.entries(senders))('the time of %s', (_, send) => {
  test.each(['soon', '-1', '1e20', '1e9', '99999999999999999999', '0x65', ' ', '1700000000.0'])(
    '10 as %j is 401',
    async (stamp) => {
      await at.comesToNothing(async () => expect((await send(stamp, '{}')).status).toBe(401));
    },
  );

  test('11 is good to the second, in both directions', async () => {
    const now = stop();
    await at.comesToNothing(async () => {
      for (const off of [-TOLERANCE_S - 1, TOLERANCE_S + 1]) {
        expect([off, (await send(`${now + off}`, `{"off":${off}}`)).status]).toEqual([off, 401]);
      }
    });
    for (const off of [-TOLERANCE_S, -TOLERANCE_S + 1, TOLERANCE_S - 1, TOLERANCE_S]) {
      expect([off, (await send(`${now + off}`, `{"off":${off}}`)).status]).toEqual([off, 202]);
    }
  });

  test('13 the same bytes again are 200 and start nothing; 14 later they are 401', async () => {
    const stamp = `${nowS()}`;
    const body = '{"again":true}';
    const first = await send(stamp, body);
    expect(first.status).toBe(202);
    await at.comesToNothing(async () => {
      const again = await send(stamp, body);
      expect([again.status, JSON.parse(again.text)]).toMatchObject([200, { duplicate: true }]);
      shift(2 * TOLERANCE_S + 1);
      expect((await send(stamp, body)).status).toBe(401);
    });
  });
});

test('10 without its time a delivery is 401', async () => {
  const lines = standardLines({});
  const stripe = mac('whsec_of-stripe', '{}', 'hex');
  await at.comesToNothing(async () => {
    for (const missing of ['webhook-timestamp', 'webhook-id']) {
      const left = lines.filter(([name]) => name !== missing);
      expect((await at.post('/hooks/std', left, '{}')).status).toBe(401);
    }
    expect(
      (await at.post('/hooks/stripe', [['stripe-signature', `v1=${stripe}`]], '{}')).status,
    ).toBe(401);
    expect(
      (await at.post('/hooks/signed', [['x-sig', mac(general, '.{}', 'hex')]], '{}')).status,
    ).toBe(401);
  });
});

test('10 a time that was not signed, beside the one that was', async () => {
  const stamp = `${nowS() - 10 * TOLERANCE_S}`;
  const lines = standardLines({ stamp });
  const moved = lines.map(
    ([name, value]) => [name, name === 'webhook-timestamp' ? `${nowS()}` : value] as const,
  );
  await at.comesToNothing(async () => {
    expect((await at.post('/hooks/std', moved, '{}')).status).toBe(401);
    const both: Lines = [...lines, ['webhook-timestamp', `${nowS()}`]];
    expect((await at.post('/hooks/std', both, '{}')).status).toBe(401);
  });
});

test('12 a separator inside of a part moves nothing from one part to the next', async () => {
  const stamp = `${nowS()}`;
  await at.comesToNothing(async () => {
    expect((await sendStandard({ id: `msg.${stamp}`, stamp })).status).toBe(401);
    // Signed as id `a`, time `b.c`: what is sent divides the same text otherwise.
    const proof = mac(standardKey, `a.${stamp}.x.{}`, 'base64');
    const lines: Lines = [
      ['webhook-id', `a.${stamp}`],
      ['webhook-timestamp', 'x'],
      ['webhook-signature', `v1,${proof}`],
    ];
    expect((await at.post('/hooks/std', lines, '{}')).status).toBe(401);
    expect((await sendGeneral(`${stamp}.{"a":1}`, '{}')).status).toBe(401);
  });
});

test('15 with replay strict, the same bytes under an id that is not signed are 409', async () => {
  const body = '{"copied":1}';
  const entry = { plugin: 'echo', command: 'poll', auth_mode: 'github', replay: 'strict' };
  const secret = await at.open('strict', entry);
  const send = (id: string): Promise<AttackResponse> =>
    at.post(
      '/hooks/strict',
      [
        ['x-hub-signature-256', `sha256=${mac(secret, body, 'hex')}`],
        ['x-github-delivery', id],
      ],
      body,
    );
  expect((await send('one')).status).toBe(202);
  await at.comesToNothing(async () => {
    for (const id of ['two', 'three']) expect((await send(id)).status).toBe(409);
    expect((await send('one')).status).toBe(200);
  });
});

test('15 what twilio signed is 200 and starts nothing, however its address is written', async () => {
  const secret = 'of-twilio';
  await at.open('tw', { plugin: 'echo', command: 'poll', auth_mode: 'twilio', secret });
  const signed = 'http://h.example/hooks/tw?k=vAccountSidAC1BodypayMessageSidSM1';
  const send = async (host: string, query: string, body: string): Promise<number> => {
    const head = [
      `POST /hooks/tw?${query} HTTP/1.1`,
      `host: ${host}`,
      `x-twilio-signature: ${createHmac('sha1', secret).update(signed).digest('base64')}`,
      'content-type: application/x-www-form-urlencoded',
      `content-length: ${body.length}`,
      'connection: close',
    ];
    return parseResponse(await at.raw([`${head.join('\r\n')}\r\n\r\n${body}`])).status;
  };
  const body = 'AccountSid=AC1&Body=pay&MessageSid=SM1';
  expect(await send('h.example', 'k=v', body)).toBe(202);
  await at.comesToNothing(async () => {
    expect(await send('h.example', 'k=v', body)).toBe(200);
    expect(await send('h.example:80', 'k=v', body)).toBe(200);
    expect(await send('h.example', 'k=vAccountSidAC1', 'Body=pay&MessageSid=SM1')).toBe(200);
    expect(await send('h.example', 'k=vAccountSidAC1BodypayMessageSidSM1', '')).toBe(200);
  });
});

test('15 another body under a known id is 200 and starts nothing', async () => {
  const send = (n: number): Promise<AttackResponse> => {
    const body = `{"n":${n}}`;
    const proof = `sha256=${mac(github, body, 'hex')}`;
    const lines: Lines = [
      ['x-hub-signature-256', proof],
      ['x-github-delivery', 'same'],
    ];
    return at.post('/hooks/gh', lines, body);
  };
  expect((await send(1)).status).toBe(202);
  await at.comesToNothing(async () => expect((await send(2)).status).toBe(200));
});

test('18 a secret that was rotated is good until its end and not after it', async () => {
  const first = await at.open('turn', { plugin: 'echo', command: 'poll', auth_mode: 'github' });
  const send = (secret: string, body: string): Promise<AttackResponse> =>
    at.post('/hooks/turn', [['x-hub-signature-256', `sha256=${mac(secret, body, 'hex')}`]], body);
  const rotate = async (how: object): Promise<string> => {
    const { body } = await at.api.ask('/webhooks/turn/rotate', { body: JSON.stringify(how) });
    return String(body['secret']);
  };
  const second = await rotate({ keep_old: `${KEPT_S}s` });
  expect((await send(first, '{"n":1}')).status).toBe(202);
  shift(KEPT_S + 1);
  await at.comesToNothing(async () => expect((await send(first, '{"n":2}')).status).toBe(401));
  expect((await send(second, '{"n":3}')).status).toBe(202);
  vi.restoreAllMocks();
  const third = await rotate({});
  await at.comesToNothing(async () => {
    for (const old of [first, second]) expect((await send(old, '{"n":4}')).status).toBe(401);
  });
  expect((await send(third, '{"n":5}')).status).toBe(202);
});
