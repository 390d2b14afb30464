/** What differs between the two databases. Nothing outside this folder knows which one it is. */
export interface Dialect {
  readonly name: 'sqlite' | 'postgres';
  /** A table's full name: SQL names its schema, because a session's search path is never set. */
  table(name: TableName): string;
  /** Types that the migrations use. */
  readonly types: { readonly int: string; readonly text: string; readonly identity: string };
  /** The database's clock as our timestamp text, now and shifted by an expression in milliseconds. */
  readonly now: string;
  nowPlus(msExpression: string): string;
  readonly forUpdate: string;
  readonly skipLocked: string;
  /** Serialises claims of one ledger over all hosts; undefined where there is one writer anyway. */
  readonly lockClaims: string | undefined;
  /** How a statement over many rows gets them, see `rows.ts`. */
  readonly rowsOf: 'loop' | 'unnest';
}

export const tables = [
  'job_queue',
  'job_log',
  'job_dedupe',
  'signals',
  'plugin_state',
  'plugin_facts',
  'storage_sequences',
  'event_context',
  'processes',
  'ledger_meta',
  'schema_migrations',
] as const;

export type TableName = (typeof tables)[number];

export type Value = string | number | null;
export type Row = Record<string, Value>;

/** A transaction under way, or a plain connection for reading. */
export interface Session {
  readonly dialect: Dialect;
  /** Runs one statement with `?` placeholders. */
  run(sql: string, values?: readonly Value[]): Promise<Row[]>;
  /** Runs one statement over many rows and gives all that it returns. */
  each(statement: RowsStatement, rows: readonly Row[], common?: readonly Value[]): Promise<Row[]>;
}

/** Inside a writing transaction. `again`: an earlier try may have been committed unnoticed. */
export interface Transaction extends Session {
  readonly again: boolean;
}

/** A database that can be read, and written in whole transactions. */
export interface Store {
  readonly dialect: Dialect;
  read<T>(work: (session: Session) => Promise<T>): Promise<T>;
  write<T>(names: readonly VerbName[], work: (tx: Transaction) => Promise<T>): Promise<T>;
  close(): Promise<void>;
}

/** The verbs whose commits have fault points on both sides. */
export type VerbName = 'enqueue' | 'claim' | 'settle' | 'release' | 'reap' | 'heartbeat' | 'prune' | 'other';

/**
 * One statement applied to many rows: on SQLite a prepared statement run once for each, on
 * PostgreSQL a set that is unnested from array parameters. It is written once, with `r('column')`
 * wherever a value of the row is meant.
 */
export interface RowsStatement {
  readonly columns: Readonly<Record<string, 'text' | 'int'>>;
  readonly sql: (r: RowsWriter, dialect: Dialect) => string;
}

export interface RowsWriter {
  /** The row's value of a column. */
  (column: string): string;
  /** The nth value that all rows share. */
  common(index: number, type?: 'text' | 'int'): string;
  /** `from …` that brings the rows, to stand after `set …` or `select …`; empty where they are looped. */
  readonly from: string;
  /** A sub-select evaluated once for each row, named q. */
  lateral(select: string): string;
}

export function defineRows(statement: RowsStatement): RowsStatement {
  return statement;
}
