/** Credentials of tenants: each has its own, all are sealed with the keys of the process. */
import { setCredential } from '../../src/access/credential.sql.ts';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startApi, type TestApi } from '../support/api-server.ts';
import { makeId } from '../../src/base/ids.ts';
import { pausing } from '../support/ledger/drafts.ts';
import { databases } from '../support/instance.ts';
import { dropTenants, makeTenant, type TestTenant } from '../support/tenants.ts';

const value = 'Pl4nted-value-0123456789';

describe.each(databases)('credentials of tenants on %s', (database) => {
  let api: TestApi;
  let acme: TestTenant;
  let other: TestTenant;

  beforeAll(async () => {
    api = await startApi({ database, tenants: { trust: 'shared' } });
    acme = await makeTenant(api);
    other = await makeTenant(api);
  });
  afterAll(async () => {
    const { state } = api.server.instance.config;
    await api.close();
    await dropTenants(state, [acme.slug, other.slug]);
  });

  test('are seen by their own people alone, and set by its admins', async () => {
    expect((await acme.post('/credentials', { name: 'api', value })).status).toBe(200);
    expect((await acme.ask('/credentials/api')).status).toBe(200);
    expect((await other.ask('/credentials/api')).status).toBe(404);
    expect((await api.ask('/credentials/api')).status).toBe(404);
    const member = await acme.makeToken('member', { role: 'member' });
    const service = await acme.makeToken('service', {
      role: 'service',
      scopes: ['credentials:rw'],
    });
    const admin = await acme.makeToken('admin', { role: 'admin' });
    const again = { name: 'api', value: `${value}-2` };
    expect((await acme.post('/credentials', again, member)).status).toBe(403);
    expect((await acme.post('/credentials', again, service)).status).toBe(403);
    expect((await acme.post('/credentials/rotate-key', {}, admin)).status).toBe(403);
    expect(await acme.post('/credentials', again, admin)).toMatchObject({
      status: 200,
      body: { created: false },
    });
  });

  test('are sealed again with those of the root ledger, each recorded in its own', async () => {
    expect((await api.ask('/credentials', post({ name: 'root', value }))).status).toBe(200);
    const before = (await acme.ask('/credentials/api')).body['key_id'];
    const rotated = await api.ask('/credentials/rotate-key', post({}));
    expect(rotated.body).toMatchObject({ resealed: 1, tenants: 2, tenants_failed: [] });
    const after = (await acme.ask('/credentials/api')).body['key_id'];
    expect(after).toBe(rotated.body['key_id']);
    expect(after).not.toBe(before);
    const { body } = await acme.ask('/directives?type=credential.rotate');
    expect(body['directives']).toMatchObject([{ status: 'completed', result: { resealed: 1 } }]);
    // The keys are those of all ledgers, so a tenant's owner doesn't rotate them.
    const directive = { type: 'credential.rotate', params: {} };
    for (const [path, sent] of [
      ['/credentials/rotate-key', {}],
      ['/directives', directive],
      ['/directives', { ...directive, delay: '1h' }],
    ] as const) {
      expect([path, (await acme.post(path, sent)).status]).toEqual([path, 403]);
    }
  });

  test('do not open in the ledger of another tenant, even if the row is copied', async () => {
    const { tenants, ledger: root } = api.server.instance.engine;
    const [from, to] = [await tenants?.visit(acme.slug), await tenants?.visit(other.slug)];
    if (from === undefined || to === undefined) throw new Error('there are no tenants');
    try {
      const row = await from.engine.ledger.credentials.find('api');
      if (row === undefined) throw new Error('there is no credential');
      const { name, sealed } = row;
      expect(await from.engine.webhookIntake.store.credential(name)).toEqual(expect.any(String));
      for (const ledger of [to.engine.ledger, root]) {
        const credential = { id: makeId(), name, provider: null, sealed, expiresInMs: undefined };
        const draft = {
          type: 'credential.set',
          target: 'credential:api',
          sameness: 'each',
        } as const;
        await ledger.directives.create(
          pausing(draft, (tx, actor) => setCredential(tx, credential, actor)),
        );
      }
      for (const { webhookIntake } of [to.engine, api.server.instance.engine]) {
        await expect(webhookIntake.store.credential(name)).rejects.toMatchObject({
          code: 'CREDENTIAL_KEY_INVALID',
        });
      }
    } finally {
      from.end();
      to.end();
    }
  });
});

function post(body: object): { readonly body: string } {
  return { body: JSON.stringify(body) };
}
