/** `webhook test` is a directive: its delivery and its signal record who requested it. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { OWNER, startApi, type Reply, type TestApi } from '../support/api-server.ts';
import { databases } from '../support/instance.ts';

describe.each(databases)('on %s', (database) => {
  let api: TestApi;
  beforeAll(async () => {
    const tokens = [
      { name: 'owner', token: OWNER, scopes: ['*'] },
      { name: 'hooks', token: 'hooks-token-01234567', scopes: ['webhooks:rw'] },
    ];
    api = await startApi({ database, api: { auth: { tokens } } });
    const webhook = { id: 'deploys', title: 'Deploys', plugin: 'echo', auth_mode: 'gitlab' };
    const made = await api.ask('/webhooks', { body: JSON.stringify(webhook) });
    expect(made.status).toBe(201);
    secret = String(made.body['secret']);
  });
  afterAll(() => api.close());

  let secret = '';
  const post = (path: string, body: object = {}, token: string = OWNER): Promise<Reply> =>
    api.ask(path, { body: JSON.stringify(body), token });
  const rows = async (path: string, field: string) =>
    (await api.ask(path)).body[field] as Record<string, unknown>[];

  test('a test delivery is recorded with its actor, and so are its delivery and its signal', async () => {
    const plan = await post('/webhooks/deploys/test', { dry_run: true });
    expect(plan.body).toMatchObject({
      dry_run: true,
      plan: [expect.any(String), expect.any(String)],
    });
    expect(await rows('/webhooks/deliveries', 'deliveries')).toEqual([]);

    const done = await post('/webhooks/deploys/test', { payload: { password: 'hunter2-hunter2' } });
    expect(done.body).toMatchObject({ status: 202, answer: { accepted: true } });
    const id = String(done.body['directive_id']);
    const directive = await api.ask(`/directives/${id}`);
    expect(directive.body).toMatchObject({
      type: 'webhook.test',
      target: 'webhook:deploys',
      actor: 'token:owner',
      actor_role: 'owner',
      status: 'completed',
      result: { status: 202 },
    });
    // The payload may hold anything; the signal masks it, and the record doesn't have it.
    expect(directive.text).not.toContain('hunter2');
    const [delivery] = await rows('/webhooks/deliveries', 'deliveries');
    expect(delivery).toMatchObject({ verdict: 'accepted', test_by: 'token:owner' });
    const signal = await api.ask(`/signals/${String(delivery?.['signal_id'])}`);
    expect(signal.body).toMatchObject({
      metadata: { test: { actor: 'token:owner', directive_id: id } },
      causation_id: id,
    });
  });

  test('a test delivery needs the role of every other change of webhooks', async () => {
    const directives = (await rows('/directives', 'directives')).length;
    const admin = String((await post('/tokens', { name: 'tester', role: 'admin' })).body['token']);
    const member = String((await post('/tokens', { name: 'mem', role: 'member' })).body['token']);
    const request = { type: 'webhook.test', params: { id: 'deploys' } };
    for (const token of ['hooks-token-01234567', member]) {
      expect((await post('/webhooks/deploys/test', {}, token)).status).toBe(403);
      expect((await post('/directives', request, token)).status).toBe(403);
    }
    expect(await rows('/webhooks/deliveries', 'deliveries')).toHaveLength(1);
    expect(await rows('/directives', 'directives')).toHaveLength(directives + 2);
    const done = await post('/directives', request, admin);
    expect(done.body).toMatchObject({ status: 'completed', result: { status: 202 } });
    const [delivery] = await rows('/webhooks/deliveries', 'deliveries');
    expect(delivery).toMatchObject({ test_by: 'token:tester' });
  });

  test('a sender is never taken for a test, whatever its headers say', async () => {
    const headers = { 'x-gitlab-token': secret, 'x-ductile-test-token': 'a'.repeat(32) };
    const sent = await api.ask('/hooks/deploys', { body: '{}', token: undefined, headers });
    expect(sent.status).toBe(202);
    const [delivery] = await rows('/webhooks/deliveries', 'deliveries');
    expect(delivery).toMatchObject({ verdict: 'accepted', test_by: null });
    const signal = await api.ask(`/signals/${String(delivery?.['signal_id'])}`);
    expect(signal.body['metadata']).not.toHaveProperty('test');
  });
});
