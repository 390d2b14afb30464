import { DuctileError, messageOf } from '../base/errors.ts';
import { limits } from '../base/limits.ts';
import type { ListSignalDirectives } from './directive-work.ts';
import type { JobEnd } from '../job/types.ts';
import type { FollowHalt, OpenSignal } from '../pipeline/run/types.ts';

/** What differs between the two databases. Nothing outside this folder knows which one it is. */
export interface Dialect {
  readonly name: 'sqlite' | 'postgres';
  /** The full name of a table or the like: SQL names its schema, because a session's search path is never set. */
  table(name: TableName | 'run_transitions' | ReplacedIndex): string;
  /** Types that the migrations use. */
  readonly types: {
    readonly int: string;
    readonly text: string;
    readonly identity: string;
    /** The number of the transaction that wrote the row, where several may write at once. */
    readonly transaction: string;
    /** How a column is kept that follows from others. */
    readonly derived: string;
  };
  /** The database's clock as our timestamp text, now and shifted by an expression in milliseconds. */
  readonly now: string;
  nowPlus(msExpression: string): string;
  /** When the statement began: the same for all of its rows and columns. */
  readonly statementNow: string;
  /** Whether it is told the time with the rows that it is given, because to ask it costs too much. */
  readonly takesTime: boolean;
  readonly forUpdate: string;
  readonly forShare: string;
  readonly skipLocked: string;
  /** Serialises claims of one ledger over all hosts; undefined where there is one writer anyway. */
  readonly lockClaims: string | undefined;
  /** The tables that can pause this ledger: its own `ledger_meta`, and the root's in PostgreSQL. */
  readonly pausedBy: readonly string[];
  /** Waits for the claims in progress in these schemas; undefined where there is one writer. */
  readonly awaitClaimsIn: ((schemas: readonly string[]) => string) | undefined;
  /** Serialises what counts the queue before it adds to it; undefined where there is one writer. */
  readonly lockQueue: string | undefined;
  /** The same for the beginning of runs that wait for others of their key. */
  readonly lockRuns: string | undefined;
  /** Keeps claims off, and nobody else who does the same; undefined where there is one writer. */
  readonly lockClaimsShared: string | undefined;
  /**
   * The transaction below which all are over, where commits come in another order than numbers;
   * undefined where there is one writer.
   */
  readonly settledBelow: string | undefined;
  /** The first transaction that has not begun; undefined where there is one writer. */
  readonly nextTransaction: string | undefined;
  /** The highest number that a job was given, committed or not; undefined where there is one writer. */
  readonly lastJobSeq: string | undefined;
  /** The number of a transaction that begins with this; undefined where there is one writer. */
  readonly ownTransaction: string | undefined;
  /** What `select` gives the bytes that the ledger takes. */
  readonly size: string;
  /** Whether it failed only because of another transaction, so that trying again helps. */
  isConflict(error: unknown): boolean;
  /** The nth parameter, and "is one of the values in the nth parameter", which is a list. */
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
export type ReplacedIndex =
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

/** A transaction under way, or a plain connection for reading. */
export interface Session {
  readonly dialect: Dialect;
  /** Runs one statement with `?` placeholders. */
  run(sql: string, values?: readonly Value[]): Promise<Row[]>;
  /** Runs one statement over many rows and gives all that it returns. */
  each(statement: RowsStatement, rows: readonly Row[], common?: readonly Value[]): Promise<Row[]>;
}

/** A job or a run that is over, and which listener asked to be told of it. */
export interface EndEvent {
  readonly id: string;
  readonly awaitedBy: string | null;
}

/** The ends of a transaction under way. */
export interface EndCollector {
  /** The name of the ledger's own listener. */
  readonly listener: string;
  /** `how`: where this very transaction closes the job. */
  note(end: EndEvent, how?: JobEnd): void;
}

/** Inside a writing transaction. `again`: an earlier try may have been committed unnoticed. */
export interface Transaction extends Session {
  readonly isRetry: boolean;
  readonly savepoints: SavepointState;
  /** Runs a statement over rows that nobody waits for; when it fails, so does the transaction. */
  send(statement: RowsStatement, rows: readonly Row[], common?: readonly Value[]): void;
  /** Opens what a signal does not show; nothing is opened, where nobody said how. */
  readonly openSignal?: OpenSignal;
  /** What follows when a run halts in it; nothing, where nobody said. */
  readonly followHalt?: FollowHalt | undefined;
  /** What follows when a run begins to wait for a person. */
  readonly followApproval?: FollowHalt | undefined;
  /** The directives that a signal asks for in the transaction that records it. */
  readonly listSignalDirectives?: ListSignalDirectives;
  /** Where ends are noted that somebody may wait for. */
  readonly ends?: EndCollector;
  /** Whether nothing was written after it; known only where one process writes, one after the other. */
  readonly isLatest?: () => boolean;
  /** Nothing will be asked after what is asked already: the commit may travel with it. */
  finish(): void;
}

/**
 * Parts of a transaction that may fail without the rest. Most never do, and guarding them costs
 * SQLite more than what they write: so a first try does not, and when it fails, a second one does.
 */
export interface SavepointState {
  readonly isEnabled: boolean;
  isUsed: boolean;
}

export async function retryWithSavepoints<T>(
  write: (savepoints: SavepointState) => Promise<T>,
): Promise<T> {
  const savepoints = { isEnabled: false, isUsed: false };
  try {
    return await write(savepoints);
  } catch (error) {
    // What the database as a whole cannot do now, it cannot do in parts either.
    if (!savepoints.isUsed || error instanceof DuctileError) throw error;
    return await write({ isEnabled: true, isUsed: true });
  }
}

export type SavepointResult<T> =
  | { readonly isDone: true; readonly value: T }
  | { readonly isDone: false; readonly error: string };

/**
 * Does a part of a transaction that may fail without the rest: then nothing of it is left, and the
 * answer says why. Only a second try is guarded so; in the first the failure is the whole's. What it
 * sends is waited for, because nobody else may hear of its failure. Where the whole transaction is
 * lost, going back fails too, and so does the transaction; and where it only met another one in a
 * conflict, it is tried again as a whole.
 */
export async function runInSavepoint<T>(
  tx: Transaction,
  work: (inner: Transaction) => Promise<T>,
): Promise<SavepointResult<T>> {
  tx.savepoints.isUsed = true;
  if (!tx.savepoints.isEnabled) return { isDone: true, value: await work(tx) };
  const asked: Promise<unknown>[] = [];
  const attend = <A>(answer: Promise<A>): void => {
    answer.catch(() => undefined);
    asked.push(answer);
  };
  attend(tx.run('savepoint part'));
  try {
    const value = await work({
      ...tx,
      send: (...rows) => attend(tx.each(...rows)),
      finish: () => undefined,
    });
    await Promise.all(asked);
    attend(tx.run('release savepoint part'));
    return { isDone: true, value };
  } catch (thrown) {
    // What was only sent may have failed first, and what was asked for after it because of that.
    const causes = [...(await Promise.allSettled(asked)).flatMap(reasonOf), thrown];
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
  /** Reads anything else; on SQLite in a reader thread. All of its statements see the same commits there. */
  readonly read: <T>(work: (session: Session) => Promise<T>) => Promise<T>;
  readonly write: <T>(
    names: readonly CommitName[],
    work: (tx: Transaction) => Promise<T>,
  ) => Promise<T>;
  close(): Promise<void>;
}

/** The verbs whose commits have fault points on both sides. */
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
 * One statement applied to many rows: on SQLite a prepared statement run once for each, or for each
 * run of rows that are alike; on PostgreSQL, where they are not all alike, a set that is unnested from
 * arrays. It is written once, with `r('column')` wherever a value of the row is meant.
 */
export interface RowsStatement {
  readonly columns: Readonly<Record<string, 'text' | 'int'>>;
  /** Neighbours that differ in this column only are run as one. */
  readonly key?: string;
  /** The column by which it is told which rows were written; `returning` costs SQLite half an insert. */
  readonly returns?: string;
  readonly sql: (r: RowsWriter, dialect: Dialect) => string;
}

export interface RowsWriter {
  /** The row's value of a column. */
  (column: string): string;
  /** Compares what stands before it with the row's key. */
  isKey(): string;
  /** The nth value that all rows share. */
  common(index: number, type?: 'text' | 'int'): string;
  /** What is inserted for each row; to select it would cost SQLite a copy in between. */
  values(list: string): string;
  /** `from …` that brings the rows, to stand after `set …` or `select …`; empty for a run. */
  readonly from: string;
  /** A sub-select evaluated once for each row, named q. */
  lateral(select: string): string;
}

/**
 * Waits for statements that were asked for at once, so that they travel together. None of them is
 * under way any more when one of them has failed.
 */
export async function awaitBoth<A, B>(one: Promise<A>, two: Promise<B>): Promise<[A, B]> {
  try {
    return await Promise.all([one, two]);
  } catch (error) {
    await Promise.allSettled([one, two]);
    throw error;
  }
}

/** A statement that is asked often: its text is put together once. */
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
