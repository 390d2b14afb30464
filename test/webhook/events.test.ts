/** The sender's event type and configured headers, from a delivery to routes, pipelines and plugins. */
import { createHmac } from 'node:crypto';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { JsonObject } from '../../src/base/json.ts';
import { startApi, type Reply, type TestApi } from '../support/api-server.ts';
import { databases, eventually, type Database } from '../support/instance.ts';
import { python } from '../support/plugin-program.ts';
import { writePlugin } from '../support/plugin-tree.ts';

const SECRET = 'the-secret-of-the-sender';
const STANDARD = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw';

/** Returns its whole request as its result. */
const mirrors = python('ok(json.dumps(request))');

function hex(text: string, key: string | Buffer = SECRET): string {
  return createHmac('sha256', key).update(text).digest('hex');
}

function base64(text: string, key: string | Buffer = SECRET): string {
  return createHmac('sha256', key).update(text).digest('base64');
}

type Delivery = { readonly body: string; readonly headers: Readonly<Record<string, string>> };

const nowS = String(Math.floor(Date.now() / 1000));

function github(event: string, body = '{"zen":"Design for failure."}', more = {}): Delivery {
  const signature = `sha256=${hex(body)}`;
  return { body, headers: { 'x-hub-signature-256': signature, 'x-github-event': event, ...more } };
}

function standard(lead: string): Delivery {
  const body = '{"type":"user.created","data":{"id":1}}';
  const key = Buffer.from(STANDARD.slice('whsec_'.length), 'base64');
  const headers = {
    [`${lead}id`]: 'msg_1',
    [`${lead}timestamp`]: nowS,
    [`${lead}signature`]: `v1,${base64(`msg_1.${nowS}.${body}`, key)}`,
  };
  return { body, headers };
}

function slack(body: string, type = 'application/json'): Delivery {
  const signature = `v0=${hex(`v0:${nowS}:${body}`)}`;
  const headers = { 'x-slack-request-timestamp': nowS, 'x-slack-signature': signature };
  return { body, headers: { ...headers, 'content-type': type } };
}

const form = 'application/x-www-form-urlencoded';

function twilio(fields: Readonly<Record<string, string>>): Delivery {
  const sorted = Object.entries(fields).toSorted(([a], [b]) => (a < b ? -1 : 1));
  const signed = `https://hooks.example.org/hooks/twilio${sorted.flat().join('')}`;
  const signature = createHmac('sha1', SECRET).update(signed).digest('base64');
  const body = new URLSearchParams(sorted).toString();
  return { body, headers: { 'x-twilio-signature': signature, 'content-type': form } };
}

function stripe(body: string): Delivery {
  const headers = { 'stripe-signature': `t=${nowS},v1=${hex(`${nowS}.${body}`)}` };
  return { body, headers };
}

function shopify(lead: string): Delivery {
  const body = `{"id":820982911946154508,"from":"${lead}"}`;
  const headers = { [`${lead}hmac-sha256`]: base64(body), [`${lead}topic`]: 'orders/create' };
  return { body, headers };
}

function generic(headers: Readonly<Record<string, string>>, body = '{}'): Delivery {
  return { body, headers: { 'x-signature': hex(body), ...headers } };
}

const senders: readonly (readonly [string, string, Delivery, string, string])[] = [
  ['a GitHub push', 'github', github('push'), 'push', 'push'],
  ['a Shopify topic', 'shopify', shopify('x-shopify-'), 'orders/create', 'orders.create'],
  ['a Shopify topic without X', 'shopify', shopify('shopify-'), 'orders/create', 'orders.create'],
  [
    'a GitLab push',
    'gitlab',
    {
      body: '{"object_kind":"push"}',
      headers: { 'x-gitlab-token': SECRET, 'x-gitlab-event': 'Push Hook' },
    },
    'Push Hook',
    'push_hook',
  ],
  [
    'a Stripe event',
    'stripe',
    stripe('{"id":"evt_1","object":"event","type":"checkout.session.completed"}'),
    'checkout.session.completed',
    'checkout.session.completed',
  ],
  [
    'a Slack event',
    'slack',
    slack('{"type":"event_callback","event_id":"Ev1","event":{"type":"app_mention"}}'),
    'app_mention',
    'app_mention',
  ],
  [
    'a Slack button',
    'slack',
    slack(`payload=${encodeURIComponent('{"type":"block_actions"}')}`, form),
    'block_actions',
    'block_actions',
  ],
  [
    'a Slack slash command',
    'slack',
    slack('command=%2Fdeploy&text=now&trigger_id=1', form),
    'slash_command',
    'slash_command',
  ],
  [
    'a text message to Twilio',
    'twilio',
    twilio({ MessageSid: 'SM1', SmsStatus: 'received', Body: 'hi' }),
    'message.received',
    'message.received',
  ],
  [
    'a call to Twilio',
    'twilio',
    twilio({ CallSid: 'CA1', CallStatus: 'in-progress' }),
    'call.in-progress',
    'call.in-progress',
  ],
  ['Standard Webhooks', 'standard-webhooks', standard('webhook-'), 'user.created', 'user.created'],
  ['Svix', 'svix', standard('svix-'), 'user.created', 'user.created'],
  ['Bitbucket', 'hmac', generic({ 'x-event-key': 'repo:push' }), 'repo:push', 'repo.push'],
  [
    'Gitea',
    'hmac',
    generic({ 'x-gitea-event': 'pull_request', 'x-github-event': 'other' }, '{"n":2}'),
    'pull_request',
    'pull_request',
  ],
  ['Linear', 'hmac', generic({ 'linear-event': 'Issue' }, '{"n":3}'), 'Issue', 'issue'],
  [
    'a CloudEvent',
    'hmac',
    generic(
      {
        'ce-specversion': '1.0',
        'ce-id': '1',
        'ce-source': '/shop',
        'ce-type': 'com.example.Order.Paid',
      },
      '{"n":4}',
    ),
    'com.example.Order.Paid',
    'com.example.order.paid',
  ],
  [
    'a field of the body',
    'field',
    generic({ 'x-github-event': 'ignored' }, '{"meta":{"kind":"Nightly Build"}}'),
    'Nightly Build',
    'nightly_build',
  ],
  [
    'a configured header',
    'header',
    generic({ 'x-my-event': 'Job:Done' }, '{"n":5}'),
    'Job:Done',
    'job.done',
  ],
];

/** Long enough for a machine with other work. */
const answering = { plugin: 'mirror', respond: 'result', respond_within: '1m' };
const general = { auth_mode: 'hmac', hmac_header: 'X-Signature', hmac_sig_prefix: '' };

async function open(database?: Database): Promise<TestApi> {
  return await startApi({
    api: { max_sync_timeout: '1m' },
    ...(database === undefined ? {} : { database }),
    webhooks: {
      listen: '127.0.0.1:0',
      public_url: 'https://hooks.example.org',
      endpoints: [
        {
          path: '/static',
          plugin: 'mirror',
          secret_ref: 'static',
          signature_header: 'X-Hub-Signature-256',
          headers: ['X-Region'],
          respond: 'result',
          respond_within: '1m',
        },
      ],
    },
    tokens: [{ name: 'static', key: SECRET, scopes: [] }],
    routes: [
      { event_type: 'webhook.received.push', from: 'webhook:routed', to: 'mirror.poll' },
      { event_type: 'code.changed', to: 'mirror.poll' },
      { event_type: 'code.changed.push', to: 'mirror.look' },
    ],
    pipelines: [
      { name: 'pulls', on: 'code.changed.pull_request', steps: [{ uses: 'mirror.look' }] },
      {
        name: 'regional',
        on: 'code.changed',
        if: { path: 'context.ductile.webhook.headers.x-region', op: 'eq', value: 'eu' },
        steps: [{ uses: 'mirror.look' }],
      },
    ],
    async prepare(directory) {
      const commands = 'commands: {poll: {}, look: {}, handle: {}}';
      const files = { name: 'mirror', entrypoint: 'run', program: mirrors, commands };
      await writePlugin(join(directory, 'plugins', 'mirror'), files);
    },
  });
}

async function add(api: TestApi, entry: JsonObject): Promise<Reply> {
  const isStandard = ['standard-webhooks', 'svix'].some((mode) => mode === entry['auth_mode']);
  const secret = isStandard ? STANDARD : SECRET;
  return await api.ask('/webhooks', { body: JSON.stringify({ title: 'T', secret, ...entry }) });
}

interface MirroredRequest {
  readonly command: string;
  readonly payload: JsonObject;
  readonly event?: { readonly type: string; readonly metadata: JsonObject };
  readonly context: { readonly ductile?: { readonly webhook: JsonObject } };
}

function mirrorOf({ body }: Reply): MirroredRequest {
  return JSON.parse(String(body['result'])) as MirroredRequest;
}

describe('all kinds of events on one service', () => {
  let api: TestApi;
  beforeAll(async () => {
    api = await open();
    for (const mode of [
      'github',
      'gitlab',
      'shopify',
      'stripe',
      'slack',
      'twilio',
      'standard-webhooks',
      'svix',
    ]) {
      expect((await add(api, { id: mode, auth_mode: mode, ...answering })).status).toBe(201);
    }
    expect((await add(api, { id: 'hmac', ...general, ...answering })).status).toBe(201);
    const field = { id: 'field', ...general, ...answering, event_field: 'meta.kind' };
    expect((await add(api, field)).status).toBe(201);
    const header = { id: 'header', ...general, ...answering, event_header: 'X-My-Event' };
    expect((await add(api, header)).status).toBe(201);
  });
  afterAll(() => api.close());

  test.each(senders)(
    '%s has its event type in the signal and in the request',
    async (_, id, sent, type, event) => {
      const response = await api.deliver(`/hooks/${id}`, sent);
      expect([response.status, response.text]).toEqual([200, expect.any(String)]);
      const request = mirrorOf(response);
      const webhook = { id, event_type: type, event };
      expect(request.context.ductile).toEqual({ webhook: expect.objectContaining(webhook) });
      expect(request.event).toMatchObject({ type: 'webhook.received', metadata: { webhook } });
      const signal = await api.ask(`/signals/${String(response.body['signal_id'])}`);
      expect(signal.body).toMatchObject({ type: 'webhook.received', metadata: { webhook } });
    },
  );

  test("a Shopify id that a double can't hold reaches the plugin exactly", async () => {
    const body = '{"id":820982911946154507}';
    const headers = { 'x-shopify-hmac-sha256': base64(body), 'x-shopify-topic': 'orders/paid' };
    const response = await api.deliver('/hooks/shopify', { body, headers });
    expect(response.body['result']).toContain('820982911946154507');
  });

  test('a delivery without an event type and headers says nothing of them', async () => {
    const response = await api.deliver('/hooks/hmac', generic({}, '{"plain":true}'));
    const request = mirrorOf(response);
    expect(request.context).toEqual({});
    expect(request.event).not.toHaveProperty('metadata');
  });

  test('an endpoint of the configuration has them, too', async () => {
    const sent = github('deployment', '{"static":1}', { 'x-region': 'eu' });
    const response = await api.deliver('/static', sent);
    const request = mirrorOf(response);
    expect(request.event?.metadata).toEqual({
      webhook: {
        id: '/static',
        event: 'deployment',
        event_type: 'deployment',
        headers: { 'x-region': 'eu' },
      },
    });
  });

  test('a header that came twice, is blank or is too long does no harm', async () => {
    const blank = await api.deliver('/hooks/github', github(' ', '{"blank":1}'));
    expect(mirrorOf(blank).context).toEqual({});
    const long = await api.deliver('/hooks/github', github('x'.repeat(3000), '{"long":1}'));
    const { webhook } = mirrorOf(long).context.ductile ?? {};
    expect(webhook?.['event_type']).toBe('x'.repeat(200));
  });

  test.each([
    [{ headers: ['Authorization'] }, 'headers'],
    [{ headers: ['X-Signature'] }, 'headers'],
    [{ headers: ['Cookie'] }, 'headers'],
    [{ headers: ['X-Api-Key'] }, 'headers'],
    [{ headers: ['not a header'] }, 'headers'],
    [{ headers: Array.from({ length: 21 }, (_, n) => `X-${n}`) }, 'headers'],
    [{ event_header: 'X-Signature' }, 'event_header'],
    [{ event_header: 'X-A', event_field: 'b' }, 'event_field'],
  ])('%j is refused with its key', async (entry, key) => {
    const response = await add(api, { ...general, plugin: 'mirror', ...entry });
    expect(response).toMatchObject({ status: 400, text: expect.stringContaining(key) });
  });
});

describe.each(databases)('on %s', (database: Database) => {
  test('routes and pipelines match the type of a signal, and that with the event behind it', async () => {
    const api = await open(database);
    try {
      const region = { headers: ['X-Region'] };
      await add(api, { id: 'routed', plugin: 'mirror', auth_mode: 'github' });
      await add(api, { id: 'code', signal: 'code.changed', auth_mode: 'github', ...region });
      const started = async (sent: Reply): Promise<unknown> => {
        const { signal_id: id } = sent.body;
        const { jobs, runs } = (await api.ask(`/signals/${String(id)}`)).body;
        const names = (jobs as { plugin: string; command: string }[]).map(({ command }) => command);
        const flows = (runs as { pipeline: string }[]).map(({ pipeline }) => pipeline);
        return [names.toSorted(), flows.toSorted()];
      };
      const send = (id: string, event: string, n: number, more = {}): Promise<Reply> =>
        api.deliver(`/hooks/${id}`, github(event, `{"n":${n}}`, more));
      expect(await started(await send('routed', 'push', 1))).toEqual([['handle', 'poll'], []]);
      expect(await started(await send('routed', 'issues', 2))).toEqual([['handle'], []]);
      expect(await started(await send('code', 'push', 3))).toEqual([['look', 'poll'], []]);
      const pull = await send('code', 'pull_request', 4, { 'x-region': 'eu' });
      const [, runs] = (await started(pull)) as [string[], string[]];
      expect(runs).toEqual(['pulls', 'regional']);
      const other = await send('code', 'star', 5, { 'x-region': 'us' });
      expect(await started(other)).toEqual([['poll'], []]);

      // A replay of the signal, and of the delivery, matches the same and brings the same.
      const { signal_id: signal } = pull.body;
      const replay = { id: signal, force: true };
      const replayed = await api.ask('/signals/replay', { body: JSON.stringify(replay) });
      expect([replayed.status, replayed.text]).toEqual([expect.any(Number), expect.any(String)]);
      await eventually('the runs of the replay are there', async () => {
        const [, flows] = (await started(pull)) as [string[], string[]];
        return flows.length === 4 ? flows : undefined;
      });
      const steps = await eventually('all steps have ended', async () => {
        const { jobs } = (await api.ask('/jobs?plugin=mirror&command=look&status=succeeded')).body;
        return (jobs as unknown[]).length === 5 ? (jobs as { job_id: string }[]) : undefined;
      });
      for (const { job_id: id } of steps) {
        const { body } = await api.ask(`/job/${id}`);
        const { result } = body['result'] as { result: string };
        const { context } = JSON.parse(result) as MirroredRequest;
        expect(context.ductile?.webhook).toMatchObject({ id: 'code', event: expect.any(String) });
      }
    } finally {
      await api.close();
    }
  });
});
