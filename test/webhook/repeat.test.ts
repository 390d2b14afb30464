/** Deliveries that arrive again: under the same id, under another one, and as a copy someone kept. */
import { createHmac } from 'node:crypto';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { JsonObject } from '../../src/base/json.ts';
import { startApi, type ApiSetup, type Reply, type TestApi } from '../support/api-server.ts';
import { databases, eventually, type Database } from '../support/instance.ts';

async function open(setup: ApiSetup = {}): Promise<TestApi> {
  const api = await startApi({ webhooks: { listen: '127.0.0.1:0' }, ...setup });
  onTestFinished(() => api.close());
  return api;
}

const SECRET = 'the-secret-of-the-sender';

async function add(api: TestApi, entry: JsonObject): Promise<void> {
  const body = JSON.stringify({ title: 'T', secret: SECRET, ...entry });
  const made = await api.ask('/webhooks', { body });
  expect([made.status, made.text]).toEqual([201, expect.any(String)]);
}

type Send = (api: TestApi, id: string | undefined, body?: string) => Promise<Reply>;

function mac(body: string, encoding: 'hex' | 'base64'): string {
  return createHmac('sha256', SECRET).update(body).digest(encoding);
}

/** Long enough for a machine with other work. */
const responding = { respond: 'result', respond_within: '1m' };

const BODY = '{"zen":"Keep it logically awesome."}';

/** The headers of each sender, as its documentation has them. */
const senders: Readonly<Record<string, Send>> = {
  github: (api, id, body = BODY) =>
    api.deliver('/hooks/github', {
      body,
      headers: {
        'x-hub-signature-256': `sha256=${mac(body, 'hex')}`,
        'x-github-event': 'ping',
        ...(id === undefined ? {} : { 'x-github-delivery': id }),
      },
    }),
  shopify: (api, id, body = BODY) =>
    api.deliver('/hooks/shopify', {
      body,
      headers: {
        'x-shopify-hmac-sha256': mac(body, 'base64'),
        'x-shopify-topic': 'products/update',
        ...(id === undefined ? {} : { 'x-shopify-webhook-id': id }),
      },
    }),
  twilio: (api, id) => {
    const url = 'https://hooks.example.org/hooks/twilio';
    // The same digit pressed twice in one call: the fields are the same, the token is not.
    const signed = `${url}CallSidCA1Digits1`;
    const signature = createHmac('sha1', SECRET).update(signed).digest('base64');
    return api.deliver('/hooks/twilio', {
      body: 'CallSid=CA1&Digits=1',
      headers: {
        'content-type': 'application/x-www-form-urlencoded',
        'x-twilio-signature': signature,
        ...(id === undefined ? {} : { 'i-twilio-idempotency-token': id }),
      },
    });
  },
};

const publicUrl = { listen: '127.0.0.1:0', public_url: 'https://hooks.example.org' };

async function countJobs(api: TestApi): Promise<number> {
  const { jobs } = (await api.ask('/jobs')).body;
  return (jobs as unknown[]).length;
}

describe.each(databases)('on %s', (database: Database) => {
  test.each(Object.entries(senders))(
    'the same body of %s under another id is another delivery',
    async (mode, send) => {
      const api = await open({ database, webhooks: publicUrl });
      await add(api, { id: mode, plugin: 'echo', command: 'poll', auth_mode: mode });
      const first = await send(api, 'one');
      const second = await send(api, 'two');
      expect([first.status, second.status]).toEqual([202, 202]);
      expect(second.body['signal_id']).not.toBe(first.body['signal_id']);
      expect(await send(api, 'two')).toMatchObject({ status: 200, body: { duplicate: true } });
      expect(await countJobs(api)).toBe(2);
      // Without an id, only the signed content distinguishes deliveries.
      expect((await send(api, undefined)).status).toBe(202);
      expect(await send(api, undefined)).toMatchObject({ status: 200, body: { duplicate: true } });
    },
  );

  test.each(Object.entries(senders))(
    'with replay strict the same body of %s under another id is refused',
    async (mode, send) => {
      const api = await open({ database, webhooks: publicUrl });
      const target = { plugin: 'echo', command: 'poll' };
      await add(api, { id: mode, ...target, auth_mode: mode, replay: 'strict' });
      expect((await send(api, 'one')).status).toBe(202);
      for (const id of ['two', undefined]) {
        const refused = await send(api, id);
        expect([refused.status, refused.text]).toEqual([409, '{"error":"replayed"}\n']);
      }
      expect(await send(api, 'one')).toMatchObject({ status: 200, body: { duplicate: true } });
      expect(await countJobs(api)).toBe(1);
      await eventually('both refusals are listed', async () => {
        const { body } = await api.ask('/webhooks/deliveries?verdict=refused');
        const refused = body['deliveries'] as { reason: string; sender_id: string | null }[];
        const reasons = refused.map(({ reason, sender_id: id }) => [reason, id]);
        return reasons.length === 2 ? reasons : undefined;
      }).then((told) =>
        expect(told).toEqual([
          ['replayed', null],
          ['replayed', 'two'],
        ]),
      );
    },
  );

  test('a duplicate names the job or the run of the first delivery, and its status', async () => {
    const steps = [{ id: 'look', uses: 'echo.poll' }];
    const api = await open({ database, pipelines: [{ name: 'care', steps }] });
    const send = async (id: string): Promise<Reply> =>
      await api.deliver(`/hooks/${id}`, {
        body: BODY,
        headers: { 'x-hub-signature-256': `sha256=${mac(BODY, 'hex')}`, 'x-github-delivery': '1' },
      });
    await add(api, { id: 'job', plugin: 'echo', command: 'poll', auth_mode: 'github' });
    await add(api, { id: 'run', pipeline: 'care', auth_mode: 'github' });
    await add(api, { id: 'signal', signal: 'thing.seen', auth_mode: 'github' });
    for (const [id, key] of [
      ['job', 'job_id'],
      ['run', 'run_id'],
    ] as const) {
      const first = await send(id);
      const { signal_id: signalId, [key]: started } = first.body;
      expect(started).toEqual(expect.any(String));
      const ended = await eventually('it has ended', async () => {
        const again = await send(id);
        return again.body['status'] === 'succeeded' ? again : undefined;
      });
      expect([ended.status, ended.body]).toEqual([
        200,
        {
          accepted: true,
          duplicate: true,
          hook_id: id,
          signal_id: signalId,
          [key]: started,
          status: 'succeeded',
        },
      ]);
    }
    const { signal_id: signalId } = (await send('signal')).body;
    expect((await send('signal')).body).toEqual({
      accepted: true,
      duplicate: true,
      hook_id: 'signal',
      signal_id: signalId,
    });
  });

  test('with respond result a duplicate has the result of the first delivery', async () => {
    const steps = [{ id: 'look', uses: 'echo.poll' }];
    const api = await open({ database, pipelines: [{ name: 'care', steps }] });
    await add(api, {
      id: 'job',
      plugin: 'echo',
      command: 'poll',
      auth_mode: 'github',
      ...responding,
    });
    await add(api, { id: 'run', pipeline: 'care', auth_mode: 'github', ...responding });
    const headers = {
      'x-hub-signature-256': `sha256=${mac(BODY, 'hex')}`,
      'x-github-delivery': '1',
    };
    for (const id of ['job', 'run']) {
      const first = await api.deliver(`/hooks/${id}`, { body: BODY, headers });
      expect(first).toMatchObject({ status: 200, body: { status: 'succeeded' } });
      expect(first.body).toHaveProperty('result');
      const again = await api.deliver(`/hooks/${id}`, { body: BODY, headers });
      expect([again.status, again.body]).toEqual([200, { ...first.body, duplicate: true }]);
    }
  });
});

test('a duplicate of a delivery whose job still runs waits for it, and then says that it runs', async () => {
  const api = await open();
  const target = { plugin: 'sleeper', respond: 'result', respond_within: '1s' };
  await add(api, { id: 'slow', ...target, auth_mode: 'github' });
  const headers = { 'x-hub-signature-256': `sha256=${mac(BODY, 'hex')}`, 'x-github-delivery': '1' };
  const first = await api.deliver('/hooks/slow', { body: BODY, headers });
  expect(first.status).toBe(202);
  const waiting = api.deliver('/hooks/slow', { body: BODY, headers });
  const again = await waiting;
  expect(again).toMatchObject({
    status: 200,
    body: { duplicate: true, job_id: first.body['job_id'], status: 'running' },
  });
  expect(again.body).not.toHaveProperty('result');
  await api.ask(`/job/${String(first.body['job_id'])}/cancel`, { body: '{}' });
});

test('GitLab events with the same UUID, which an earlier delivery caused, are other deliveries', async () => {
  const api = await open();
  await add(api, { id: 'gitlab', plugin: 'echo', command: 'poll', auth_mode: 'gitlab' });
  const send = async (body: string, more = {}): Promise<number> => {
    const headers = { 'x-gitlab-token': SECRET, 'x-gitlab-event-uuid': 'u-1', ...more };
    return (await api.deliver('/hooks/gitlab', { body, headers })).status;
  };
  expect([await send('{"n":1}'), await send('{"n":2}'), await send('{"n":1}')]).toEqual([
    202, 202, 200,
  ]);
  // Newer versions of GitLab name each delivery.
  const [one, two] = [{ 'idempotency-key': 'k-1' }, { 'idempotency-key': 'k-2' }];
  expect([
    await send('{"n":3}', one),
    await send('{"n":3}', two),
    await send('{"n":3}', one),
  ]).toEqual([202, 202, 200]);
});

test.each(['bearer', 'gitlab'])(
  'replay strict is refused for %s, which signs nothing',
  async (mode) => {
    const api = await open();
    const entry = { title: 'T', plugin: 'echo', auth_mode: mode, replay: 'strict' };
    expect(await api.ask('/webhooks', { body: JSON.stringify(entry) })).toMatchObject({
      status: 400,
      body: { place: 'replay' },
    });
  },
);
