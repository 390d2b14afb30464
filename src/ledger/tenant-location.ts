import { readdirSync, rmSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import type { LedgerLocation } from './open.ts';
import { tenantSchema } from '../tenant/tenants.ts';

/** The location of the root ledger, and the directory with the SQLite files of the tenants. */
export type RootLocation = LedgerLocation & { readonly dir: string };

/** Returns the location of a tenant's ledger: a file beside the root's, or a schema of the same database. */
export function locateTenantLedger(root: RootLocation, slug: string): LedgerLocation {
  return root.kind === 'sqlite'
    ? { kind: 'sqlite', path: join(root.dir, `org_${slug}.db`) }
    : { kind: 'postgres', url: root.url, schema: tenantSchema(slug) };
}

/**
 * Finds the host of a process with a recent heartbeat in a ledger. It doesn't open the ledger, which may
 * be newer than this program, or damaged.
 */
export async function findLiveHost(
  location: LedgerLocation,
  withinMs: number,
): Promise<string | undefined> {
  // The instance lock of the state directory already excludes other processes from its files.
  if (location.kind === 'sqlite') return undefined;
  const { openPostgres } = await import('./postgres/store.ts');
  const store = openPostgres(location.url, location.schema);
  try {
    return await store.read(async (session) => {
      const known = await session.run(
        `select column_name from information_schema.columns where table_schema = ?
          and table_name = 'processes' and column_name in ('host', 'last_heartbeat_at')`,
        [location.schema],
      );
      if (known.length < 2) return undefined;
      const [row] = await session.run(
        `select host from ${session.dialect.table('processes')}
          where last_heartbeat_at > (select ${session.dialect.nowPlus('?')}) limit 1`,
        [-withinMs],
      );
      return row === undefined ? undefined : String(row['host']);
    });
  } finally {
    await store.close();
  }
}

/** Removes a ledger with all its data, if it exists. No process may have it open. */
export async function removeLedger(location: LedgerLocation): Promise<void> {
  if (location.kind === 'sqlite') {
    const name = basename(location.path);
    const directory = dirname(location.path);
    // Side files first, so that a crash never leaves them behind without their database.
    for (const found of readdirSync(directory)) {
      if (found.startsWith(`${name}-`)) rmSync(join(directory, found), { force: true });
    }
    rmSync(location.path, { force: true });
    return;
  }
  const { openPostgres } = await import('./postgres/store.ts');
  const store = openPostgres(location.url, location.schema);
  try {
    await store.write(['other'], (tx) =>
      tx.run(`drop schema if exists "${location.schema}" cascade`),
    );
  } finally {
    await store.close();
  }
}
