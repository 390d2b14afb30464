import { noRules } from './rules.ts';
import { createHash } from 'node:crypto';
import { createReadStream, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import * as z from 'zod';
import { DuctileError, messageOf } from '../base/errors.ts';
import { makeDirectories } from '../base/files.ts';
import { parseJson } from '../base/parse-json.ts';
import { syncPath, readFilePages, type ReadPages } from './backup.ts';
import type { CopyDirective } from '../directive/types.ts';
import { requireKnownSchema, schemaVersion } from './migrate.ts';
import { openLedger, type LedgerLocation } from './open.ts';
import { readSchemaVersion } from './open-readonly.ts';
import {
  withCurrentSchema,
  isRestoreUnfinished,
  readRestoreNote,
  restoreLedger,
} from './restore.ts';
import type { Ledger } from './ledger.ts';
import { removeLedger, locateTenantLedger, type RootLocation } from './tenant-location.ts';
import { DatabaseSync } from 'node:sqlite';
import { tables as ledgerTables, type Row, type TableName } from './dialect.ts';

const MANIFEST = 'manifest.json';
const ROOT_FILE = 'root.db';

const manifestSchema = z.object({
  format: z.literal(1),
  schema_version: z.int(),
  ledgers: z
    .array(
      z.object({
        /** Null for the root ledger. */
        tenant: z.string().nullable(),
        file: z.string().regex(/^[a-z0-9_]+\.db$/),
        sha256: z.string(),
        tables: z.record(z.string(), z.object({ rows: z.int(), hash: z.string() })),
      }),
    )
    .min(1),
});

type Manifest = z.output<typeof manifestSchema>;
export type LedgerCopy = Manifest['ledgers'][number];

/** The ledgers of an export or import. */
export interface TransferResult {
  readonly ledgers: readonly LedgerCopy[];
}

/**
 * Copies all ledgers into a new directory while they are in use. Each copy is a snapshot. The root ledger
 * is copied last, so that it doesn't have fewer tenants than the export.
 */
export async function exportLedgers(
  root: Ledger,
  location: RootLocation,
  directory: string,
  directive?: CopyDirective,
): Promise<TransferResult> {
  claimDirectory(directory);
  const ledgers: LedgerCopy[] = [];
  for (const { slug, status } of await root.tenants.list()) {
    if (status === 'creating' || status === 'deleting') continue;
    const own = await openLedger(locateTenantLedger(location, slug), noRules);
    try {
      ledgers.push(await copyLedger(own, directory, { tenant: slug, file: `org_${slug}.db` }));
    } finally {
      await own.close();
    }
  }
  ledgers.push(await copyLedger(root, directory, { tenant: null, file: ROOT_FILE }, directive));
  const manifest: Manifest = { format: 1, schema_version: schemaVersion, ledgers };
  // Written last: an export without a manifest is incomplete.
  const path = join(directory, MANIFEST);
  writeFileSync(path, `${JSON.stringify(manifest, undefined, 2)}\n`, { mode: 0o600, flag: 'wx' });
  syncPath(path);
  syncPath(directory);
  return { ledgers };
}

/**
 * Imports exported ledgers into the location of a configuration, and compares all rows with the export.
 * The root ledger is imported last: until then the others are unknown to the service.
 */
export async function importLedgers(
  directory: string,
  location: RootLocation,
): Promise<TransferResult> {
  const manifest = await checkExport(directory);
  const ordered = manifest.ledgers.toSorted((a, b) => Number(!a.tenant) - Number(!b.tenant));
  for (const copy of ordered) await requireUnused(copy, directory, location);
  const created: LedgerLocation[] = [];
  try {
    for (const copy of ordered) {
      const to = locateLedger(location, copy);
      // The root's schema may have other tables; a restore deletes only the rows of Ductile's tables.
      if (copy.tenant !== null && (await isLeftover(copy, directory, to))) await removeLedger(to);
      if ((await readSchemaVersion(to)) === undefined) created.push(to);
      await restoreLedger(join(directory, copy.file), to);
      requireEqual(await readExpected(manifest, copy, directory), await digestLedger(to));
    }
  } catch (error) {
    // A partial import would block the next attempt.
    for (const target of created) await removeLedger(target);
    throw error;
  }
  await markAllDue(location);
  return { ledgers: manifest.ledgers };
}

/** Describes what an import would do, with all checks that are possible without changes. */
export async function planImport(directory: string, location: RootLocation): Promise<string[]> {
  const { ledgers } = await checkExport(directory);
  for (const copy of ledgers) await requireUnused(copy, directory, location);
  return ledgers.map((copy) => {
    const rows = Object.values(copy.tables).reduce((sum, table) => sum + table.rows, 0);
    return `${copy.tenant ?? 'The root ledger'} will be imported with ${rows} rows.`;
  });
}

async function copyLedger(
  ledger: Ledger,
  directory: string,
  { tenant, file }: Pick<LedgerCopy, 'tenant' | 'file'>,
  directive?: CopyDirective,
): Promise<LedgerCopy> {
  const path = join(directory, file);
  await ledger.backup(path, directive);
  const copied = await digestLedger({ kind: 'sqlite', path });
  return { tenant, file, sha256: await hashFile(path), tables: { ...copied } };
}

/** Creates the directory of an export, which only its owner may read, and requires that it is empty. */
function claimDirectory(directory: string): void {
  try {
    makeDirectories(directory);
    if (readdirSync(directory).length === 0) return;
  } catch (error) {
    throw new DuctileError(
      'BACKUP_INVALID',
      `the directory cannot be written to: ${messageOf(error)}`,
      {
        place: directory,
      },
    );
  }
  throw new DuctileError('BACKUP_INVALID', 'the directory is not empty', {
    place: directory,
    hint: 'Name a directory that does not exist yet.',
  });
}

async function checkExport(directory: string): Promise<Manifest> {
  const manifest = readManifest(directory);
  requireKnownSchema(manifest.schema_version);
  for (const { file, sha256 } of manifest.ledgers) {
    const path = join(directory, file);
    const found = await hashFile(path).catch((error: unknown) => messageOf(error));
    if (found === sha256) continue;
    throw new DuctileError('BACKUP_INVALID', 'the file is not the one that was exported', {
      place: path,
      hint: 'Copy the whole directory again, or export again.',
    });
  }
  return manifest;
}

function readManifest(directory: string): Manifest {
  const path = join(directory, MANIFEST);
  try {
    return manifestSchema.parse(parseJson(readFileSync(path, 'utf8')));
  } catch (error) {
    throw new DuctileError('BACKUP_INVALID', `not a valid export: ${messageOf(error)}`, {
      place: path,
      hint: 'Name a directory that `ductile system export` wrote.',
    });
  }
}

function locateLedger(root: RootLocation, { tenant }: LedgerCopy): LedgerLocation {
  return tenant === null ? root : locateTenantLedger(root, tenant);
}

/**
 * Checks whether a ledger is left over from the same import, which was killed. The root ledger is imported
 * last: while it is unused, the others are unknown to the service.
 */
async function isLeftover(
  { tenant, file }: LedgerCopy,
  directory: string,
  to: LedgerLocation,
): Promise<boolean> {
  if (await isRestoreUnfinished(to)) return true;
  return tenant !== null && (await readRestoreNote(to, 'restored_from')) === join(directory, file);
}

async function requireUnused(
  copy: LedgerCopy,
  directory: string,
  root: RootLocation,
): Promise<void> {
  const location = locateLedger(root, copy);
  if ((await readSchemaVersion(location)) === undefined) return;
  if (await isLeftover(copy, directory, location)) return;
  const own = await openLedger(location, noRules);
  try {
    const found = await Promise.all([
      own.jobs.list({ limit: 1 }),
      own.signals.list({ limit: 1 }),
      own.directives.list({ limit: 1 }),
      own.tokens.list(),
      own.credentials.list(),
      own.tenants.list(),
    ]);
    if (found.every(({ length }) => length === 0)) return;
  } finally {
    await own.close();
  }
  const name = location.kind === 'sqlite' ? location.path : location.schema;
  throw new DuctileError('BACKUP_INVALID', 'a ledger already exists here', {
    place: name,
    hint: 'Import into a new state.path or schema.',
  });
}

/** Returns the expected digests. For an export of an older version they are computed after migration. */
async function readExpected(
  manifest: Manifest,
  copy: LedgerCopy,
  directory: string,
): Promise<LedgerCopy> {
  if (manifest.schema_version === schemaVersion) return copy;
  const tables = await withCurrentSchema(join(directory, copy.file), (path) =>
    digestLedger({ kind: 'sqlite', path }),
  );
  return { ...copy, tables: { ...tables } };
}

function requireEqual({ tenant, tables }: LedgerCopy, found: TableDigests): void {
  const now: Readonly<Record<string, { readonly rows: number; readonly hash: string }>> = found;
  for (const [table, expected] of Object.entries(tables)) {
    const { rows, hash } = now[table] ?? { rows: 0, hash: '' };
    if (rows === expected.rows && hash === expected.hash) continue;
    const message = `the table ${table} of ${tenant ?? 'the root ledger'} differs after the import`;
    throw new DuctileError('BACKUP_INVALID', message, { details: { expected, rows, hash } });
  }
}

/** Marks all tenants as due, because the due times are those of the exporting service. */
async function markAllDue(location: RootLocation): Promise<void> {
  const root = await openLedger(location, noRules);
  try {
    for (const { slug } of await root.tenants.list()) await root.tenants.recordDue(slug, 'now');
  } finally {
    await root.close();
  }
}

async function hashFile(path: string): Promise<string> {
  const hash = createHash('sha256');
  await pipeline(createReadStream(path), hash);
  return hash.digest('hex');
}

/** The number of rows of a table, and a hash of all rows that doesn't depend on their order. */
interface TableDigest {
  readonly rows: number;
  readonly hash: string;
}

type TableDigests = Readonly<Partial<Record<TableName, TableDigest>>>;

/** Tables that belong to a location and not to the record, or that a restore changes. */
const EXCLUDED: ReadonlySet<TableName> = new Set(['ledger_meta', 'processes', 'schema_migrations']);

/** Computes the digests of a ledger without writers. */
async function digestLedger(location: LedgerLocation): Promise<TableDigests> {
  if (location.kind === 'sqlite') {
    const file = new DatabaseSync(location.path, { readOnly: true });
    try {
      return await digestTables((table) => readFilePages(file, table));
    } finally {
      file.close();
    }
  }
  const { openPostgres } = await import('./postgres/store.ts');
  const store = openPostgres(location.url, location.schema);
  try {
    let digests: TableDigests = {};
    await store.snapshot(async (pagesOf) => {
      digests = await digestTables(pagesOf);
    });
    return digests;
  } finally {
    await store.close();
  }
}

async function digestTables(pagesOf: ReadPages): Promise<TableDigests> {
  const digests: Partial<Record<TableName, TableDigest>> = {};
  for (const table of ledgerTables) {
    if (EXCLUDED.has(table)) continue;
    let rows = 0;
    let sum = 0n;
    for await (const page of pagesOf(table)) {
      rows += page.length;
      for (const row of page) sum = (sum + hashRow(row)) & MASK;
    }
    digests[table] = { rows, hash: sum.toString(16).padStart(BYTES * 2, '0') };
  }
  return digests;
}

const BYTES = 16;
const MASK = (1n << BigInt(BYTES * 8)) - 1n;

/** Hashes a row without its transaction number, which differs between databases, and with sorted columns. */
function hashRow(row: Row): bigint {
  const fields = Object.entries(row)
    .filter(([column]) => column !== 'tx')
    .toSorted(([a], [b]) => (a < b ? -1 : 1));
  const digest = createHash('sha256').update(JSON.stringify(fields)).digest();
  return BigInt(`0x${digest.toString('hex', 0, BYTES)}`);
}
