import { DuctileError } from '../../base/errors.ts';
import { limits } from '../../base/limits.ts';
import type { Row, Session, Value } from '../dialect.ts';
import {
  ReaderGone,
  startReaderThread,
  type ReaderThread,
  type ReadStatement,
} from './reader-thread.ts';
import { compileRun, toRuns } from '../batch-statement.ts';
import { readClock, sqliteDialect, withoutReplanning } from './session.ts';

interface WaitingRead {
  readonly start: (thread: ReaderThread) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Reads SQLite files in threads, so that no read holds up the service. Threads start when a read
 * needs one, end when they have been idle for a while, and are shared by all files: 256 ledgers don't
 * mean 256 threads. Files take turns, so that the reads of one tenant can't hold up those of others.
 *
 * SQLite can't be interrupted from outside its thread. When a read takes too long, its caller gets an
 * error, and its thread leaves the pool and ends as soon as SQLite returns.
 */
export class SqliteReaders {
  readonly #start: () => Promise<ReaderThread>;
  readonly #readMs: number;
  readonly #alive = new Set<ReaderThread>();
  readonly #idle: ReaderThread[] = [];
  /** The reads of each file that wait for a thread. The first file is the next one to be served. */
  readonly #waiting = new Map<string, WaitingRead[]>();
  readonly #reads = new Map<string, Set<Promise<unknown>>>();
  #waitingCount = 0;
  #starting = 0;
  #idleTimer: NodeJS.Timeout | undefined;

  constructor(
    start: () => Promise<ReaderThread> = startReaderThread,
    readMs: number = limits.readMs,
  ) {
    this.#start = start;
    this.#readMs = readMs;
  }

  /** Gives the work a session. All of its statements see the same commits. */
  async read<T>(path: string, work: (session: Session) => Promise<T>): Promise<T> {
    const own = this.#readTwice(path, work);
    const reads = this.#reads.get(path) ?? new Set();
    this.#reads.set(path, reads.add(own));
    try {
      return await own;
    } finally {
      reads.delete(own);
      if (reads.size === 0) this.#reads.delete(path);
    }
  }

  /** Waits for the reads of a file and closes its connections. */
  async release(path: string): Promise<void> {
    await Promise.allSettled(this.#reads.get(path) ?? new Set<Promise<unknown>>());
    // A thread that ends meanwhile closes its files by itself.
    await Promise.allSettled(this.#usable().map((thread) => thread.close(path)));
  }

  /** Repeats a read whose thread died: a read changes nothing. */
  async #readTwice<T>(path: string, work: (session: Session) => Promise<T>): Promise<T> {
    try {
      return await this.#readOnce(path, work);
    } catch (error) {
      if (error instanceof ReaderGone) return await this.#readOnce(path, work);
      throw error;
    }
  }

  async #readOnce<T>(path: string, work: (session: Session) => Promise<T>): Promise<T> {
    const thread = await this.#acquire(path);
    const deadline = setTimeout(() => this.#abandon(thread), this.#readMs).unref();
    try {
      return await work(makeReadSession((statements) => thread.run(path, statements)));
    } finally {
      clearTimeout(deadline);
      if (thread.isUsable) {
        thread.endRead(path);
        this.#release(thread);
      }
    }
  }

  #abandon(thread: ReaderThread): void {
    const message = `a read of the database took over ${this.#readMs / 1000} s`;
    thread.terminate(new DuctileError('DEADLINE_EXCEEDED', message));
    this.#serve();
  }

  #acquire(path: string): Promise<ReaderThread> {
    return new Promise((resolve, reject) => {
      if (this.#waitingCount >= limits.readsWaitingMax) {
        reject(new DuctileError('BUSY', 'too many reads of the database are waiting'));
        return;
      }
      const reads = this.#waiting.get(path) ?? [];
      reads.push({ start: resolve, reject });
      this.#waiting.set(path, reads);
      this.#waitingCount += 1;
      this.#serve();
    });
  }

  #release(thread: ReaderThread): void {
    this.#idle.push(thread);
    clearTimeout(this.#idleTimer);
    this.#idleTimer = setTimeout(() => {
      for (const unused of this.#idle.splice(0)) unused.terminate(undefined);
    }, limits.readerIdleMs).unref();
    this.#serve();
  }

  #serve(): void {
    while (this.#waitingCount > 0) {
      const thread = this.#idle.pop();
      if (thread === undefined) {
        if (this.#canStart()) void this.#startAnother();
        return;
      }
      if (thread.isUsable) this.#next()?.start(thread);
    }
  }

  #next(): WaitingRead | undefined {
    const [first] = this.#waiting;
    if (first === undefined) return undefined;
    const [path, reads] = first;
    const found = reads.shift();
    this.#waiting.delete(path);
    if (reads.length > 0) this.#waiting.set(path, reads);
    this.#waitingCount -= 1;
    return found;
  }

  #canStart(): boolean {
    const usable = this.#usable().length;
    return (
      this.#starting < this.#waitingCount &&
      usable + this.#starting < limits.readerThreadsMax &&
      this.#alive.size - usable < limits.readerThreadsRetiredMax
    );
  }

  async #startAnother(): Promise<void> {
    this.#starting += 1;
    try {
      const thread = await this.#start();
      this.#alive.add(thread);
      void thread.gone.then(() => {
        this.#alive.delete(thread);
        this.#serve();
      });
      this.#idle.push(thread);
    } catch (error) {
      this.#next()?.reject(error);
    } finally {
      this.#starting -= 1;
    }
    this.#serve();
  }

  #usable(): ReaderThread[] {
    return [...this.#alive].filter((thread) => thread.isUsable);
  }
}

/** The reader threads of this process. */
export const sqliteReaders = new SqliteReaders();

function makeReadSession(run: (statements: readonly ReadStatement[]) => Promise<Row[]>): Session {
  return {
    dialect: sqliteDialect,
    run: (sql, values = []) => run([[withoutReplanning(sql), values]]),
    each(definition, rows, common: readonly Value[] = []) {
      if (rows.length === 0) return Promise.resolve([]);
      const now = readClock();
      const statements = toRuns(definition, rows).map((statementRun): ReadStatement => {
        const { text, bind } = compileRun(sqliteDialect, definition, statementRun);
        return [withoutReplanning(text), bind(statementRun, common, now)];
      });
      return run(statements);
    },
  };
}
