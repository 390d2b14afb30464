import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { tables } from '../../src/ledger/dialect.ts';
import type { Ledger } from '../../src/ledger/ledger.ts';
import { makeDirectory } from './directory.ts';

/** Dumps all tables of a ledger, from a copy in a SQLite file. */
export async function dumpLedger(ledger: Ledger): Promise<Record<string, string>> {
  const copy = join(await makeDirectory(), 'copy.db');
  await ledger.backup(copy);
  const file = new DatabaseSync(copy, { readOnly: true });
  try {
    const dump = tables.map((table) => [
      table,
      JSON.stringify(file.prepare(`select * from ${table}`).all()),
    ]);
    return Object.fromEntries(dump) as Record<string, string>;
  } finally {
    file.close();
  }
}

/** Returns the names of the sinks that contain one of these texts. */
export function findLeaks(
  sinks: Readonly<Record<string, string>>,
  secrets: readonly string[],
): string[] {
  return Object.entries(sinks)
    .filter(([, text]) => secrets.some((secret) => text.includes(secret)))
    .map(([name]) => name);
}
