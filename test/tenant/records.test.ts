/** The records of a tenant: its directives in the log, its signals, and the links to it. */
import { createHash } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startApi, type TestApi } from '../support/api-server.ts';
import { databases, eventually } from '../support/instance.ts';
import { manifest } from '../support/packages.ts';
import { dropTenants, makeTenant, type TestTenant } from '../support/tenants.ts';

const guard = manifest({
  slug: 'guard',
  requires: [{ plugin: 'echo', commands: ['poll'] }],
  plugins: { guarded: { uses: 'echo' } },
  handlers: [{ on: 'thing.broke', directive: 'plugin.disable', params: { plugin: 'guarded' } }],
});

const seen = { type: 'thing.seen', source: 'test', data: { said: 'first' } };

describe.each(databases)('on %s', (database) => {
  let api: TestApi;
  let first: TestTenant;
  let second: TestTenant;
  let third: string | undefined;

  beforeAll(async () => {
    api = await startApi({
      database,
      plugins: { echo: { shared: true } },
      packages: { guard },
      pipelines: [
        { name: 'flow', shared: true, on: 'thing.seen', steps: [{ id: 'one', uses: 'echo.poll' }] },
      ],
    });
    first = await makeTenant(api);
    second = await makeTenant(api);
  });
  afterAll(async () => {
    const { state } = api.server.instance.config;
    await api.close();
    await dropTenants(state, [first.slug, second.slug, ...[third ?? []].flat()]);
  });

  const ledger = () => api.server.instance.engine.ledger;
  const leadsTo = (token: string) =>
    ledger().tenants.findByKey('token', createHash('sha256').update(token).digest('hex'));

  test('a revoked or rotated token leaves no usable link behind', async () => {
    const old = await first.makeToken('deploy', { role: 'member' });
    expect(await leadsTo(old)).toBe(first.slug);
    const rotated = await first.post('/tokens/deploy/rotate');
    const fresh = String(rotated.body['token']);
    expect([await leadsTo(old), await leadsTo(fresh)]).toEqual([undefined, first.slug]);
    expect((await first.ask('/jobs', old)).status).toBe(401);
    expect((await first.ask('/jobs', fresh)).status).toBe(200);
    expect((await first.post('/tokens/deploy/revoke')).status).toBeLessThan(300);
    expect(await leadsTo(fresh)).toBeUndefined();
    expect((await first.ask('/jobs', fresh)).status).toBe(401);
    expect(await leadsTo(first.token)).toBe(first.slug);
  });

  test('X-05: a line for each directive names tenant, directive, package and chain', async () => {
    const installed = await first.post('/packages/guard/install', {});
    const installation = String(installed.body['directive_id']);
    const lineOf = (isMeant: (line: Record<string, unknown>) => boolean) =>
      api.records.find((line) => line['message'] === 'directive' && isMeant(line));
    expect(lineOf((line) => line['directive_id'] === installation)).toMatchObject({
      tenant: first.slug,
      type: 'package.install',
      status: 'completed',
      package_slug: 'guard',
      package_version: '1.0.0',
      correlation_id: installation,
    });
    const signal = await first.post('/signals', { ...seen, type: 'thing.broke' });
    const signalId = String(signal.body['signal_id']);
    const ended = (line: Record<string, unknown>) =>
      line['type'] === 'plugin.disable' && line['status'] === 'completed';
    await eventually('the handler was heard', () => lineOf(ended) !== undefined);
    expect(lineOf(ended)).toMatchObject({
      tenant: first.slug,
      directive_id: expect.any(String) as string,
      actor: 'installation:guard',
      package_slug: 'guard',
      correlation_id: signalId,
      causation_id: signalId,
    });
  });

  test('S-15: no signal of one is read, repeated or replayed by another', async () => {
    const keyed = { ...seen, dedupe_key: 'once', source_event_id: 'e1' };
    const response = await first.post('/signals', keyed);
    const id = String(response.body['signal_id']);
    expect((await first.post('/signals', keyed)).body).toMatchObject({ signal_id: id });
    const other = await second.post('/signals', { ...keyed, data: { said: 'second' } });
    expect(other.status).toBe(201);
    expect(other.body['signal_id']).not.toBe(id);
    expect((await second.ask(`/signals/${id}`)).status).toBe(404);
    expect((await second.ask('/signals?type=thing.seen')).text).not.toContain(id);
    const one = await second.post('/signals/replay', { signal_id: id });
    expect(one.body).not.toMatchObject({ signals: 1 });
    const before = await first.ask('/runs');
    const all = await second.post('/signals/replay', { type: 'thing.seen' });
    expect(all.body).toMatchObject({ signals: 1 });
    expect(runsIn(await first.ask('/runs'))).toEqual(runsIn(before));
  });

  test('a replay brings no more than the tenant may have waiting', async () => {
    const tenant = await makeTenant(api);
    third = tenant.slug;
    for (const said of ['a', 'b', 'c']) await tenant.post('/signals', { ...seen, data: { said } });
    await api.ask(`/tenants/${tenant.slug}/limit`, { body: JSON.stringify({ queue_length: 1 }) });
    await tenant.post('/directives', { type: 'system.pause', params: {} });
    const replay = () => tenant.post('/signals/replay', { type: 'thing.seen' });
    await eventually('its limit is known', async () => {
      const { body } = await replay();
      return body['code'] === 'TENANT_LIMIT';
    });
    const before = runsIn(await tenant.ask('/runs'));
    expect((await replay()).status).toBe(429);
    expect(runsIn(await tenant.ask('/runs'))).toEqual(before);
  });

  function runsIn({ body }: { readonly body: Record<string, unknown> }): unknown[] {
    return (body['runs'] as { run_id: string }[]).map(({ run_id: id }) => id);
  }

  test('data for administrators is visible to owner and admin only', async () => {
    const hidden = { ...seen, type: 'staff.paid', visibility: 'admin_only' };
    const id = String((await first.post('/signals', hidden)).body['signal_id']);
    const ways = [`/signals/${id}`, '/signals?type=staff.paid', '/events?after=start'];
    const looks = async (token: string): Promise<boolean[]> => {
      const headers = { accept: 'application/json' };
      const replies = await Promise.all(ways.map((way) => api.ask(way, { token, headers })));
      return replies.map(({ status, text }) => status === 200 && text.includes(id));
    };
    const admin = await first.makeToken('boss', { role: 'admin' });
    const member = await first.makeToken('hand', { role: 'member' });
    const service = await first.makeToken('robot', { role: 'service', scopes: ['read:*'] });
    // On PostgreSQL, events wait for unfinished transactions in any ledger.
    await eventually('it is told', async () => (await looks(first.token))[2]);
    expect(await looks(first.token)).toEqual([true, true, true]);
    expect(await looks(admin)).toEqual([true, true, true]);
    expect(await looks(member)).toEqual([false, false, false]);
    expect(await looks(service)).toEqual([false, false, false]);
  });
});
