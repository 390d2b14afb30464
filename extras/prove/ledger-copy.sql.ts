import { noRules } from '../../src/ledger/rules.ts';
import { backupPostgres, copySqlite } from '../../src/ledger/backup.ts';
import type { Dialect, TableName, Transaction } from '../../src/ledger/dialect.ts';
import { requireKnownSchema } from '../../src/ledger/migrate.ts';
import { openLedger, type LedgerLocation } from '../../src/ledger/open.ts';
import { writeMeta } from '../../src/ledger/meta.ts';
import { int } from '../../src/ledger/row.ts';
import { requireCurrentSchema, readSchemaVersion } from '../../src/ledger/open-readonly.ts';
import { openReadonlyFile } from '../../src/ledger/sqlite/file.ts';
import { openSqlite } from '../../src/ledger/sqlite/store.ts';

/** Number of jobs and runs in a copied ledger. */
export interface CopyCounts {
  /** Finished jobs and runs, which the copy contains. */
  readonly jobs: number;
  readonly runs: number;
  /** Unfinished jobs and runs, which the copy leaves out. */
  readonly openJobs: number;
  readonly openRuns: number;
}

/**
 * Copies a ledger into a file for a rehearsal. A service may use the ledger meanwhile. The copy leaves
 * out unfinished work, tenants, and everything that keeps work from starting.
 */
export async function copyForRehearsal(place: LedgerLocation, target: string): Promise<CopyCounts> {
  await copy(place, target);
  // Migrates an older copy to this program's schema.
  await (await openLedger({ kind: 'sqlite', path: target }, noRules)).close();
  const store = openSqlite(target);
  try {
    return await store.write(['other'], async (tx) => {
      const counts = await count(tx);
      for (const sql of listDeletions(tx.dialect)) await tx.run(sql);
      await writeMeta(tx, 'paused', '0');
      return counts;
    });
  } finally {
    await store.close();
  }
}

async function copy(place: LedgerLocation, target: string): Promise<void> {
  if (place.kind === 'sqlite') {
    const reader = openReadonlyFile(place.path);
    if (reader === undefined) return;
    try {
      await copySqlite(reader, target);
    } finally {
      reader.close();
    }
    return;
  }
  const version = await readSchemaVersion(place);
  if (version === undefined) return;
  requireKnownSchema(version);
  requireCurrentSchema(version);
  const { openPostgres } = await import('../../src/ledger/postgres/store.ts');
  const store = openPostgres(place.url, place.schema);
  try {
    await backupPostgres(store, target);
  } finally {
    await store.close();
  }
}

async function count(tx: Transaction): Promise<CopyCounts> {
  const table = (name: TableName): string => tx.dialect.table(name);
  const [row = {}] = await tx.run(
    `select
      (select count(*) from ${table('job_queue')} where completed_at is not null) as jobs,
      (select count(*) from ${table('job_queue')} where completed_at is null) as open_jobs,
      (select count(*) from ${table('pipeline_runs')} where completed_at is not null) as runs,
      (select count(*) from ${table('pipeline_runs')} where completed_at is null) as open_runs`,
  );
  return {
    jobs: int(row, 'jobs'),
    runs: int(row, 'runs'),
    openJobs: int(row, 'open_jobs'),
    openRuns: int(row, 'open_runs'),
  };
}

function listDeletions(d: Dialect): string[] {
  const table = (name: TableName): string => d.table(name);
  const ofOpenRuns = `run_id in (
    select id from ${table('pipeline_runs')} where completed_at is null)`;
  const ofRuns = ['run_payloads', 'run_advancements', 'run_steps', 'run_branches'] as const;
  const whole = [
    'circuit_breakers',
    'plugin_health',
    'processes',
    'tenant_keys',
    'tenants',
  ] as const;
  return [
    ...ofRuns.map((name) => `delete from ${table(name)} where ${ofOpenRuns}`),
    `delete from ${table('pipeline_runs')} where completed_at is null`,
    `delete from ${table('job_queue')} where completed_at is null`,
    `delete from ${table('job_dedupe')} where blocks_until is null`,
    `delete from ${table('directives')} where status in ('requested', 'running')`,
    ...whole.map((name) => `delete from ${table(name)}`),
  ];
}
