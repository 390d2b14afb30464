/** Tenants whose plugins can't be isolated, and tenants that another host still has open. */
import { noRules } from '../../src/ledger/rules.ts';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { openServer } from '../../src/app/server.ts';
import { migrateAll } from '../../src/app/transfer.ts';
import { schemaVersion } from '../../src/ledger/migrate.ts';
import { locateTenantLedger } from '../../src/ledger/tenant-location.ts';
import { openLedger } from '../../src/ledger/open.ts';
import { readSchemaVersion } from '../../src/ledger/open-readonly.ts';
import { openRaw } from '../support/ledger/bench.ts';
import { collectLog, databases, eventually, makePlace } from '../support/instance.ts';
import { succeeds } from '../support/plugin-program.ts';
import { dropTenants, makeSlug } from '../support/tenants.ts';

const plugins = { echo: { program: succeeds } };
const limits = { workers: null, queueLength: null, signalsPerMinute: null, storageBytes: null };

test("the service refuses to start with tenants that can't be isolated, and says why", async () => {
  const place = await makePlace({ plugins });
  const { pluginRoots, state } = place.config;
  const ledger = await openLedger(state, noRules);
  await ledger.tenants.insert({ slug: 'acme', title: 'Acme', limits, createdBy: 'test' });
  await ledger.close();
  // Plugins would have to read a directory that the ledgers are in.
  const around = { path: place.directory, place: 'config.yaml:1:1' };
  const config = { ...place.config, pluginRoots: [...pluginRoots, around] };
  const { log } = collectLog();
  await expect(openServer(config, log)).rejects.toMatchObject({ code: 'TENANT_NOT_ISOLATED' });
  const trusting = { ...config, tenants: { ...config.tenants, trust: 'shared' as const } };
  const server = await openServer(trusting, log);
  await server.close();
});

describe.each(databases)('on %s', (database) => {
  test('no tenant is created if it could not be isolated', async () => {
    const place = await makePlace({ database, plugins });
    const around = { path: place.directory, place: 'config.yaml:1:1' };
    const pluginRoots = [...place.config.pluginRoots, around];
    const { log } = collectLog();
    const server = await openServer({ ...place.config, pluginRoots }, log);
    onTestFinished(() => server.close());
    const params = { slug: makeSlug() };
    const pending = server.instance.engine.direct({ type: 'tenant.create', params, actor: 'test' });
    await expect(pending).rejects.toMatchObject({ code: 'TENANT_NOT_ISOLATED' });
    expect(await server.instance.engine.ledger.tenants.list()).toEqual([]);
  });
});

test('a tenant that is awake on another host is deleted when that host has released it', async () => {
  const place = await makePlace({ database: 'postgres', plugins });
  const slug = makeSlug();
  onTestFinished(() => dropTenants(place.config.state, [slug]));
  const [here, there] = [await place.start(), await place.start()];
  const ask = (type: string, params: object) => here.engine.direct({ type, params, actor: 'test' });
  await ask('tenant.create', { slug });
  const visit = await there.engine.tenants?.visit(slug);
  visit?.end();
  expect(there.engine.tenants?.open).toEqual([slug]);
  const answer = await ask('tenant.delete', { slug, confirm: slug });
  expect(answer).toMatchObject({ status: 'completed', result: { deleted: true } });
  await eventually('the other has noticed', () => there.engine.tenants?.open.length === 0);
  await expect(there.engine.tenants?.visit(slug)).rejects.toMatchObject({
    code: 'TENANT_NOT_FOUND',
  });
  expect(await readSchemaVersion(locateTenantLedger(place.config.state, slug))).toBeUndefined();
});

test('a tenant whose ledger is newer than the program, or broken, can be deleted', async () => {
  const place = await makePlace({ database: 'postgres', plugins });
  const { state } = place.config;
  const { engine } = await place.start();
  const ask = (type: string, params: object) => engine.direct({ type, params, actor: 'test' });
  for (const harm of [
    'update schema_migrations set version = version + 900',
    'drop table processes cascade',
  ]) {
    const slug = makeSlug();
    onTestFinished(() => dropTenants(state, [slug]));
    await ask('tenant.create', { slug });
    const own = locateTenantLedger(state, slug);
    const raw = openRaw(own);
    await raw.run(harm);
    await raw.close();
    const answer = await ask('tenant.delete', { slug, confirm: slug });
    expect(answer).toMatchObject({ status: 'completed', result: { deleted: true } });
    expect(await readSchemaVersion(own)).toBeUndefined();
  }
});

test('to suspend what is suspended is asking once', async () => {
  const place = await makePlace({ plugins, tenants: { trust: 'shared' } });
  const { engine, ledger } = await place.start();
  const ask = (type: string) => engine.direct({ type, params: { slug: 'acme' }, actor: 'test' });
  await ask('tenant.create');
  const first = await ask('tenant.suspend');
  const again = await ask('tenant.suspend');
  expect(again).toMatchObject({ id: first.id, repeated: true, result: { status: 'suspended' } });
  expect(await ask('tenant.resume')).toMatchObject({ repeated: false });
  expect(await ask('tenant.resume')).toMatchObject({
    repeated: true,
    result: { status: 'active' },
  });
  expect(await ask('tenant.suspend')).toMatchObject({ repeated: false });
  expect(await ledger.directives.list({ target: 'tenant:acme', limit: 9 })).toHaveLength(4);
});

test('X-06: a ledger that cannot be migrated is reported, and the others are', async () => {
  const place = await makePlace({ plugins });
  const { state } = place.config;
  const root = await openLedger(state, noRules);
  for (const slug of ['bad', 'good']) {
    await root.tenants.insert({ slug, title: slug, limits, createdBy: 'test' });
    await root.tenants.updateStatus(slug, ['creating'], 'active');
  }
  await root.close();
  await writeFile(
    join(state.dir, 'org_bad.db'),
    'this is no ledger at all, but it is in its place',
  );
  const report = await migrateAll(place.directory);
  expect(report['tenants']).toEqual([
    { slug: 'bad', schema_before: null, schema: null, error: expect.stringMatching(/./) },
    { slug: 'good', schema_before: null, schema: schemaVersion, error: null },
  ]);
  const again = await openLedger(state, noRules);
  const [bad, good] = await again.tenants.list();
  expect([bad?.schemaError, good?.schemaError]).toEqual([expect.stringMatching(/./), null]);
  await again.close();
});
