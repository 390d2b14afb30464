import { readdirSync, rmSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import type { LedgerPlace } from './open.ts';

/** Where the root ledger is, and with SQLite the directory in which the others are. */
export type RootPlace = LedgerPlace & { readonly dir: string };

/** Where the ledger of a tenant is: a file beside the root's, or a schema of the same database. */
export function tenantPlace(root: RootPlace, slug: string): LedgerPlace {
  return root.kind === 'sqlite'
    ? { kind: 'sqlite', path: join(root.dir, `org_${slug}.db`) }
    : { kind: 'postgres', url: root.url, schema: `org_${slug}` };
}

/** Removes a ledger with everything in it, if it is there. Nobody may have it open. */
export async function removeLedger(place: LedgerPlace): Promise<void> {
  if (place.kind === 'sqlite') {
    const name = basename(place.path);
    const directory = dirname(place.path);
    // What SQLite keeps beside it first: without the file, it is nothing.
    for (const found of readdirSync(directory)) {
      if (found.startsWith(`${name}-`)) rmSync(join(directory, found), { force: true });
    }
    rmSync(place.path, { force: true });
    return;
  }
  const { openPostgres } = await import('./postgres.ts');
  const store = openPostgres(place.url, place.schema);
  try {
    await store.write(['other'], (tx) => tx.run(`drop schema if exists "${place.schema}" cascade`));
  } finally {
    await store.close();
  }
}
