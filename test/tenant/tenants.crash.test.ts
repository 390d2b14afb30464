/** Tenants that are made and removed by processes that are killed in the middle. */
import { noRules } from '../../src/ledger/rules.ts';
import { describe, expect, onTestFinished, test } from 'vitest';
import { openLedger } from '../../src/ledger/open.ts';
import { readSchemaVersion } from '../../src/ledger/open-readonly.ts';
import { locateTenantLedger } from '../../src/ledger/tenant-location.ts';
import { databases, eventually, makePlace, type TestPlace } from '../support/instance.ts';
import { succeeds } from '../support/plugin-program.ts';
import { dropTenants, makeSlug } from '../support/tenants.ts';
import { makeClient, type Client } from '../support/crash/client.ts';
import { launch, type Server } from '../support/crash/server.ts';

async function begin(
  { directory }: TestPlace,
  probe?: string,
): Promise<{ server: Server; client: Client }> {
  const server = launch(directory, probe);
  const { control } = await server.ready;
  return { server, client: makeClient(() => control) };
}

/** Beats quickly, so that what a dead process had is found soon. */
async function makeHome(database: (typeof databases)[number], slugs: readonly string[]) {
  const place = await makePlace({
    database,
    plugins: { echo: { program: succeeds } },
    service: { heartbeat_interval: '100ms', reap_after: '1s' },
  });
  onTestFinished(() => dropTenants(place.config.state, slugs));
  return place;
}

describe.each(databases)('on %s', (database) => {
  test.each(['tenant.before-ledger', 'tenant.after-ledger'])(
    'killed at %s: the next process makes it to the end',
    async (probe) => {
      const slug = makeSlug();
      const place = await makeHome(database, [slug]);
      const first = await begin(place, `${probe}:kill`);
      const pending = first.client.post('/tenants', { slug }).catch(() => undefined);
      await first.server.exited;
      await pending;
      const { client, server } = await begin(place);
      await eventually('it is there', async () => {
        const { body } = await client.get(`/tenants/${slug}`);
        return body['status'] === 'active';
      });
      const spare = await client.post(`/tenants/${slug}/token`, { name: 'spare' });
      expect(spare.status).toBe(201);
      const found = await client.get('/directives?type=tenant.create');
      const [directive] = found.body['directives'] as { status: string; attempt: number }[];
      await eventually('it is on record', async () => {
        const now = await client.get('/directives?type=tenant.create');
        const [row] = now.body['directives'] as { status: string }[];
        return row?.status === 'completed';
      });
      expect(directive?.attempt).toBe(2);
      await server.stop();
    },
  );

  test.each(['tenant.before-removal', 'tenant.after-removal'])(
    'killed at %s: the next process removes it to the end',
    async (probe) => {
      const [slug, other] = [makeSlug(), makeSlug()];
      const place = await makeHome(database, [slug, other]);
      const first = await begin(place, `${probe}:kill`);
      for (const name of [slug, other]) {
        expect((await first.client.post('/tenants', { slug: name })).status).toBe(201);
      }
      const asked = first.client
        .post(`/tenants/${slug}/delete`, { confirm: slug })
        .catch(() => undefined);
      await first.server.exited;
      await asked;
      const { client, server } = await begin(place);
      await eventually('it is gone', async () => {
        const { status } = await client.get(`/tenants/${slug}`);
        return status === 404;
      });
      expect((await client.get(`/tenants/${other}`)).body).toMatchObject({ status: 'active' });
      await server.stop();
      expect(await readSchemaVersion(locateTenantLedger(place.config.state, slug))).toBeUndefined();
      const root = await openLedger(place.config.state, noRules);
      expect(await root.check()).toEqual([]);
      await root.close();
    },
  );
});
