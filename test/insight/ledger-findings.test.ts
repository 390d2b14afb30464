/** Doctor finds broken packages and tenants, and the others keep working. */
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { locateTenantLedger } from '../../src/ledger/tenant-location.ts';
import { ownerOf, type Context } from '../../src/operation/context.ts';
import { systemDoctor } from '../../src/insight/doctor.operations.ts';
import { findingsShape } from '../../src/insight/findings.service.ts';
import { systemSelfcheck } from '../../src/insight/selfcheck.operations.ts';
import { ask } from '../support/direct.ts';
import { eventually, makePlace } from '../support/instance.ts';
import { manifest } from '../support/packages.ts';
import { succeeds } from '../support/plugin-program.ts';

test('doctor and selfcheck name broken packages and tenants with the reason', async () => {
  const greeter = manifest({
    requires: [{ plugin: 'worker' }],
    plugins: { greeting: { uses: 'worker' } },
  });
  const place = await makePlace({
    plugins: { worker: { program: succeeds } },
    packages: { greeter },
    tenants: { trust: 'shared' },
  });
  const first = await place.start();
  await ask(first.engine, 'package.install', { package_slug: 'greeter' });
  await first.close();
  await rm(join(place.directory, 'plugins/worker'), { recursive: true });

  const { engine, ledger } = await (await place.vary({ plugins: {} })).start();
  const limits = { workers: null, queueLength: null, signalsPerMinute: null, storageBytes: null };
  await ledger.tenants.insert({ slug: 'bad', title: 'bad', limits, createdBy: 'test' });
  const own = locateTenantLedger(place.config.state, 'bad');
  await writeFile('path' in own ? own.path : '', 'this is no ledger, though it is in its place');
  await ledger.tenants.updateStatus('bad', ['creating'], 'active');
  engine.tenants?.soon();
  await eventually(
    'it was tried',
    async () => (await ledger.tenants.find('bad'))?.schemaError !== null,
  );

  await eventually(
    'the package was refused',
    async () => (await ledger.installations.list({}))[0]?.lastError !== null,
  );
  const context: Context = { engine, principal: ownerOf('cli:test'), submittedBy: 'cli' };
  const { findings } = findingsShape.parse(await systemDoctor.run(context, {}));
  const lines = findings.map(({ category, message }) => `${category}: ${message}`);
  expect(lines).toContainEqual(
    expect.stringMatching(/^packages: The package greeter is installed and not active: .*worker/),
  );
  expect(lines).toContainEqual(
    expect.stringMatching(/^state: The ledger of the tenant bad can't be opened: ./),
  );
  const { ok, checks } = await systemSelfcheck.run(context, {});
  expect(ok).toBe(true);
  expect(checks).toContainEqual({
    name: 'installations',
    status: 'warn',
    detail: expect.stringMatching(
      /^The package greeter is installed and not active: .*worker/,
    ) as string,
  });
  expect(checks).toContainEqual({
    name: 'tenants',
    status: 'warn',
    detail: expect.stringMatching(/^The ledger of the tenant bad can't be opened: ./) as string,
  });
});
