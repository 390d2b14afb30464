import { tables, type TableName } from './dialect.ts';
import type { PostgresStore } from './postgres/store.ts';
import { text } from './row.ts';

/** What a start writes by itself, or what tells of the place and not of what was done there. */
const OF_A_START: ReadonlySet<TableName> = new Set([
  'storage_sequences',
  'schedules',
  'config_snapshots',
  'token_names',
  'pipeline_definitions',
  'processes',
  'ledger_meta',
  'schema_migrations',
]);

/** Whether a schema holds anything that somebody would miss, whichever program made its tables. */
export async function isUsed(store: PostgresStore): Promise<boolean> {
  return store.read(async (session) => {
    const found = await session.run(
      'select tablename from pg_catalog.pg_tables where schemaname = ?',
      [store.schema],
    );
    const there = new Set(found.map((row) => text(row, 'tablename')));
    for (const table of tables) {
      if (OF_A_START.has(table) || !there.has(table)) continue;
      const sql = `select 1 as one from ${session.dialect.table(table)} limit 1`;
      if ((await session.run(sql)).length > 0) return true;
    }
    return false;
  });
}
