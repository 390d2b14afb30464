/** Test ledgers on both databases. */
import { noRules } from '../../../src/ledger/rules.ts';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import pg from 'pg';
import { expect, onTestFinished } from 'vitest';
import type { Job } from '../../../src/job/job.ts';
import { tables, type Row, type TableName, type Value } from '../../../src/ledger/dialect.ts';
import type { Ledger } from '../../../src/ledger/ledger.ts';
import { derivedColumns } from '../../../src/ledger/migrations/0012-words.ts';
import { lists } from '../../../src/ledger/migrations/0014-lists.ts';
import { sqliteDialect } from '../../../src/ledger/sqlite/session.ts';
import { openLedger, type LedgerLocation } from '../../../src/ledger/open.ts';
import { makeDirectory } from '../directory.ts';
import { placeLedger } from '../place-ledger.ts';
import { makeSchemaUrl } from '../postgres.ts';

export const databases = ['sqlite', 'postgres'] as const;
export type Kind = (typeof databases)[number];
export type PostgresPlace = Extract<LedgerLocation, { kind: 'postgres' }>;

export interface Bench {
  readonly kind: Kind;
  readonly place: LedgerLocation;
  readonly ledger: Ledger;
  /** Opens another handle of the ledger, which is closed after the test. */
  readonly open: () => Promise<Ledger>;
  /** Runs a statement directly, to change or read rows; `?` stands for values. */
  readonly sql: (text: string, values?: readonly Value[]) => Promise<Row[]>;
  /** Reads all tables, to compare them. */
  readonly dump: () => Promise<Record<TableName, Row[]>>;
  readonly job: (id: string) => Promise<Job>;
}

/** Opens an empty ledger, which must pass its check after the test. */
export async function openBench(kind: Kind): Promise<Bench> {
  const place = await makePlace(kind);
  if (place.kind === 'sqlite') await placeLedger(place.path);
  const ledger = await openLedger(place, noRules);
  const handles: Ledger[] = [ledger];
  const raw = openRaw(place);
  onTestFinished(async () => {
    try {
      expect(await ledger.check()).toEqual([]);
    } finally {
      await Promise.all(handles.map((handle) => handle.close()));
      await raw.close();
    }
  });
  return {
    kind,
    place,
    ledger,
    async open() {
      const handle = await openLedger(place, noRules);
      handles.push(handle);
      return handle;
    },
    sql: raw.run,
    async dump() {
      const found: Partial<Record<TableName, Row[]>> = {};
      for (const table of tables) found[table] = sortRows(await raw.run(`select * from ${table}`));
      return found as Record<TableName, Row[]>;
    },
    async job(id) {
      const job = await ledger.jobs.find(id);
      if (job === undefined) throw new Error(`there is no job ${id}`);
      return job;
    },
  };
}

export async function makePlace(kind: Kind): Promise<LedgerLocation> {
  if (kind === 'sqlite') return { kind, path: join(await makeDirectory(), 'state', 'ledger.db') };
  return makePostgresPlace();
}

export async function makePostgresPlace(): Promise<PostgresPlace> {
  const url = new URL(await makeSchemaUrl());
  const schema = url.searchParams.get('schema') ?? '';
  url.searchParams.delete('schema');
  return { kind: 'postgres', url: url.href, schema };
}

/** Downgrades a file to the schema of version 11. */
export async function makeOlderLedger(path: string): Promise<void> {
  const file = openRaw({ kind: 'sqlite', path });
  for (const [table, columns] of Object.entries(derivedColumns)) {
    for (const column of Object.keys(columns)) {
      await file.run(`alter table ${table} drop column ${column}`);
    }
  }
  const undo = [
    ...undoQuestions,
    ...undoObservations,
    ...undoSnapshots,
    ...undoChains,
    ...undoUsage,
    ...undoLists(),
    ...undoAccess,
  ];
  for (const statement of undo) await file.run(statement);
  await file.run('delete from schema_migrations where version >= 12');
  await file.run('pragma user_version = 11');
  await file.close();
}

/** Reverts migration 13. */
const undoAccess = [
  'drop table token_names',
  'drop index api_tokens_creator',
  'alter table directives drop column asked_digest',
  'alter table webhook_deliveries drop column test_by',
];

/** Reverts the indexes of migration 14, and restores the one that it replaced. */
function undoLists(): string[] {
  const made = lists.statements(sqliteDialect).flatMap((statement) => {
    const [, name] = /^create index (\w+)/.exec(statement) ?? [];
    return name === undefined ? [] : [`drop index ${name}`];
  });
  return [...made, 'create index signals_subject on signals (subject_type, subject_id)'];
}

/** Reverts migration 15. */
const undoUsage = [
  'alter table job_log drop column cpu_ms',
  'alter table job_log drop column memory_peak_bytes',
];

/** Reverts what migration 16 adds. Its replaced indexes are replaced again later. */
const undoChains = ['drop index job_log_rare_of'];

/** Reverts migration 18. */
const undoObservations = [
  'drop table observations',
  'alter table processes drop column config_file',
  'alter table processes drop column config_digest',
  'alter table schedules drop column skipped_in_row',
];

/** Reverts migration 19. */
const undoQuestions = ['drop index run_steps_asking'];

/** Reverts migration 17. */
const undoSnapshots = [
  'drop index config_snapshots_unmasked',
  'alter table config_snapshots drop column masked',
];

export interface Raw {
  readonly run: (text: string, values?: readonly Value[]) => Promise<Row[]>;
  readonly close: () => Promise<void>;
}

/** Opens a plain connection beside the ledger's own. */
export function openRaw(place: LedgerLocation): Raw {
  return place.kind === 'sqlite' ? openRawSqlite(place.path) : openRawPostgres(place);
}

function openRawSqlite(path: string): Raw {
  const db = new DatabaseSync(path, { timeout: 5000 });
  return {
    run: async (text, values = []) => db.prepare(text).all(...values) as Row[],
    close: () => Promise.resolve(db.close()),
  };
}

function openRawPostgres({ url, schema }: PostgresPlace): Raw {
  const client = makeClient(url);
  const ready = client.connect().then(() => client.query(`set search_path to "${schema}"`));
  return {
    async run(text, values = []) {
      await ready;
      let index = 0;
      const numbered = text.replaceAll('?', () => `$${(index += 1)}`);
      return (await client.query<Row>(numbered, [...values])).rows;
    },
    async close() {
      await ready;
      await client.end();
    },
  };
}

const INT8_OID = 20;

/** Creates a client that reads big integers as numbers, like the ledger. */
export function makeClient(url: string): pg.Client {
  return new pg.Client({
    connectionString: url,
    types: {
      getTypeParser: (oid: number, format?: 'text' | 'binary') =>
        oid === INT8_OID ? Number : pg.types.getTypeParser(oid, format),
    },
  });
}

function sortRows(rows: readonly Row[]): Row[] {
  return rows
    .map((row) => ({ row, key: JSON.stringify(row) }))
    .sort((a, b) => (a.key < b.key ? -1 : 1))
    .map(({ row }) => ({ ...row }));
}

/** Returns the only element of a list. */
export function only<T>(list: readonly T[]): T {
  const [first] = list;
  if (list.length !== 1 || first === undefined) throw new Error(`${list.length} instead of one`);
  return first;
}

export function range(count: number): number[] {
  return Array.from({ length: count }, (_, index) => index);
}
