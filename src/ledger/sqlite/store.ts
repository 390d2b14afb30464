import type { DatabaseSync, StatementSync } from 'node:sqlite';
import type { Timestamp } from '../../base/clock.ts';
import { DuctileError } from '../../base/errors.ts';
import { limits } from '../../base/limits.ts';
import type { Log } from '../../base/log.ts';
import { probeCommit } from '../../base/probe.ts';
import {
  retryWithSavepoints,
  type Session,
  type Store,
  type Transaction,
  type CommitName,
} from '../dialect.ts';
import { makeCheckpoints } from './checkpoint.ts';
import { openReader, openWriter, toLedgerError } from './file.ts';
import { sqliteReaders } from './readers.ts';
import { makeSession, sqliteDialect } from './session.ts';
import { makeJournalSync, type DiskSync, type JournalSync } from './sync.ts';

export interface SqliteStore extends Store {
  readonly path: string;
  /** The writing connection, for what only it can do: backup and checks. */
  readonly writer: DatabaseSync;
  /** Runs something while no transaction is open; nothing is written until it resolves. */
  readonly between: (work: () => Promise<void>) => Promise<void>;
}

interface Unit {
  readonly names: readonly CommitName[];
  readonly work: (tx: Transaction) => Promise<unknown>;
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: unknown) => void;
}

/** What a group of writes needs. */
interface Writing {
  readonly db: DatabaseSync;
  readonly bounds: Bounds;
  readonly tx: Transaction;
  readonly count: Count;
  readonly syncing: JournalSync;
}

/**
 * A file with one connection for writes, one for reads by key, and reader threads for other reads.
 * The writes of one turn of the event loop share one transaction, each in a savepoint of its own; a
 * write resolves when it is on the disk.
 */
export function openSqlite(path: string, log?: Pick<Log, 'warn'>, disk?: DiskSync): SqliteStore {
  const writer = openWriter(path);
  const syncing = makeJournalSync(path, writer, disk);
  const writing = makeWriting(writer, syncing);
  const reads = makeReads(path, syncing);
  let waiting: Unit[] = [];
  const pauses: (() => Promise<void>)[] = [];
  let flushing: Promise<void> | undefined;
  let closed = false;

  const flush = async (): Promise<void> => {
    while (waiting.length > 0 || pauses.length > 0) {
      // The next group waits for the next turn: whoever is answered and at once writes again would
      // otherwise keep timers and sockets from ever having theirs.
      await new Promise<void>((turn) => setImmediate(turn));
      for (const pause of pauses.splice(0)) await pause();
      const units = waiting;
      waiting = [];
      if (units.length === 0) continue;
      const left = await runGroup(writing, units);
      waiting = [...left, ...waiting];
      checkpoints.committed();
    }
    flushing = undefined;
  };
  const between: SqliteStore['between'] = (work) => {
    if (closed) return Promise.reject(closedError());
    return new Promise((resolve, reject) => {
      pauses.push(() => work().then(resolve, reject));
      flushing ??= flush();
    });
  };
  const warn = (message: string, error: unknown): void => log?.warn(message, { path, error });
  const checkpoints = makeCheckpoints(path, writer, between, warn);

  return {
    dialect: sqliteDialect,
    path,
    writer,
    find: reads.find,
    read: reads.read,
    write<T>(names: readonly CommitName[], work: (tx: Transaction) => Promise<T>) {
      if (closed) return Promise.reject(closedError());
      return retryWithSavepoints(
        (savepoints) =>
          new Promise<T>((resolve, reject) => {
            waiting.push({
              names,
              work: (tx) => work({ ...tx, savepoints }),
              resolve: resolve as (value: unknown) => void,
              reject,
            });
            flushing ??= flush();
          }),
      );
    },
    between,
    async close() {
      closed = true;
      // The last one that has the file open is to be the writer: it leaves one clean file.
      await Promise.all([flushing, checkpoints.end(), reads.close()]);
      syncing.close();
      writer.close();
    },
  };
}

/** What begins and ends transactions and their parts; to compile them each time costs as much again. */
type Bounds = Readonly<Record<'begin' | 'commit' | 'save' | 'release', StatementSync>>;

function makeWriting(db: DatabaseSync, syncing: JournalSync): Writing {
  const bounds = {
    begin: db.prepare('begin immediate'),
    commit: db.prepare('commit'),
    save: db.prepare('savepoint unit'),
    release: db.prepare('release unit'),
  };
  return { db, bounds, tx: makeSession(db), count: makeCount(), syncing };
}

/** Counts writes in the order in which they are made; each can tell whether it is still the latest. */
type Count = () => () => boolean;

function makeCount(): Count {
  let writes = 0;
  return () => {
    const own = (writes += 1);
    return () => own === writes;
  };
}

/** The two ways to read: by key on a connection of this thread, anything else in reader threads. */
function makeReads(
  path: string,
  syncing: Pick<JournalSync, 'underWay'>,
): Pick<Store, 'find' | 'read' | 'close'> {
  let opened: { readonly db: DatabaseSync; readonly session: Session } | undefined;
  let closed = false;
  // Opened late: before the first migration there is nothing to read.
  const open = (): NonNullable<typeof opened> => {
    const db = openReader(path);
    return { db, session: makeSession(db) };
  };
  const readDurably = async <T>(read: () => Promise<T>): Promise<T> => {
    if (closed) throw closedError();
    try {
      const found = await read();
      // Readers see a commit before it is synced, and a power failure could still undo it. Every
      // commit that the read saw is synced when the sync in progress is over.
      await syncing.underWay;
      return found;
    } catch (error) {
      throw toLedgerError(error);
    }
  };
  return {
    find: (work) => readDurably(() => work((opened ??= open()).session)),
    read: (work) => readDurably(() => sqliteReaders.read(path, work)),
    async close() {
      closed = true;
      await sqliteReaders.release(path);
      opened?.db.close();
    },
  };
}

/** One connection and no transactions: to look at a file, or to have an empty ledger in memory. */
export function makeConnectionStore(db: DatabaseSync, clock?: () => Timestamp): Store {
  const session = makeSession(db, clock);
  const attend = async <T>(work: () => Promise<T>): Promise<T> => {
    try {
      return await work();
    } catch (error) {
      throw toLedgerError(error);
    }
  };
  return {
    dialect: sqliteDialect,
    find: (work) => attend(() => work(session)),
    read: (work) => attend(() => work(session)),
    write: (_, work) => attend(() => work(session)),
    close: () => Promise.resolve(db.close()),
  };
}

type Result =
  | { readonly ok: true; readonly value: unknown }
  | { readonly ok: false; readonly error: unknown };

/**
 * Runs a turn's units in one transaction; if the database itself gives up on it, one by one. What it
 * returns was not begun: the turn was long enough.
 */
async function runGroup(writing: Writing, units: readonly Unit[]): Promise<readonly Unit[]> {
  const { db, bounds, syncing } = writing;
  try {
    syncing.mend();
    bounds.begin.run();
  } catch (error) {
    // Somebody else has the file: each alone would only wait for it once more.
    for (const unit of units) unit.reject(toLedgerError(error));
    return [];
  }
  let results: Result[];
  try {
    results = await runTogether(writing, units);
  } catch (error) {
    rollback(db);
    if (units.length === 1) units.forEach((unit) => unit.reject(toLedgerError(error)));
    else for (const unit of units) await runGroup(writing, [unit]);
    return [];
  }
  try {
    await syncing.committed();
  } catch (error) {
    // It is committed, and may be lost yet: to whoever asked, a commit whose answer never came.
    results = results.map((result) => (result.ok ? { ok: false, error } : result));
  }
  units.slice(0, results.length).forEach((unit, index) => answer(unit, results[index]));
  return units.slice(results.length);
}

async function runTogether(
  { db, bounds, tx, count }: Writing,
  units: readonly Unit[],
): Promise<Result[]> {
  const results: Result[] = [];
  const since = performance.now();
  for (const unit of units) {
    // Each is short; many of them would hold up whoever does not write.
    if (results.length > 0 && performance.now() - since > limits.sliceMs) break;
    if (units.length > 1) bounds.save.run();
    try {
      const value = await unit.work({ ...tx, isLatest: count() });
      // It is done only when this is, too: one unit has one result.
      if (units.length > 1) bounds.release.run();
      results.push({ ok: true, value });
    } catch (error) {
      // A full disk or an I/O error may have ended the whole transaction, not only this unit.
      if (units.length === 1 || !db.isTransaction) throw error;
      db.exec('rollback to unit');
      bounds.release.run();
      results.push({ ok: false, error: toLedgerError(error) });
    }
  }
  units.forEach((unit, index) => results[index]?.ok === true && probeCommit('before', unit.names));
  bounds.commit.run();
  return results;
}

function answer({ names, resolve, reject }: Unit, result: Result | undefined): void {
  if (result?.ok !== true) {
    reject(result?.error);
    return;
  }
  try {
    probeCommit('after', names);
    resolve(result.value);
  } catch (error) {
    reject(error);
  }
}

function rollback(db: DatabaseSync): void {
  if (!db.isTransaction) return;
  try {
    db.exec('rollback');
  } catch {
    // Some errors roll back by themselves; then there is nothing left to undo.
  }
}

function closedError(): DuctileError {
  return new DuctileError('LEDGER_UNAVAILABLE', 'the ledger is closed');
}
