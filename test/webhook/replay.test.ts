/** A replay of a delivery handles its signal again. */
import { expect, onTestFinished, test } from 'vitest';
import { mac, openAttackedService } from '../support/webhook-attacks.ts';
import { databases } from '../support/instance.ts';

test.each(databases)(
  'a replay on %s delivers the original event to the current handlers',
  async (database) => {
    const routes = [{ from: 'webhook:gl', event_type: 'webhook.received', to: 'sleeper' }];
    const at = await openAttackedService({ database, routes });
    onTestFinished(() => at.api.close());
    const secret = await at.open('gl', { plugin: 'echo', command: 'handle', auth_mode: 'gitlab' });
    const taken = await at.post('/hooks/gl', [['x-gitlab-token', secret]], '{"message":"hi"}');
    const { signal_id: signalId } = JSON.parse(taken.text) as { signal_id: string };
    const { deliveries } = (await at.api.ask('/webhooks/deliveries')).body;
    const [{ delivery_id: id } = { delivery_id: '' }] = deliveries as { delivery_id: string }[];
    for (const jobs of [2, 2]) {
      const replayed = await at.api.ask(`/webhooks/deliveries/${id}/replay`, { body: '{}' });
      expect(replayed).toMatchObject({ status: 200, body: { jobs, signal_id: signalId } });
    }
    const { ledger } = at.api.server.instance.engine;
    const [signal] = await ledger.signals.list({ id: signalId, limit: 1 });
    const all = await ledger.jobs.list({ limit: 10 });
    const whole = await Promise.all(all.map((job) => ledger.jobs.find(job.id)));
    const again = whole.filter((job) => job?.submittedBy === 'replay');
    expect(again.flatMap((job) => job?.plugin ?? []).toSorted()).toEqual([
      'echo',
      'echo',
      'sleeper',
      'sleeper',
    ]);
    for (const job of again) {
      expect(job?.sourceEventId).toBe(signalId);
      expect(JSON.parse(job?.payload ?? '')).toEqual({
        type: 'webhook.received',
        payload: { message: 'hi' },
        source: 'webhook:gl',
        timestamp: signal?.occurredAt,
        event_id: signalId,
      });
    }
    expect(new Set(whole.map((job) => job?.idempotencyKey)).size).toBe(6);
    expect(await ledger.signals.list({ source: 'webhook:gl', limit: 10 })).toHaveLength(1);
  },
);

test('a delivery to an endpoint of the configuration is replayed while the endpoint exists', async () => {
  const key = 'a-secret-of-the-files';
  const endpoint = { path: '/static', plugin: 'echo', secret_ref: 's', signature_header: 'X-Sig' };
  const at = await openAttackedService({
    webhooks: { listen: '127.0.0.1:0', endpoints: [endpoint] },
    tokens: [{ name: 's', key, scopes: [] }],
  });
  onTestFinished(() => at.api.close());
  const body = '{"message":"hi"}';
  const taken = await at.post('/static', [['x-sig', mac(key, body, 'hex')]], body);
  expect(taken.status).toBe(202);
  const { deliveries } = (await at.api.ask('/webhooks/deliveries?id=/static')).body;
  const [{ delivery_id: id } = { delivery_id: '' }] = deliveries as { delivery_id: string }[];
  const why = await at.api.ask(`/why/delivery/${id}`);
  expect(why.body['commands']).toContain(`ductile webhook replay ${id}`);
  const replayed = await at.api.ask(`/webhooks/deliveries/${id}/replay`, { body: '{}' });
  expect(replayed).toMatchObject({ status: 200, body: { jobs: 1 } });
  const { endpoints } = (await at.api.ask('/webhooks/endpoints')).body;
  expect(endpoints).toMatchObject([
    {
      path: '/static',
      url: expect.stringMatching(/^http:.*[0-9]\/static$/),
      plugin: 'echo',
      command: 'handle',
      signature_header: 'x-sig',
      secret_ref: 's',
      respond: 'accepted',
      last_triggered_at: expect.any(String),
      last_status: expect.any(String),
    },
  ]);
  const { jobs } = (await at.api.ask('/jobs')).body;
  expect(jobs).toMatchObject([
    { plugin: 'echo', submitted_by: 'replay' },
    { plugin: 'echo', submitted_by: 'webhook' },
  ]);
});

test('a replay of its signal explains how to replay the webhook itself', async () => {
  const at = await openAttackedService({});
  onTestFinished(() => at.api.close());
  const secret = await at.open('gl', { plugin: 'echo', command: 'handle', auth_mode: 'gitlab' });
  await at.post('/hooks/gl', [['x-gitlab-token', secret]], '{"message":"hi"}');
  const body = JSON.stringify({ source: 'webhook:gl', dry_run: true });
  const { plan } = (await at.api.ask('/signals/replay', { body })).body;
  expect(plan).toContain(
    'Work that webhooks start themselves is not repeated; `ductile webhook replay` does that.',
  );
});
