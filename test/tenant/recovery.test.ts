/** The jobs of tenants after a crash of their host. */
import { noRules } from '../../src/ledger/rules.ts';
import { expect, onTestFinished, test } from 'vitest';
import { makeId } from '../../src/base/ids.ts';
import { openLedger } from '../../src/ledger/open.ts';
import { locateTenantLedger } from '../../src/ledger/tenant-location.ts';
import { openRaw } from '../support/ledger/bench.ts';
import { beat, claimable, claimAs, draft } from '../support/ledger/drafts.ts';
import { eventually, makePlace } from '../support/instance.ts';
import { notesJob } from '../support/plugin-program.ts';
import { makeTenant, withTenantLedger } from '../support/tenant-ledgers.ts';

test('a tenant that sleeps is recovered without waiting for another threshold', async () => {
  const reapAfterMs = 6000;
  const place = await makePlace({
    database: 'postgres',
    plugins: { noter: { program: notesJob, settings: { shared: true } } },
    tenants: { trust: 'shared', idle: '200ms' },
    service: { heartbeat_interval: '1s', reap_after: `${reapAfterMs}ms` },
  });
  const root = await openLedger(place.config.state, noRules);
  onTestFinished(() => root.close());
  const slug = await makeTenant(root, place.config);
  const id = makeId();
  await withTenantLedger(place.config, slug, async (ledger) => {
    await ledger.jobs.enqueue({ jobs: [draft({ id, plugin: 'noter', command: 'poll' })] });
    const claimed = await claimAs(ledger, 'dead', { plugins: [claimable('noter')] });
    expect(claimed).toHaveLength(1);
  });
  await root.tenants.recordDue(slug, null);
  await root.processes.heartbeat(beat('dead'));
  const past = '2020-01-01T00:00:00.000Z';
  for (const ledger of [place.config.state, locateTenantLedger(place.config.state, slug)]) {
    const raw = openRaw(ledger);
    await raw.run(`update processes set last_heartbeat_at = '${past}'`);
    await raw.close();
  }
  const { engine } = await place.start();
  // The root engine has been healthy for a whole threshold when it removes the dead process.
  const isForgotten = async () =>
    (await root.processes.list()).every(({ id: one }) => one !== 'dead');
  await eventually('the root ledger has forgotten the dead process', isForgotten);
  const forgottenAt = performance.now();
  await eventually('the job runs', async () => (await place.notes()).includes(id));
  expect(performance.now() - forgottenAt).toBeLessThan(reapAfterMs);
  expect(engine.status().state).toBe('running');
});
