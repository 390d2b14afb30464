/** Webhooks of tenants: unique addresses, found without a token, stored in the tenant's ledger. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { limits } from '../../src/base/limits.ts';
import { startApi, type Reply, type TestApi } from '../support/api-server.ts';
import { databases } from '../support/instance.ts';
import { dropTenants, makeTenant, type TestTenant } from '../support/tenants.ts';

describe.each(databases)('on %s', (database) => {
  let api: TestApi;
  const made: string[] = [];
  beforeAll(async () => {
    const webhooks = { listen: '127.0.0.1:0' };
    api = await startApi({ database, webhooks, plugins: { echo: { shared: true } } });
  });
  afterAll(async () => {
    const { state } = api.server.instance.config;
    await api.close();
    await dropTenants(state, made);
  });

  async function make(): Promise<TestTenant> {
    const tenant = await makeTenant(api);
    made.push(tenant.slug);
    return tenant;
  }

  const entry = { title: 'T', plugin: 'echo', auth_mode: 'gitlab' };
  const deliver = (id: string, secret: unknown): Promise<Reply> =>
    api.deliver(`/hooks/${id}`, { body: '{}', headers: { 'x-gitlab-token': String(secret) } });

  test('a delivery reaches the ledger of its tenant, and no other', async () => {
    const [ann, bob] = [await make(), await make()];
    const of = await ann.post('/webhooks', { ...entry, id: 'anns' });
    expect(of.status).toBe(201);
    const { secret, id } = of.body;
    expect(id).toBe(`${ann.slug}-anns`);
    const anns = String(id);
    expect((await deliver(anns, secret)).status).toBe(202);
    expect((await deliver(anns, 'wrong')).status).toBe(401);
    const tested = await ann.post(`/webhooks/${anns}/test`);
    expect(tested.body).toMatchObject({ status: 202 });
    expect((await bob.post(`/webhooks/${anns}/test`)).status).toBe(404);
    expect((await ann.ask('/jobs')).body['jobs']).toHaveLength(2);
    expect((await bob.ask('/jobs')).body['jobs']).toEqual([]);
    expect((await api.ask('/jobs')).body['jobs']).toEqual([]);
    expect((await bob.ask(`/webhooks/${anns}`)).status).toBe(404);
    const removed = await api.ask(`/webhooks/${anns}`, { method: 'DELETE', token: ann.token });
    expect(removed.status).toBe(200);
    expect((await deliver(anns, secret)).status).toBe(404);
  });

  test('a suspended tenant is not revealed to senders, and accepts deliveries later', async () => {
    const ann = await make();
    const opened = await ann.post('/webhooks', { ...entry, id: 'rests' });
    const { secret } = opened.body;
    const rests = String(opened.body['id']);
    const change = async (what: string): Promise<void> => {
      const changed = await api.ask(`/tenants/${ann.slug}/${what}`, { body: '{}' });
      expect(changed.status).toBe(200);
    };
    await change('suspend');
    expect((await deliver(rests, 'wrong')).status).toBe(401);
    const response = await deliver(rests, secret);
    expect([response.status, response.text]).toEqual([503, '{"error":"target_unavailable"}\n']);
    expect(response.headers).toMatchObject({
      'content-type': 'application/json',
      'retry-after': String(limits.webhookRetryAfterSeconds),
    });
    await change('resume');
    expect((await deliver(rests, secret)).status).toBe(202);
  });

  test('a tenant that has enough is answered like a webhook that has', async () => {
    const ann = await make();
    const opened = await ann.post('/webhooks', { ...entry, id: 'full' });
    const { secret } = opened.body;
    const full = String(opened.body['id']);
    const body = JSON.stringify({ signals_per_minute: 1 });
    const limited = await api.ask(`/tenants/${ann.slug}/limit`, { body });
    expect([limited.status, limited.text]).toEqual([200, expect.any(String)]);
    await expect.poll(async () => (await deliver(full, secret)).status).toBe(429);
    const response = await deliver(full, secret);
    expect([response.status, response.text]).toEqual([429, '{"error":"rate_limited"}\n']);
    expect(Number(response.headers['retry-after'])).toBeGreaterThan(0);
  });

  test('a chosen id says whose it is, so none shows that another one has it', async () => {
    const [ann, bob] = [await make(), await make()];
    const idOf = ({ status, body }: Reply) => [status, body['id']];
    const own = await api.ask('/webhooks', { body: JSON.stringify({ ...entry, id: 'one' }) });
    expect(idOf(own)).toEqual([201, 'one']);
    for (const tenant of [ann, bob]) {
      const first = await tenant.post('/webhooks', { ...entry, id: 'one' });
      expect(idOf(first)).toEqual([201, `${tenant.slug}-one`]);
      expect((await tenant.post('/webhooks', { ...entry, id: 'one' })).status).toBe(409);
      expect((await tenant.post('/webhooks', { ...entry, id: `${tenant.slug}-one` })).status).toBe(
        409,
      );
    }
    // Another tenant's address is only a name in one's own.
    const taken = await bob.post('/webhooks', { ...entry, id: `${ann.slug}-one` });
    const free = await bob.post('/webhooks', { ...entry, id: `${ann.slug}-two` });
    expect([taken.status, free.status]).toEqual([201, 201]);
    expect(taken.body['id']).toBe(`${bob.slug}-${ann.slug}-one`);
    // The operator knows all of them, and may have been first.
    const asRoot = { ...entry, id: `${ann.slug}-one` };
    expect((await api.ask('/webhooks', { body: JSON.stringify(asRoot) })).status).toBe(409);
    const first = { ...entry, id: `${ann.slug}-three` };
    expect((await api.ask('/webhooks', { body: JSON.stringify(first) })).status).toBe(201);
    const third = await ann.post('/webhooks', { ...entry, id: 'three' });
    expect(third.status).toBe(201);
    expect(third.body['id']).toMatch(new RegExp(`^${ann.slug}-three-[0-9a-f]+$`));
    expect((await deliver(String(third.body['id']), third.body['secret'])).status).toBe(202);
    const long = await ann.post('/webhooks', { ...entry, id: 'x'.repeat(64) });
    expect(long).toMatchObject({ status: 400, body: { code: 'INPUT_INVALID', place: 'id' } });
  });
});
