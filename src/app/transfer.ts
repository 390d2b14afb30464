import { noRules } from '../ledger/rules.ts';
import { messageOf } from '../base/errors.ts';
import type { Config } from '../config/config.ts';
import { loadConfig } from '../config/load.ts';
import { openLedger, type LedgerLocation } from '../ledger/open.ts';
import { requireKnownSchema, schemaVersion } from '../ledger/migrate.ts';
import { openReadonlyLedger, readSchemaVersion } from '../ledger/open-readonly.ts';
import { locateTenantLedger } from '../ledger/tenant-location.ts';
import { importLedgers, planImport } from '../ledger/transfer.ts';
import type { JsonOutput } from '../operation/define.ts';
import { runLocked, runWithoutUsers } from './local-engine.ts';

/**
 * Migrates every ledger to this program's schema; a ledger that fails is reported and doesn't
 * affect others.
 */
export async function migrateAll(given: string | undefined, dryRun = false): Promise<JsonOutput> {
  const { state } = loadConfig({ given });
  if (dryRun) return { dry_run: true, plan: await planMigration(state) };
  return runLocked(state, async () => {
    const root = await migrateOne(state);
    const tenants = await migrateTenants(state);
    return tenants.length === 0 ? root : { ...root, tenants };
  });
}

/** Replaces the ledgers with exported ones; no process may be using them. */
export async function importAll(
  given: string | undefined,
  from: string,
  dryRun: boolean,
): Promise<JsonOutput> {
  const config = loadConfig({ given });
  const { state } = config;
  if (dryRun) return { dry_run: true, plan: await planImport(from, state) };
  return runWithoutUsers(config, async () => {
    const { ledgers } = await importLedgers(from, state);
    return {
      imported_from: from,
      ledgers: ledgers.map(({ tenant, tables }) => ({
        tenant,
        rows: Object.values(tables).reduce((sum, { rows }) => sum + rows, 0),
        same: true,
      })),
      paused: true,
    };
  });
}

async function planMigration(state: Config['state']): Promise<string[]> {
  const before = await readSchemaVersion(state);
  if (before !== undefined) requireKnownSchema(before);
  const plan = [planOne('The root database', before)];
  if (before !== schemaVersion) return [...plan, 'The databases of tenants will follow.'];
  const root = await openReadonlyLedger(state);
  try {
    for (const { slug } of await root.tenants.list()) {
      const sentence = await readSchemaVersion(locateTenantLedger(state, slug)).then(
        (version) => planOne(slug, version),
        (error: unknown) => `${slug} will stay unchanged: ${messageOf(error)}`,
      );
      plan.push(sentence);
    }
  } finally {
    await root.close();
  }
  return plan;
}

function planOne(name: string, version: number | undefined): string {
  if (version === schemaVersion)
    return `${name} has schema version ${version} and will not change.`;
  if (version === undefined) return `${name} will be created with schema version ${schemaVersion}.`;
  return `${name} will be migrated from schema version ${version} to ${schemaVersion}.`;
}

async function migrateOne(place: LedgerLocation) {
  const before = await readSchemaVersion(place);
  await (await openLedger(place, noRules)).close();
  return { schema_before: before ?? null, schema: (await readSchemaVersion(place)) ?? null };
}

/** Runs one after another, because the database may serve others. */
async function migrateTenants(state: Config['state']) {
  const root = await openLedger(state, noRules);
  const reports = [];
  try {
    for (const { slug, schemaVersion: known } of await root.tenants.list()) {
      try {
        const done = await migrateOne(locateTenantLedger(state, slug));
        await root.tenants.recordSchema(slug, { version: done.schema ?? 0, error: null });
        reports.push({ slug, ...done, error: null });
      } catch (thrown) {
        const error = messageOf(thrown);
        await root.tenants.recordSchema(slug, { version: known ?? 0, error });
        reports.push({ slug, schema_before: known, schema: known, error });
      }
    }
  } finally {
    await root.close();
  }
  return reports;
}
