import { describe, expect, test } from 'vitest';
import type { Engine } from '../../src/engine/engine.ts';
import type { JobSubmission } from '../../src/job/enqueue.service.ts';
import type { Tenants } from '../../src/tenant/tenants.ts';
import { schemaVersion } from '../../src/ledger/migrate.ts';
import { locateTenantLedger } from '../../src/ledger/tenant-location.ts';
import { openRaw } from '../support/ledger/bench.ts';
import {
  databases,
  eventually,
  makePlace,
  type Setup,
  type TestInstance,
  type TestPlace,
} from '../support/instance.ts';
import { notesJob, python, succeeds } from '../support/plugin-program.ts';
import { ask } from '../support/direct.ts';
import { makeTenant } from '../support/tenant-ledgers.ts';

const shared = { shared: true };
const plugins = {
  worker: { program: succeeds, settings: shared },
  noter: { program: notesJob, settings: shared },
  own: { program: succeeds },
};
const HOUR_MS = 3_600_000;
const quick: Partial<Setup> = { tenants: { trust: 'shared', idle: '200ms' } };

function submission(plugin: string, more: Partial<JobSubmission> = {}): JobSubmission {
  return { plugin, command: 'poll', payload: {}, submittedBy: 'api', actor: 'test', ...more };
}

function tenantsOf({ engine }: TestInstance): Tenants<Engine> {
  if (engine.tenants === undefined) throw new Error('the root engine has no tenants');
  return engine.tenants;
}

async function within<T>(
  instance: TestInstance,
  slug: string,
  work: (engine: Engine) => Promise<T>,
): Promise<T> {
  const visit = await tenantsOf(instance).visit(slug);
  try {
    return await work(visit.engine);
  } finally {
    visit.end();
  }
}

async function asleep(instance: TestInstance, slug: string): Promise<void> {
  const tenants = tenantsOf(instance);
  await eventually(`${slug} sleeps`, () => !tenants.open.includes(slug));
}

describe.each(databases)('tenants on %s', (database) => {
  const open = async (more: Partial<Setup> = {}): Promise<[TestPlace, TestInstance]> => {
    const place = await makePlace({ database, plugins, ...quick, ...more });
    return [place, await place.start()];
  };

  test('have a ledger each, and only what is shared', async () => {
    const [place, instance] = await open();
    const slug = await makeTenant(instance.ledger, place.config);
    const job = await within(instance, slug, async (engine) => {
      expect([...engine.catalog.plugins.keys()].sort()).toEqual(['noter', 'worker']);
      await expect(engine.submit(submission('own'))).rejects.toMatchObject({
        code: 'PLUGIN_NOT_FOUND',
      });
      const { jobId } = await engine.submit(submission('worker'));
      return await engine.waitFor(jobId, 15_000);
    });
    expect(job.status).toBe('succeeded');
    expect(await instance.ledger.jobs.find(job.id)).toBeUndefined();
    expect(instance.records.some((line) => line['tenant'] === slug)).toBe(true);
  });

  test('sleep when nothing is to be done, and are woken for what is due', async () => {
    const [place, instance] = await open();
    const slug = await makeTenant(instance.ledger, place.config);
    const { jobId } = await within(instance, slug, (engine) =>
      engine.submit(submission('noter', { due: { inMs: HOUR_MS } })),
    );
    await asleep(instance, slug);
    expect(await place.notes()).toEqual([]);
    const { nextInMs = 0 } = await instance.ledger.tenants.listDue(9);
    expect(nextInMs).toBeGreaterThan(HOUR_MS / 2);
    expect(nextInMs).toBeLessThanOrEqual(HOUR_MS);
    await letTimePass(place, slug);
    await instance.ledger.tenants.recordDue(slug, 'now');
    await eventually('the job ran', async () => (await place.notes()).includes(jobId));
    await asleep(instance, slug);
  });

  test('accept nothing while suspended, and continue when resumed', async () => {
    const [place, instance] = await open();
    const slug = await makeTenant(instance.ledger, place.config);
    const { jobId } = await within(instance, slug, (engine) =>
      engine.submit(submission('noter', { due: { inMs: HOUR_MS } })),
    );
    await instance.ledger.tenants.updateStatus(slug, ['active'], 'suspended');
    await asleep(instance, slug);
    await letTimePass(place, slug);
    await within(instance, slug, async (engine) => {
      await expect(engine.submit(submission('worker'))).rejects.toMatchObject({
        code: 'TENANT_SUSPENDED',
      });
      const emitted = engine.signals.emit({ type: 'a.b', source: 'api', data: {}, actor: 'test' });
      await expect(emitted).rejects.toMatchObject({ code: 'TENANT_SUSPENDED' });
      expect((await engine.ledger.jobs.find(jobId))?.status).toBe('queued');
    });
    await asleep(instance, slug);
    expect(await place.notes()).toEqual([]);
    await instance.ledger.tenants.updateStatus(slug, ['suspended'], 'active');
    await instance.ledger.tenants.recordDue(slug, 'now');
    tenantsOf(instance).soon();
    await eventually('the job ran', async () => (await place.notes()).includes(jobId));
  });

  test('are kept to their limits at the doors', async () => {
    const [place, instance] = await open();
    const limits = { queueLength: 2, signalsPerMinute: 3 };
    const slug = await makeTenant(instance.ledger, place.config, limits);
    await within(instance, slug, async (engine) => {
      const later = submission('worker', { due: { inMs: 3_600_000 } });
      await engine.submit(later);
      await engine.submit(later);
      await expect(engine.submit(later)).rejects.toMatchObject({
        code: 'TENANT_LIMIT',
        details: { limit: 'queue_length', most: 2 },
      });
      const emit = () =>
        engine.signals.emit({ type: 'a.b', source: 'api', data: {}, actor: 'test' });
      await Promise.all([emit(), emit(), emit()]);
      await expect(emit()).rejects.toMatchObject({ details: { limit: 'signals_per_minute' } });
    });
  });

  test('accept every call while their queue is empty, however small its limit', async () => {
    const [place, instance] = await open();
    const slug = await makeTenant(instance.ledger, place.config, { queueLength: 2 });
    await within(instance, slug, async (engine) => {
      for (let call = 0; call < 30; call += 1) {
        const { jobId } = await engine.submit(submission('worker'));
        expect((await engine.waitFor(jobId, 15_000)).status).toBe('succeeded');
      }
    });
  });

  test('accept as many as fit when calls come at once, and refuse the others', async () => {
    const [place, instance] = await open();
    const slug = await makeTenant(instance.ledger, place.config, { queueLength: 5 });
    await within(instance, slug, async (engine) => {
      const later = submission('worker', { due: { inMs: HOUR_MS } });
      const calls = await Promise.allSettled(
        Array.from({ length: 20 }, () => engine.submit(later)),
      );
      expect(calls.filter(({ status }) => status === 'fulfilled')).toHaveLength(5);
      expect(await engine.ledger.jobs.count({ status: ['queued'], limit: 99 })).toBe(5);
    });
  });

  test('are kept to them by what is done again, too', async () => {
    const [place, instance] = await open({
      plugins: { ...plugins, failing: { program: python('fail(retry=False)'), settings: shared } },
      pipelines: [{ name: 'halts', shared: true, steps: [{ id: 'one', uses: 'failing.poll' }] }],
    });
    const slug = await makeTenant(instance.ledger, place.config);
    await within(instance, slug, async (engine) => {
      const { jobId } = await engine.submit(submission('failing'));
      await engine.waitFor(jobId, 15_000);
      const { runId } = await engine.startRun({
        pipeline: 'halts',
        payload: {},
        submittedBy: 'api',
        actor: 'test',
      });
      await engine.waitForRun(runId, 15_000);
      const later = submission('worker', { due: { inMs: HOUR_MS } });
      const untilRefused = (code: string) =>
        eventually(`it is ${code}`, () =>
          engine.submit(later).then(
            () => false,
            (error: { code: string }) => error.code === code,
          ),
        );
      const requests = [
        ['job.retry', { job_id: jobId }],
        ['run.revive', { run_id: runId }],
        ['run.retry_from', { run_id: runId, step: 'one' }],
      ] as const;
      const refused = async (code: string): Promise<void> => {
        for (const [type, params] of requests) {
          await expect(ask(engine, type, params), type).rejects.toMatchObject({ code });
        }
        const all = await ask(engine, 'job.retry', { plugin: 'failing', limit: 9 });
        expect(all).toMatchObject({ status: 'failed', errorCode: code });
      };
      const none = { workers: null, signalsPerMinute: null, storageBytes: null };
      await instance.ledger.tenants.updateLimits(slug, { ...none, queueLength: 1 });
      tenantsOf(instance).soon();
      await untilRefused('TENANT_LIMIT');
      await refused('TENANT_LIMIT');
      await instance.ledger.tenants.updateStatus(slug, ['active'], 'suspended');
      tenantsOf(instance).soon();
      await untilRefused('TENANT_SUSPENDED');
      await refused('TENANT_SUSPENDED');
      expect(await engine.ledger.jobs.list({ plugin: 'failing', limit: 9 })).toHaveLength(2);
    });
  });

  test('fire no schedule beyond their limits, and say why', async () => {
    const schedules = [{ id: 'often', every: '200ms' }];
    const [place, instance] = await open({
      plugins: { worker: { program: succeeds, settings: { shared: true, schedules } } },
    });
    const slug = await makeTenant(instance.ledger, place.config, { storageBytes: 1 });
    await within(instance, slug, async (engine) => {
      await expect(engine.submit(submission('worker'))).rejects.toMatchObject({
        details: { limit: 'storage_bytes', most: 1 },
      });
      const skipped = await eventually('it was skipped', async () => {
        const [row] = await engine.ledger.schedules.list({ limit: 1 });
        return row?.lastSkipReason ?? undefined;
      });
      expect(skipped).toBe('tenant_limit');
      expect(await engine.ledger.jobs.list({ limit: 1 })).toEqual([]);
    });
  });

  test('start nothing while the process is paused', async () => {
    const [place, instance] = await open();
    const slug = await makeTenant(instance.ledger, place.config);
    await instance.engine.direct({ type: 'system.pause', params: {}, actor: 'test' });
    const { jobId } = await within(instance, slug, (engine) => engine.submit(submission('noter')));
    await within(instance, slug, async (engine) => {
      const job = await engine.waitFor(jobId, 300);
      expect(job.status).toBe('queued');
    });
    await instance.engine.direct({ type: 'system.resume', params: {}, actor: 'test' });
    await eventually('the job ran', async () => (await place.notes()).includes(jobId));
  });

  test('have what is shared now, after a reload of the process', async () => {
    const [place, instance] = await open();
    const slug = await makeTenant(instance.ledger, place.config);
    await within(instance, slug, async (engine) => {
      await place.vary({ plugins: { ...plugins, own: { program: succeeds, settings: shared } } });
      await instance.engine.direct({ type: 'config.reload', params: {}, actor: 'test' });
      await eventually('it has the plugin', () => engine.catalog.plugins.has('own'));
    });
  });

  test('are due from before the first caller is let in', async () => {
    const [place, instance] = await open();
    const slug = await makeTenant(instance.ledger, place.config);
    await asleep(instance, slug);
    await eventually('it is not due', async () => {
      const { slugs } = await instance.ledger.tenants.listDue(9);
      return slugs.length === 0;
    });
    await within(instance, slug, async () => {
      expect((await instance.ledger.tenants.listDue(9)).slugs).toEqual([slug]);
    });
    await asleep(instance, slug);
    expect((await instance.ledger.tenants.listDue(9)).slugs).toEqual([]);
  });

  test('have the shared schedules from the start, even without callers', async () => {
    const schedules = [{ id: 'once', at: '2020-01-01T00:00:00Z' }];
    const [place, instance] = await open();
    await makeTenant(instance.ledger, place.config);
    await eventually(
      'it sleeps',
      async () => (await instance.ledger.tenants.listDue(9)).slugs.length === 0,
    );
    expect(await place.notes()).toEqual([]);
    await place.vary({
      plugins: { noter: { program: notesJob, settings: { ...shared, schedules } } },
    });
    await instance.engine.direct({ type: 'config.reload', params: {}, actor: 'test' });
    // Once for the process itself, once for the tenant.
    await eventually('both have fired', async () => (await place.notes()).length === 2);
  });

  test('run no more at once than they may', async () => {
    const program = python('note("begin"); time.sleep(0.05); note("end"); ok()');
    const [place, instance] = await open({
      plugins: { slow: { program, settings: { shared: true, parallelism: 4 } } },
    });
    const slug = await makeTenant(instance.ledger, place.config, { workers: 1 });
    await within(instance, slug, async (engine) => {
      const jobs = await Promise.all([1, 2, 3, 4].map(() => engine.submit(submission('slow'))));
      for (const { jobId } of jobs) await engine.waitFor(jobId, 15_000);
    });
    const notes = await place.notes();
    expect(notes).toEqual(Array.from({ length: 8 }, (_, i) => (i % 2 === 0 ? 'begin' : 'end')));
  });

  test("that can't be opened are reported and don't disturb others", async () => {
    const [place, instance] = await open();
    const good = await makeTenant(instance.ledger, place.config);
    const bad = await makeTenant(instance.ledger, place.config, {}, (slug) =>
      breakSchema(place, slug),
    );
    await expect(tenantsOf(instance).visit(bad)).rejects.toMatchObject({
      code: 'TENANT_UNAVAILABLE',
    });
    expect((await instance.ledger.tenants.find(bad))?.schemaError).toMatch(/schema version/);
    const job = await within(instance, good, async (engine) =>
      engine.waitFor((await engine.submit(submission('worker'))).jobId, 15_000),
    );
    expect(job.status).toBe('succeeded');
  });

  test('refuse callers during maintenance', async () => {
    const [place, instance] = await open();
    const slug = await makeTenant(instance.ledger, place.config);
    await within(instance, slug, () => Promise.resolve());
    const tenants = tenantsOf(instance);
    await tenants.block(slug);
    expect(tenants.open).toEqual([]);
    await expect(tenants.visit(slug)).rejects.toMatchObject({ code: 'TENANT_UNAVAILABLE' });
    tenants.unblock(slug);
    await within(instance, slug, () => Promise.resolve());
    await expect(tenants.visit('nobody')).rejects.toMatchObject({ code: 'TENANT_NOT_FOUND' });
  });

  test('stop with the process, and what was left is done by the next', async () => {
    const [place, instance] = await open();
    const slug = await makeTenant(instance.ledger, place.config);
    const { jobId } = await within(instance, slug, (engine) =>
      engine.submit(submission('noter', { due: { inMs: 1000 } })),
    );
    await instance.close();
    await place.start();
    await eventually('the job ran', async () => (await place.notes()).includes(jobId));
  });
});

test('another host helps with a tenant that has too much work', async () => {
  const program = python('note("begin"); wait_for("open"); ok()');
  const place = await makePlace({
    database: 'postgres',
    plugins: { slow: { program, settings: { shared: true, parallelism: 1 } } },
    aliases: { other: { uses: 'slow', shared: true } },
    tenants: { trust: 'shared' },
    service: { max_workers: 1 },
  });
  const [one] = [await place.start(), await place.start()];
  const slug = await makeTenant(one.ledger, place.config);
  await within(one, slug, async (engine) => {
    const jobs = [
      await engine.submit(submission('slow')),
      await engine.submit(submission('other')),
    ];
    await eventually('both are under way', async () => (await place.notes()).length === 2);
    const claims = await engine.ledger.jobs.list({ status: ['running'], limit: 9 });
    expect(new Set(claims.map(({ claimedBy }) => claimedBy)).size).toBe(2);
    await place.openGate('open');
    for (const { jobId } of jobs) await engine.waitFor(jobId, 15_000);
  });
});

/** Its future work is due. */
function letTimePass(place: TestPlace, slug: string): Promise<void> {
  const past = '2020-01-01T00:00:00.000Z';
  return runSql(place, slug, `update job_queue set next_retry_at = '${past}'`);
}

/** Simulates the schema of a newer program. */
function breakSchema(place: TestPlace, slug: string): Promise<void> {
  const row = `(${schemaVersion + 1}, 'newer', 'then')`;
  return runSql(
    place,
    slug,
    `insert into schema_migrations (version, name, applied_at) values ${row}`,
  );
}

/** Bypasses the ledger, which no process has open. */
async function runSql({ config }: TestPlace, slug: string, statement: string): Promise<void> {
  const raw = openRaw(locateTenantLedger(config.state, slug));
  await raw.run(statement);
  await raw.close();
}
