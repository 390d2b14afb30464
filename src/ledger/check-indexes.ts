import { messageOf } from '../base/errors.ts';
import { checkSqliteFile } from './check.ts';
import type { Session } from './dialect.ts';
import { int, text } from './row.ts';
import type { CheckSession } from './sqlite/read-thread.ts';

export interface IndexCheck {
  readonly problems: readonly string[];
  /** Why the check did not run; null if it ran. */
  readonly skipped: string | null;
}

/** Compares every index of a file with its table, which a check at the start has no time for. */
export async function checkSqliteIndexes(reading: CheckSession): Promise<IndexCheck> {
  return { problems: await checkSqliteFile(reading), skipped: null };
}

/** Has PostgreSQL compare every index of the schema with its table, where `amcheck` is installed. */
export async function checkPostgresIndexes(session: Session, schema: string): Promise<IndexCheck> {
  const [extension] = await session.run(
    `select n.nspname as name from pg_catalog.pg_extension e
      join pg_catalog.pg_namespace n on n.oid = e.extnamespace where e.extname = 'amcheck'`,
  );
  if (extension === undefined) {
    return { problems: [], skipped: 'the extension amcheck is not installed in this database' };
  }
  const indexes = await session.run(
    `select c.oid::bigint as oid, c.relname as name from pg_catalog.pg_class c
      join pg_catalog.pg_namespace n on n.oid = c.relnamespace
      join pg_catalog.pg_am a on a.oid = c.relam
      where n.nspname = ? and c.relkind = 'i' and a.amname = 'btree' order by c.relname`,
    [schema],
  );
  const problems: string[] = [];
  for (const index of indexes) {
    try {
      const check = `"${text(extension, 'name')}".bt_index_check(${int(index, 'oid')}::oid, true)`;
      await session.run(`select ${check}::text as checked`);
    } catch (error) {
      const message = messageOf(error);
      if (/permission denied/.test(message)) return { problems, skipped: message };
      problems.push(`${text(index, 'name')}: ${message}`);
    }
  }
  return { problems, skipped: null };
}
