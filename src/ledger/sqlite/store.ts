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
  /** The writing connection, which backups need. */
  readonly writer: DatabaseSync;
  /** Runs work while no transaction is open. Writes wait until it resolves. */
  readonly between: (work: () => Promise<void>) => Promise<void>;
}

interface QueuedWrite {
  readonly names: readonly CommitName[];
  readonly work: (tx: Transaction) => Promise<unknown>;
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: unknown) => void;
}

/** The resources of a group of writes. */
interface WriteResources {
  readonly db: DatabaseSync;
  readonly boundaries: BoundaryStatements;
  readonly tx: Transaction;
  readonly count: Count;
  readonly sync: JournalSync;
}

/**
 * Opens a file with one connection for writes, one for reads by key, and reader threads for other reads.
 * The writes of one turn of the event loop share one transaction, each in a savepoint of its own. A
 * write resolves when it is on the disk.
 */
export function openSqlite(path: string, log?: Pick<Log, 'warn'>, disk?: DiskSync): SqliteStore {
  const writer = openWriter(path);
  const sync = makeJournalSync(path, writer, disk);
  const resources = makeWriteResources(writer, sync);
  const reads = makeReads(path, sync);
  let waiting: QueuedWrite[] = [];
  const pauses: (() => Promise<void>)[] = [];
  let flushing: Promise<void> | undefined;
  let closed = false;

  const flush = async (): Promise<void> => {
    while (waiting.length > 0 || pauses.length > 0) {
      // The next group waits for the next turn. Otherwise callers that write again at once would keep
      // timers and sockets from ever running.
      await new Promise<void>((turn) => setImmediate(turn));
      for (const pause of pauses.splice(0)) await pause();
      const writes = waiting;
      waiting = [];
      if (writes.length === 0) continue;
      const left = await runGroup(resources, writes);
      waiting = [...left, ...waiting];
      checkpoints.afterCommit();
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
      // The writer is closed last: the last connection moves the journal into the file.
      await Promise.all([flushing, checkpoints.end(), reads.close()]);
      sync.close();
      writer.close();
    },
  };
}

/** The prepared statements around transactions and savepoints. Preparing them each time doubles their cost. */
type BoundaryStatements = Readonly<Record<'begin' | 'commit' | 'save' | 'release', StatementSync>>;

function makeWriteResources(db: DatabaseSync, sync: JournalSync): WriteResources {
  const boundaries = {
    begin: db.prepare('begin immediate'),
    commit: db.prepare('commit'),
    save: db.prepare('savepoint unit'),
    release: db.prepare('release unit'),
  };
  return { db, boundaries, tx: makeSession(db), count: makeCount(), sync };
}

/** Counts a write, and returns a function that checks whether it is still the latest one. */
type Count = () => () => boolean;

function makeCount(): Count {
  let writes = 0;
  return () => {
    const own = (writes += 1);
    return () => own === writes;
  };
}

/** Makes the two ways to read: by key on a connection of this thread, anything else in reader threads. */
function makeReads(
  path: string,
  sync: Pick<JournalSync, 'inProgress'>,
): Pick<Store, 'find' | 'read' | 'close'> {
  let opened: { readonly db: DatabaseSync; readonly session: Session } | undefined;
  let closed = false;
  // Opened at the first read: before the first migration there is nothing to read.
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
      await sync.inProgress;
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

/** Makes a store over one connection without transactions: for reading a file, or for an empty ledger in memory. */
export function makeConnectionStore(db: DatabaseSync, clock?: () => Timestamp): Store {
  const session = makeSession(db, clock);
  const withLedgerErrors = async <T>(work: () => Promise<T>): Promise<T> => {
    try {
      return await work();
    } catch (error) {
      throw toLedgerError(error);
    }
  };
  return {
    dialect: sqliteDialect,
    find: (work) => withLedgerErrors(() => work(session)),
    read: (work) => withLedgerErrors(() => work(session)),
    write: (_, work) => withLedgerErrors(() => work(session)),
    close: () => Promise.resolve(db.close()),
  };
}

type WriteResult =
  | { readonly ok: true; readonly value: unknown }
  | { readonly ok: false; readonly error: unknown };

/**
 * Runs the writes of one turn in one transaction. If the database aborts it, they run one by one. Returns
 * the writes that were not started because the turn was long enough.
 */
async function runGroup(
  resources: WriteResources,
  writes: readonly QueuedWrite[],
): Promise<readonly QueuedWrite[]> {
  const { db, boundaries, sync } = resources;
  try {
    sync.recover();
    boundaries.begin.run();
  } catch (error) {
    // Another process has locked the file. Each write alone would only wait for it once more.
    for (const write of writes) write.reject(toLedgerError(error));
    return [];
  }
  let results: WriteResult[];
  try {
    results = await runTogether(resources, writes);
  } catch (error) {
    rollback(db);
    if (writes.length === 1) writes.forEach((write) => write.reject(toLedgerError(error)));
    else for (const write of writes) await runGroup(resources, [write]);
    return [];
  }
  try {
    await sync.syncCommit();
  } catch (error) {
    // The commit may still be lost. For the caller that is a commit whose result is unknown.
    results = results.map((result) => (result.ok ? { ok: false, error } : result));
  }
  writes.slice(0, results.length).forEach((write, index) => settle(write, results[index]));
  return writes.slice(results.length);
}

async function runTogether(
  { db, boundaries, tx, count }: WriteResources,
  writes: readonly QueuedWrite[],
): Promise<WriteResult[]> {
  const results: WriteResult[] = [];
  const since = performance.now();
  for (const write of writes) {
    // Each write is short, but many of them would block other work.
    if (results.length > 0 && performance.now() - since > limits.sliceMs) break;
    if (writes.length > 1) boundaries.save.run();
    try {
      const value = await write.work({ ...tx, isLatest: count() });
      // Released before the result is added: a write whose release fails has only an error.
      if (writes.length > 1) boundaries.release.run();
      results.push({ ok: true, value });
    } catch (error) {
      // A full disk or an I/O error may have ended the whole transaction, not only this write.
      if (writes.length === 1 || !db.isTransaction) throw error;
      db.exec('rollback to unit');
      boundaries.release.run();
      results.push({ ok: false, error: toLedgerError(error) });
    }
  }
  writes.forEach(
    (write, index) => results[index]?.ok === true && probeCommit('before', write.names),
  );
  boundaries.commit.run();
  return results;
}

function settle({ names, resolve, reject }: QueuedWrite, result: WriteResult | undefined): void {
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
    // Some errors roll back by themselves, so nothing is left to undo.
  }
}

function closedError(): DuctileError {
  return new DuctileError('LEDGER_UNAVAILABLE', 'the ledger is closed');
}
