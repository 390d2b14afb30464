import { createHash } from 'node:crypto';
import { DatabaseSync } from 'node:sqlite';
import { filePages, type PagesOf } from './backup.ts';
import { tables, type Row, type TableName } from './dialect.ts';
import type { LedgerPlace } from './open.ts';

/** How many rows a table has, and a hash of all that they say, whatever their order. */
export interface TableDigest {
  readonly rows: number;
  readonly hash: string;
}

export type Digests = Readonly<Partial<Record<TableName, TableDigest>>>;

/** What belongs to the place and not to the record, or is made anew where a record begins again. */
const LEFT_OUT: ReadonlySet<TableName> = new Set(['ledger_meta', 'processes', 'schema_migrations']);

/** Of a ledger that nobody writes to. */
export async function digestLedger(place: LedgerPlace): Promise<Digests> {
  if (place.kind === 'sqlite') {
    const file = new DatabaseSync(place.path, { readOnly: true });
    try {
      return await digestTables((table) => filePages(file, table));
    } finally {
      file.close();
    }
  }
  const { openPostgres } = await import('./postgres/store.ts');
  const store = openPostgres(place.url, place.schema);
  try {
    let digests: Digests = {};
    await store.snapshot(async (pagesOf) => {
      digests = await digestTables(pagesOf);
    });
    return digests;
  } finally {
    await store.close();
  }
}

async function digestTables(pagesOf: PagesOf): Promise<Digests> {
  const digests: Partial<Record<TableName, TableDigest>> = {};
  for (const table of tables) {
    if (LEFT_OUT.has(table)) continue;
    let rows = 0;
    let sum = 0n;
    for await (const page of pagesOf(table)) {
      rows += page.length;
      for (const row of page) sum = (sum + hashOf(row)) & MASK;
    }
    digests[table] = { rows, hash: sum.toString(16).padStart(BYTES * 2, '0') };
  }
  return digests;
}

const BYTES = 16;
const MASK = (1n << BigInt(BYTES * 8)) - 1n;

/** Transactions are numbered by each database for itself, and columns come in any order. */
function hashOf(row: Row): bigint {
  const fields = Object.entries(row)
    .filter(([column]) => column !== 'tx')
    .toSorted(([a], [b]) => (a < b ? -1 : 1));
  const digest = createHash('sha256').update(JSON.stringify(fields)).digest();
  return BigInt(`0x${digest.toString('hex', 0, BYTES)}`);
}
