/** The time of a check is linear in the number of rows. */
import { describe, expect, test } from 'vitest';
import { checkLedger } from '../../src/ledger/check.ts';
import { makePostgresDialect } from '../../src/ledger/postgres/store.ts';
import { sqliteDialect } from '../../src/ledger/sqlite/session.ts';
import { fillTables } from '../support/ledger/many-rows.ts';
import { databases, openBench, type Bench } from '../support/ledger/bench.ts';

async function statementsOf({ place }: Bench): Promise<string[]> {
  const statements: string[] = [];
  await checkLedger({
    dialect: place.kind === 'sqlite' ? sqliteDialect : makePostgresDialect(place.schema),
    run: (sql) => {
      statements.push(sql);
      return Promise.resolve([{ n: 0 }]);
    },
  });
  return statements;
}

/** The lines of a plan that read a whole table once for each row of another. */
async function repeatedScans({ kind, sql }: Bench, statement: string): Promise<string[]> {
  if (kind === 'sqlite') {
    const rows = await sql(`explain query plan ${statement}`);
    const scans = rows.map((row) => String(row['detail'])).filter((line) => /^SCAN \w+/.test(line));
    // A statement reads the first table once; tables that it creates itself don't count.
    return scans.filter((line) => !line.startsWith('SCAN twice')).slice(1);
  }
  const rows = await sql(`explain ${statement}`);
  const lines = rows.map((row) => String(row['QUERY PLAN']));
  const filters = lines.filter((line) => line.includes('Join Filter'));
  const below = lines.slice(lines.findIndex((line) => /SubPlan/.test(line)) + 1);
  const isSearched = below.length === lines.length || below.some((line) => /Index Cond/.test(line));
  return isSearched ? filters : [...filters, ...below];
}

describe.each(databases)('checking a ledger on %s', (kind) => {
  test('reads no table once for each row of another', async () => {
    const bench = await openBench(kind);
    await fillTables(bench, 2000);
    if (kind === 'postgres') {
      await bench.sql('analyze');
      await bench.sql('set enable_seqscan = off');
      await bench.sql('set enable_bitmapscan = off');
    }
    const statements = await statementsOf(bench);
    expect(statements.length).toBeGreaterThan(10);
    for (const statement of statements) {
      expect(await repeatedScans(bench, statement), statement).toEqual([]);
    }
  });

  test('finds what packages own or do not own against the record', async () => {
    const { ledger, sql } = await openBench(kind);
    const provides = '{"handlers":[],"pipelines":[],"plugins":{"a":{}},"routes":[]}';
    const install = (id: string, status: string, provisioned: string): Promise<unknown> =>
      sql(`insert into package_installations (id, slug, version, hash, status, config,
          config_checksum, provisioned, revision, directive_id, installed_by, installed_at, updated_at)
        values ('${id}', '${id}', '1.0.0', 'h', '${status}', '{}', 'c', '${provisioned}', 1, 'd',
          'test', 't', 't')`);
    const own = (id: string, name: string, removed: string): Promise<unknown> =>
      sql(`insert into installation_provisions
        (installation_id, kind, name, provisioned_at, removed_at)
        values ('${id}', 'plugin', '${name}', 't', ${removed})`);
    await install('sound', 'installed', provides);
    await own('sound', 'a', 'null');
    await install('slim', 'installed', provides.replace('"a":{}', ''));
    await install('past', 'uninstalled', provides);
    await own('past', 'a', "'t'");
    expect(await ledger.check()).toEqual([]);
    await install('gone', 'uninstalled', provides);
    await own('gone', 'b', 'null');
    await own('never', 'c', 'null');
    await install('empty', 'disabled', provides);
    await install('silent', 'failed', provides);
    await own('silent', 'd', 'null');
    expect(await ledger.check()).toEqual([
      '2 provisions of packages that are not installed',
      '1 installations whose status and error contradict each other',
      '1 installations that should provide something but own nothing',
    ]);
    await sql('delete from package_installations');
    await sql('delete from installation_provisions');
  });
});
