/** Requests of senders and operators over HTTP: presets, challenges, CloudEvents. */
import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { presetNames } from '../../src/webhook/verify/presets.ts';
import {
  mac,
  openAttackedService,
  type AttackedService,
  type Lines,
  type AttackResponse,
} from '../support/webhook-attacks.ts';

let at: AttackedService;
let token: string;
beforeAll(async () => {
  at = await openAttackedService();
  token = await at.open('events', { signal: 'thing.seen' });
  const value = `whsec_${randomBytes(24).toString('base64')}`;
  await at.api.ask('/credentials', { body: JSON.stringify({ name: 'theirs', value }) });
  const slack = JSON.stringify({ name: 'slack', value: 'slack-secret' });
  await at.api.ask('/credentials', { body: slack });
  await at.open('slack', { plugin: 'echo', auth_mode: 'slack', credential: 'slack' });
});
afterAll(() => at.api.close());

describe('T-08 what `webhook test` signs is accepted', () => {
  const makesOwn: ReadonlySet<string> = new Set(['github', 'gitlab', 'standard-webhooks']);
  test.each(presetNames)('as %s', async (name) => {
    const secret = makesOwn.has(name) ? {} : { credential: 'theirs' };
    await at.open(`p-${name}`, { plugin: 'echo', auth_mode: name, ...secret });
    const tested = await at.api.ask(`/webhooks/p-${name}/test`, { body: '{}' });
    expect(tested.body).toMatchObject({ status: 202, answer: { accepted: true } });
  });

  test('in the general form too, and where only the sender can it says so', async () => {
    const signed = {
      header: 'X-Sig',
      payload: '{method}\n{header:X-Time}.{body}',
      timestamp: '{header:X-Time}',
      algorithm: 'sha512',
    };
    await at.open('general', { plugin: 'echo', auth_mode: 'signed', signed });
    const tested = await at.api.ask('/webhooks/general/test', { body: '{}' });
    expect(tested.body).toMatchObject({ status: 202 });
    const sought = { hmac_header: 'X-Sig', hmac_sig_regex: 'v1=([a-f0-9]+)' };
    await at.open('sought', { plugin: 'echo', auth_mode: 'hmac', ...sought });
    const refused = await at.api.ask('/webhooks/sought/test', { body: '{}' });
    expect([refused.status, refused.text]).toEqual([
      400,
      expect.stringContaining('only the sender'),
    ]);
  });
});

test('N-03 a challenge is answered when it is signed, and only then', async () => {
  const body = '{"type":"url_verification","challenge":"c-1"}';
  const stamp = String(Math.floor(Date.now() / 1000));
  const send = (secret: string): Promise<AttackResponse> =>
    at.post(
      '/hooks/slack',
      [
        ['x-slack-request-timestamp', stamp],
        ['x-slack-signature', `v0=${mac(secret, `v0:${stamp}:${body}`, 'hex')}`],
      ],
      body,
    );
  await at.comesToNothing(async () => {
    const response = await send('slack-secret');
    expect([response.status, response.text]).toEqual([200, '{"challenge":"c-1"}\n']);
    const refused = await send('wrong');
    expect(refused.status).toBe(401);
    expect(refused.text).not.toContain('c-1');
  });
});

describe('N-04 a CloudEvent', () => {
  const data = '{"n":1}';
  const bearer = (): Lines => [['authorization', `Bearer ${token}`]];
  const structured = (event: object): Promise<AttackResponse> =>
    at.post(
      '/hooks/events',
      [...bearer(), ['content-type', 'application/cloudevents+json']],
      JSON.stringify({ specversion: '1.0', ...event, data: JSON.parse(data) as object }),
    );
  const binary = (id: string): Promise<AttackResponse> =>
    at.post(
      '/hooks/events',
      [
        ...bearer(),
        ['ce-specversion', '1.0'],
        ['ce-type', 'order.paid'],
        ['ce-source', '/shop'],
        ['ce-id', id],
      ],
      data,
    );
  const signalOf = async ({ text }: AttackResponse): Promise<Record<string, unknown>> => {
    const { signal_id: id } = JSON.parse(text) as { signal_id: string };
    return (await at.api.ask(`/signals/${id}`)).body;
  };

  test('is the same signal in its body and in headers, and once', async () => {
    const event = { type: 'order.paid', source: '/shop' };
    const first = await structured({ ...event, id: 'e-1' });
    const second = await binary('e-2');
    expect([first.status, second.status]).toEqual([202, 202]);
    const [one, two] = [await signalOf(first), await signalOf(second)];
    expect(two['data']).toEqual(one['data']);
    expect(two['type']).toBe(one['type']);
    await at.comesToNothing(async () => {
      expect((await binary('e-1')).status).toBe(200);
      expect((await structured({ ...event, id: 'e-2' })).status).toBe(200);
    });
    expect((await structured({ ...event, source: '/other', id: 'e-1' })).status).toBe(202);
  });

  test.each(['id', 'source', 'type'])('without its %s is 400', async (missing) => {
    const event: Record<string, string> = { type: 'order.paid', source: '/shop', id: 'e-9' };
    const left = Object.fromEntries(Object.entries(event).filter(([name]) => name !== missing));
    await at.comesToNothing(async () => {
      expect((await structured(left)).status).toBe(400);
    });
  });
});

test("W-73 a webhook that can't be read does not hide the others, and is reported", async () => {
  const { engine } = at.api.server.instance;
  await at.open('broken', { signal: 'thing.seen' });
  const real = engine.ledger.webhooks.list.bind(engine.ledger);
  engine.ledger.webhooks.list = async () =>
    (await real()).map((one) => (one.id === 'broken' ? { ...one, settings: '{"title":7}' } : one));
  try {
    await engine.webhookIntake.store.refresh();
    const lines: Lines = [['authorization', `Bearer ${token}`]];
    expect((await at.post('/hooks/broken', lines, '{}')).status).toBe(404);
    expect((await at.post('/hooks/events', lines, '{"left":1}')).status).toBe(202);
    const logLines = at.api.records.filter(({ message }) => message === 'a webhook cannot be used');
    expect(logLines[0]).toMatchObject({ level: 'error', hook_id: 'broken' });
  } finally {
    engine.ledger.webhooks.list = real;
    await engine.webhookIntake.store.refresh();
  }
});

test('W-28 the budget of a webhook is its own, and only what is verified spends it', async () => {
  const entry = { plugin: 'echo', auth_mode: 'gitlab', rate_limit_per_minute: 2 };
  const secrets = [await at.open('one', entry), await at.open('two', entry)];
  const send = (id: string, secret: string, n: number): Promise<AttackResponse> =>
    at.post(`/hooks/${id}`, [['x-gitlab-token', secret]], `{"n":${n}}`);
  for (let n = 0; n < 5; n += 1) expect((await send('one', 'wrong', n)).status).toBe(401);
  const statuses: number[] = [];
  for (let n = 0; n < 4; n += 1) statuses.push((await send('one', secrets[0] ?? '', n)).status);
  expect(statuses).toEqual([202, 202, 429, 429]);
  expect((await send('two', secrets[1] ?? '', 0)).status).toBe(202);
});
