/** Single deliveries by an id or its beginning, on both databases. */
import { createHmac } from 'node:crypto';
import { describe, expect, onTestFinished, test } from 'vitest';
import type { JsonObject } from '../../src/base/json.ts';
import { reservedIds } from '../../src/webhook/webhook.directives.ts';
import { OWNER, startApi, type ApiSetup, type TestApi } from '../support/api-server.ts';
import { run } from '../support/fake-cli.ts';
import { databases, type Database } from '../support/instance.ts';

async function open(setup: ApiSetup = {}): Promise<TestApi> {
  const api = await startApi({ webhooks: { listen: '127.0.0.1:0' }, ...setup });
  onTestFinished(() => api.close());
  return api;
}

async function add(api: TestApi, entry: JsonObject): Promise<string> {
  const body = JSON.stringify({ title: 'T', auth_mode: 'github', ...entry });
  const made = await api.ask('/webhooks', { body });
  expect(made.status).toBe(201);
  return String(made.body['secret']);
}

function signed(secret: string, body: string) {
  const mac = createHmac('sha256', secret).update(body).digest('hex');
  return { body, headers: { 'x-hub-signature-256': `sha256=${mac}`, 'user-agent': 'Hookshot' } };
}

/** The newest first. */
async function idsOf(api: TestApi, query = ''): Promise<string[]> {
  const { body } = await api.ask(`/webhooks/deliveries${query}`);
  return (body['deliveries'] as { delivery_id: string }[]).map(({ delivery_id: id }) => id);
}

/** The shortest prefix of the first id that the second doesn't share. */
function shorten(id: string, other: string): string {
  let end = 4;
  while (other.startsWith(id.slice(0, end))) end += 1;
  return id.slice(0, end);
}

describe.each(databases)('on %s', (database: Database) => {
  test('a list shows the outcome of the jobs and runs of each delivery', async () => {
    const steps = [{ id: 'look', uses: 'echo.poll' }];
    const api = await open({ database, pipelines: [{ name: 'care', steps }] });
    const toJob = await add(api, { id: 'job', plugin: 'echo' });
    const toRun = await add(api, { id: 'run', pipeline: 'care' });
    await add(api, { id: 'none', plugin: 'echo' });
    await api.deliver('/hooks/job', signed(toJob, '{"message":"hi"}'));
    await api.deliver('/hooks/run', signed(toRun, '{"message":"hi"}'));
    await api.deliver('/hooks/run', signed('wrong', '{"message":"hi"}'));
    const statuses = async (): Promise<unknown> => {
      const { deliveries } = (await api.ask('/webhooks/deliveries')).body;
      return (deliveries as JsonObject[]).map(({ hook_id: hook, status }) => [hook, status]);
    };
    await expect.poll(statuses).toEqual([
      ['run', null],
      ['run', 'succeeded'],
      ['job', 'succeeded'],
    ]);
    const { webhooks } = (await api.ask('/webhooks')).body;
    expect(webhooks).toMatchObject([
      { id: 'job', last_status: 'succeeded', last_error: null },
      { id: 'none', last_status: null },
      { id: 'run', last_status: 'succeeded' },
    ]);
  });

  test('a delivery shows its verdict and what it started', async () => {
    const api = await open({ database });
    const secret = await add(api, { id: 'gh', plugin: 'echo' });
    const first = signed(secret, '{"message":"hi"}');
    const { body: taken } = await api.deliver('/hooks/gh', first);
    await api.deliver('/hooks/gh', first);
    const [id = ''] = await idsOf(api);
    const { body, text, status } = await api.ask(`/webhooks/deliveries/${id}`);
    expect([status, body]).toEqual([
      200,
      expect.objectContaining({
        delivery_id: id,
        hook_id: 'gh',
        verdict: 'accepted',
        reason: null,
        source: '127.0.0.1',
        body_bytes: 16,
        duplicates: 1,
        signal_id: taken['signal_id'],
        received_at: expect.any(String),
        jobs: [
          {
            job_id: taken['job_id'],
            plugin: 'echo',
            command: 'handle',
            status: expect.any(String),
            submitted_by: 'webhook',
          },
        ],
        runs: [],
      }),
    ]);
    expect(body['headers']).toContainEqual(['user-agent', 'Hookshot']);
    expect(text).not.toContain(first.headers['x-hub-signature-256']);
  });

  test('the beginning of an id is enough where it is the only one, for replays too', async () => {
    const steps = [{ id: 'look', uses: 'echo.poll' }];
    const api = await open({ database, pipelines: [{ name: 'care', steps }] });
    const secret = await add(api, { id: 'p', pipeline: 'care' });
    await api.deliver('/hooks/p', signed('wrong', '{}'));
    await api.deliver('/hooks/p', signed(secret, '{}'));
    await expect.poll(() => idsOf(api)).toHaveLength(2);
    const [taken = ''] = await idsOf(api, '?verdict=accepted');
    const [refused = ''] = await idsOf(api, '?verdict=refused');
    const short = shorten(taken, refused);
    const replayed = await api.ask(`/webhooks/deliveries/${short.toUpperCase()}/replay`, {
      body: '{}',
    });
    expect(replayed).toMatchObject({ status: 200, body: { runs: 1 } });
    const { body } = await api.ask(`/webhooks/deliveries/${short}`);
    expect(body).toMatchObject({ delivery_id: taken });
    expect(body['runs']).toEqual([
      expect.objectContaining({ pipeline: 'care', submitted_by: 'replay' }),
      expect.objectContaining({ pipeline: 'care', submitted_by: 'webhook' }),
    ]);
    const other = await api.ask(`/webhooks/deliveries/${refused}`);
    expect(other.body).toMatchObject({ verdict: 'refused', signal_id: null, jobs: [], runs: [] });
    expect(other.body['reason']).toEqual(expect.any(String));
    expect(await api.ask(`/webhooks/deliveries/${taken.slice(0, 4)}`)).toMatchObject({
      status: 400,
      body: {
        error: expect.stringContaining('2 deliveries have'),
        details: { candidates: expect.arrayContaining([taken, refused]) },
      },
    });
    expect(await api.ask('/webhooks/deliveries/ffffffff')).toMatchObject({
      status: 404,
      body: { code: 'DELIVERY_NOT_FOUND' },
    });
  });

  test('only a webhook that was never there has no list', async () => {
    const api = await open({ database });
    const secret = await add(api, { id: 'gone', plugin: 'echo' });
    await add(api, { id: 'quiet', plugin: 'echo' });
    await api.deliver('/hooks/gone', signed(secret, '{}'));
    await api.ask('/webhooks/gone', { method: 'DELETE' });
    expect(await idsOf(api, '?id=gone')).toHaveLength(1);
    expect(await idsOf(api, '?id=gone&verdict=refused')).toEqual([]);
    expect(await idsOf(api, '?id=quiet')).toEqual([]);
    expect(await idsOf(api, '?id=/hook/github')).toEqual([]);
    expect(await api.ask('/webhooks/deliveries?id=nosuch')).toMatchObject({
      status: 404,
      body: { code: 'WEBHOOK_NOT_FOUND', error: expect.stringContaining('nosuch') },
    });
  });
});

test('the command line shows a delivery with its headers and what it started', async () => {
  const api = await open();
  const secret = await add(api, { id: 'gh', plugin: 'echo' });
  const { body } = await api.deliver('/hooks/gh', signed(secret, '{}'));
  const [id = ''] = await idsOf(api);
  const there = ['--url', `http://127.0.0.1:${api.port}`, '--token', OWNER];
  const { out, code } = await run(['webhook', 'delivery', id.slice(0, 13), ...there]);
  expect(code).toBe(0);
  expect(out).toMatch(new RegExp(`^delivery +${id}\nwebhook +gh\nverdict +accepted\n`));
  expect(out).toContain('\n  user-agent: Hookshot\n');
  expect(out).toMatch(new RegExp(`${String(body['job_id'])} +echo +handle`));
});

test('a webhook cannot be called what its own list is called', async () => {
  const api = await open();
  for (const id of reservedIds) {
    const body = JSON.stringify({ title: 'T', signal: 'a.b', id });
    expect(await api.ask('/webhooks', { body })).toMatchObject({
      status: 400,
      body: { place: 'id' },
    });
  }
});
