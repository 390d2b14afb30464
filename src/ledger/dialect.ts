import { DuctileError, messageOf } from '../base/errors.ts';
import { limits } from '../base/limits.ts';
import type { ListSignalDirectives } from '../signal/signal.ts';
import type { JobEnd } from '../job/types.ts';
import type { FollowHalt, OpenSignal } from '../pipeline/run/types.ts';

/** The differences between the two databases. Only this folder knows which one a ledger uses. */
export interface Dialect {
  readonly name: 'sqlite' | 'postgres';
  /** Returns the full name of a table, view or index. SQL names the schema, because no search path is set. */
  table(name: TableName | 'run_transitions' | ReplacedIndex): string;
  /** Types that the migrations use. */
  readonly types: {
    readonly int: string;
    readonly text: string;
    readonly identity: string;
    /** The number of the transaction that wrote the row; always 0 on SQLite, which has one writer. */
    readonly transaction: string;
    /** The storage of a generated column. */
    readonly derived: string;
  };
  /** The database's clock as a `Timestamp`; `nowPlus` adds an expression in milliseconds. */
  readonly now: string;
  nowPlus(msExpression: string): string;
  /** The start of the statement: the same for all of its rows and columns. */
  readonly statementNow: string;
  /** True if batch statements get the time as a parameter, because asking the database costs too much. */
  readonly takesTime: boolean;
  readonly forUpdate: string;
  readonly forShare: string;
  readonly skipLocked: string;
  /** Serializes the claims of one ledger over all hosts; undefined on SQLite, which has one writer. */
  readonly lockClaims: string | undefined;
  /** The tables that can pause this ledger: its own `ledger_meta`, and the root's in PostgreSQL. */
  readonly pausedBy: readonly string[];
  /** Waits for the claims in progress in these schemas; undefined with one writer. */
  readonly awaitClaimsIn: ((schemas: readonly string[]) => string) | undefined;
  /** Serializes transactions that count the queue before they add to it; undefined with one writer. */
  readonly lockQueue: string | undefined;
  /** Serializes starts of runs with a concurrency key; undefined with one writer. */
  readonly lockRuns: string | undefined;
  /** Blocks claims, but no other transaction with this lock; undefined with one writer. */
  readonly lockClaimsShared: string | undefined;
  /**
   * The oldest transaction in progress: all with a lower number have ended. Commits don't happen in the
   * order of these numbers. Undefined with one writer.
   */
  readonly settledBelow: string | undefined;
  /** The first transaction number that isn't assigned yet; undefined with one writer. */
  readonly nextTransaction: string | undefined;
  /** The highest number assigned to a job, committed or not; undefined with one writer. */
  readonly lastJobSeq: string | undefined;
  /** The number of the current transaction; undefined with one writer. */
  readonly ownTransaction: string | undefined;
  /** The expression and tables of a `select` that returns the bytes of the ledger. */
  readonly size: string;
  /** Returns true if a transaction failed only because of another one, so that a retry helps. */
  isConflict(error: unknown): boolean;
  /** The nth parameter, and the condition "is one of the values in the nth parameter", which is a list. */
  parameter(index: number, type: 'text' | 'int'): string;
  among(index: number, type: 'text' | 'int'): string;
  list(values: readonly Value[]): string;
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
  'schedules',
  'circuit_breakers',
  'circuit_breaker_transitions',
  'directives',
  'plugin_switches',
  'api_tokens',
  'token_names',
  'idempotency_keys',
  'config_snapshots',
  'plugin_health',
  'pipeline_definitions',
  'pipeline_runs',
  'run_branches',
  'run_steps',
  'run_advancements',
  'run_payloads',
  'credentials',
  'sealed_payloads',
  'package_installations',
  'installation_provisions',
  'tenants',
  'tenant_keys',
  'webhooks',
  'webhook_deliveries',
  'incidents',
  'observations',
  'processes',
  'ledger_meta',
  'schema_migrations',
] as const;

/** Indexes that a later migration replaces. */
type ReplacedIndex =
  | 'job_queue_ready'
  | 'signals_cause'
  | 'signals_correlation'
  | 'signals_subject';

export type TableName = (typeof tables)[number];

/** A numbered, forward-only step of a ledger's schema. */
export interface Migration {
  readonly version: number;
  readonly name: string;
  readonly statements: (dialect: Dialect) => string[];
}

export type Value = string | number | null;
export type Row = Record<string, Value>;

/** A transaction in progress, or a connection for reading. */
export interface Session {
  readonly dialect: Dialect;
  /** Runs one statement with `?` placeholders. */
  run(sql: string, values?: readonly Value[]): Promise<Row[]>;
  /** Runs one statement over many rows and returns all result rows. */
  each<R = Row>(
    statement: RowsStatement<R>,
    rows: readonly NoInfer<R>[],
    common?: readonly Value[],
  ): Promise<Row[]>;
}

/** The end of a job or run, and the listener that waits for it. */
export interface EndEvent {
  readonly id: string;
  readonly awaitedBy: string | null;
}

/** Collects the ends of a transaction in progress. */
export interface EndCollector {
  /** The name of the ledger's own listener. */
  readonly listener: string;
  /** `how` is set if this transaction itself closes the job. */
  note(end: EndEvent, how?: JobEnd): void;
}

export interface Transaction extends Session {
  /** True if an earlier attempt may have been committed although its response was lost. */
  readonly isRetry: boolean;
  readonly savepoints: SavepointState;
  /** Runs a statement over rows without waiting for it. If it fails, the transaction fails. */
  send<R = Row>(
    statement: RowsStatement<R>,
    rows: readonly NoInfer<R>[],
    common?: readonly Value[],
  ): void;
  /** Opens the masked data of a signal. Without it the data stays masked. */
  readonly openSignal?: OpenSignal;
  /** Returns the jobs and runs that follow when a run halts. */
  readonly followHalt?: FollowHalt | undefined;
  /** Returns the jobs and runs that follow when a run begins to wait for a person. */
  readonly followApproval?: FollowHalt | undefined;
  /** Returns the directives that handlers request for a signal. */
  readonly listSignalDirectives?: ListSignalDirectives;
  /** Collects the ends of jobs and runs that a caller may wait for. */
  readonly ends?: EndCollector;
  /** Returns true if no later write exists. Only known with one writer. */
  readonly isLatest?: () => boolean;
  /** Declares that no more statements follow, so that the commit can be sent with the last ones. */
  finish(): void;
}

/** The use of savepoints in one attempt at a transaction. */
export interface SavepointState {
  /** False in a first attempt. */
  readonly isEnabled: boolean;
  /** Set when a part of the transaction would use a savepoint. */
  isUsed: boolean;
}

/**
 * Writes without savepoints first, and repeats a failed write with them. Parts rarely fail, and on
 * SQLite a savepoint costs more than the writes inside it.
 */
export async function retryWithSavepoints<T>(
  write: (savepoints: SavepointState) => Promise<T>,
): Promise<T> {
  const savepoints = { isEnabled: false, isUsed: false };
  try {
    return await write(savepoints);
  } catch (error) {
    // A DuctileError concerns the whole database, so savepoints wouldn't help.
    if (!savepoints.isUsed || error instanceof DuctileError) throw error;
    return await write({ isEnabled: true, isUsed: true });
  }
}

export type SavepointResult<T> =
  | { readonly isDone: true; readonly value: T }
  | { readonly isDone: false; readonly error: string };

/**
 * Runs a part of a transaction that may fail without the rest. If it fails, it is rolled back, and the
 * result has the error. Without savepoints, in a first attempt, the whole transaction fails. The part
 * waits for all statements that it sent, because their failure must not reach the rest. If the whole
 * transaction is lost, the rollback to the savepoint fails too. A conflict fails the transaction, which
 * is then repeated as a whole.
 */
export async function runInSavepoint<T>(
  tx: Transaction,
  work: (inner: Transaction) => Promise<T>,
): Promise<SavepointResult<T>> {
  tx.savepoints.isUsed = true;
  if (!tx.savepoints.isEnabled) return { isDone: true, value: await work(tx) };
  const sent: Promise<unknown>[] = [];
  const track = <A>(statement: Promise<A>): void => {
    statement.catch(() => undefined);
    sent.push(statement);
  };
  track(tx.run('savepoint part'));
  try {
    const value = await work({
      ...tx,
      send: (...rows) => track(tx.each(...rows)),
      finish: () => undefined,
    });
    await Promise.all(sent);
    track(tx.run('release savepoint part'));
    return { isDone: true, value };
  } catch (thrown) {
    // A sent statement may have failed first, and the thrown error may be its consequence.
    const causes = [...(await Promise.allSettled(sent)).flatMap(reasonOf), thrown];
    const conflict = causes.find((cause) => tx.dialect.isConflict(cause));
    if (conflict !== undefined) throw conflict;
    await tx.run('rollback to savepoint part');
    await tx.run('release savepoint part');
    return { isDone: false, error: messageOf(causes[0]).slice(0, limits.errorCharsMax) };
  }
}

function reasonOf(end: PromiseSettledResult<unknown>): unknown[] {
  return end.status === 'rejected' ? [end.reason] : [];
}

/** A database that can be read, and written in whole transactions. */
export interface Store {
  readonly dialect: Dialect;
  /**
   * Reads rows by their key, and only that: on SQLite it runs in the service's own thread, so the
   * cost must not depend on how many rows there are.
   */
  readonly find: <T>(work: (session: Session) => Promise<T>) => Promise<T>;
  /** Reads anything else. On SQLite it runs in a reader thread, and all its statements see the same commits. */
  readonly read: <T>(work: (session: Session) => Promise<T>) => Promise<T>;
  readonly write: <T>(
    names: readonly CommitName[],
    work: (tx: Transaction) => Promise<T>,
  ) => Promise<T>;
  close(): Promise<void>;
}

/** The name of a commit, which selects the fault points around it. */
export type CommitName =
  | 'enqueue'
  | 'claim'
  | 'settle'
  | 'release'
  | 'reap'
  | 'heartbeat'
  | 'fire'
  | 'advance'
  | 'install'
  | 'prune'
  | 'other';

/**
 * A statement that is applied to many rows. SQLite runs a prepared statement once for each row, or for
 * each run of rows that differ in the key only. PostgreSQL runs one statement over rows that it unnests
 * from arrays. The SQL is written once, with `r('column')` for a value of the row.
 */
export interface RowsStatement<in R = Row> {
  readonly columns: Readonly<Record<string, 'text' | 'int'>>;
  /** Returns the property of a row with the value of a column (default: the one with its name). */
  readonly propertyOf?: (column: string) => keyof R & string;
  /** Neighboring rows that differ in this column only are written together. */
  readonly key?: string;
  /** The column that identifies the written rows. A `returning` clause costs SQLite half an insert. */
  readonly returns?: string;
  readonly sql: (r: RowsWriter, dialect: Dialect) => string;
}

export interface RowsWriter {
  /** The row's value of a column. */
  (column: string): string;
  /** The comparison with the row's key, to be written after a column. */
  isKey(): string;
  /** The nth value that all rows share. */
  common(index: number, type?: 'text' | 'int'): string;
  /** The source of an insert. SQLite uses `values`, because a `select` would copy the rows once more. */
  values(list: string): string;
  /** The `from …` clause with the rows, after `set …` or `select …`; empty for a run. */
  readonly from: string;
  /** A subquery named q that is evaluated once for each row. */
  lateral(select: string): string;
}

/** Waits for two statements that were sent together. After a failure, neither is still running. */
export async function awaitBoth<A, B>(first: Promise<A>, second: Promise<B>): Promise<[A, B]> {
  try {
    return await Promise.all([first, second]);
  } catch (error) {
    await Promise.allSettled([first, second]);
    throw error;
  }
}

/** Builds the text of a frequent statement once for each dialect. */
export function cacheStatement(sql: (dialect: Dialect) => string): (dialect: Dialect) => string {
  const written = new WeakMap<Dialect, string>();
  return (dialect) => {
    let text = written.get(dialect);
    if (text === undefined) written.set(dialect, (text = sql(dialect)));
    return text;
  };
}

export function defineRows(statement: RowsStatement): RowsStatement {
  return statement;
}
