/**
 * The only database of a world: SQLite in memory under the ledger's own verbs. Transactions of all
 * hosts run one after the other; between, before and after them, connections, disks and hosts can fail.
 */
import type { DatabaseSync } from 'node:sqlite';
import { DuctileError } from '../../../src/base/errors.ts';
import { checkLedger } from '../../../src/ledger/check.ts';
import {
  retryWithSavepoints,
  type Session,
  type Store,
  type Transaction,
} from '../../../src/ledger/dialect.ts';
import type { Ledger } from '../../../src/ledger/ledger.ts';
import type { Notifier } from '../../../src/ledger/notifier.ts';
import { engineRules } from '../../../src/ledger/rules.ts';
import { makeLedger } from '../../../src/ledger/open.ts';
import type { Random } from '../../support/crash/random.ts';
import type { Change, Changes } from './rows.ts';
import { asWritten, type Rewrite } from './rewrite.ts';
import type { Tables } from './tables.ts';
import type { Actor, VirtualTime } from './time.ts';

/** The rates of faults, as shares of all verbs. */
export interface DatabaseFaults {
  /** Refused before anything was done. */
  readonly away: number;
  /** A statement fails, and with it its transaction. */
  readonly broken: number;
  /** The result of a commit is lost: it happened, or it did not. */
  readonly lost: number;
  readonly undone: number;
  /** The host dies before its commit, or before it learns of it. */
  readonly killed: number;
  /** Each statement is slow. */
  readonly slow: number;
  /** The longest way to the database and back. */
  readonly wayMs: number;
}

export const noFaults: DatabaseFaults = {
  away: 0,
  broken: 0,
  lost: 0,
  undone: 0,
  killed: 0,
  slow: 0,
  wayMs: 2,
};

export interface DatabaseOptions {
  readonly tables: Tables;
  readonly time: VirtualTime;
  readonly random: Random;
  readonly kind: Ledger['kind'];
  readonly rewrite: Rewrite | undefined;
  /** A mistake: a failed transaction stays, or an uncommitted one counts. */
  readonly transactions: 'kept' | 'believed' | undefined;
  readonly onCommit: (changes: readonly Change[], by: Actor, askedAt: number) => void;
  readonly onKill: (actor: Actor) => void;
}

/** The longest time that a host frozen in a transaction blocks the others. */
const IDLE_MS = 5000;
const UNKNOWN_MAX = 20;
const RETRY_MS = 100;

interface Hold {
  readonly actor: Actor;
  isLost: boolean;
}

/** A commit whose result was lost. */
class Unknown extends Error {}

export class Database {
  faults: DatabaseFaults = noFaults;
  /** Hosts that cannot reach it, or all. */
  readonly cutOff = new Set<Actor>();
  isAway = false;
  /** The offset of the database's clock. */
  clockMs = 0;
  readonly #options: DatabaseOptions;
  readonly #db: DatabaseSync;
  readonly #plain: Store;
  readonly #rewrite: ReturnType<typeof asWritten>;
  readonly #changes: Changes;
  #hold: Hold | undefined;
  readonly #line: { readonly hold: Hold; readonly go: () => void }[] = [];

  constructor(options: DatabaseOptions) {
    this.#options = options;
    this.#db = options.tables.db;
    this.#plain = options.tables.store;
    this.#changes = options.tables.renew(() => this.now);
    this.#rewrite = asWritten(options.rewrite);
  }

  get now(): number {
    return this.#options.time.now + this.clockMs;
  }

  /** The ledger for a host. */
  connect(actor: Actor, notifier: Notifier): Ledger {
    const store: Store = {
      dialect: this.#plain.dialect,
      find: (work) => this.#read(actor, work),
      read: (work) => this.#read(actor, work),
      write: (_names, work) =>
        retryWithSavepoints((savepoints) => this.#write(actor, work, savepoints)),
      close: () => Promise.resolve(),
    };
    const check = (): Promise<string[]> => this.check();
    const backup = (): Promise<void> => Promise.resolve();
    const ledger = makeLedger(store, engineRules, notifier, { backup, check, quickCheck: check });
    return { ...ledger, kind: this.#options.kind };
  }

  /** The violations of the ledger's own invariants. */
  check(): Promise<string[]> {
    return this.#plain.read((session) => checkLedger(session));
  }

  query(sql: string): Promise<unknown[]> {
    return this.#plain.read((session) => session.run(sql));
  }

  /** The client is gone: its open transaction is rolled back, and others continue. */
  abandon(actor: Actor): void {
    const hold = this.#hold;
    if (hold?.actor !== actor) return;
    if (this.#db.isTransaction) this.#undo();
    this.#release(hold);
  }

  /** The client stops responding in the middle of a transaction. */
  froze(actor: Actor): void {
    const hold = this.#hold;
    if (hold?.actor === actor) this.#watchFrozen(hold);
  }

  async #read<T>(actor: Actor, work: (session: Session) => Promise<T>): Promise<T> {
    await this.#reach(actor);
    const hold = await this.#lock(actor);
    try {
      return await this.#plain.read((session) =>
        work({ ...session, ...this.#dress(session, hold) }),
      );
    } finally {
      this.#release(hold);
    }
  }

  /** Repeats an unknown commit and says so, as a host does. */
  async #write<T>(
    actor: Actor,
    work: (tx: Transaction) => Promise<T>,
    savepoints: Transaction['savepoints'],
  ): Promise<T> {
    const askedAt = this.now;
    let isRetry = false;
    for (let unknowns = 0; ;) {
      try {
        await this.#reach(actor);
        return await this.#transact(actor, askedAt, (tx) => work({ ...tx, isRetry, savepoints }));
      } catch (error) {
        const isLost = error instanceof Unknown || (isRetry && isUnavailable(error));
        if (!isLost) throw error;
        isRetry = true;
        unknowns += 1;
        if (unknowns > UNKNOWN_MAX) throw new DuctileError('LEDGER_UNCERTAIN', 'no answer came');
        await this.#options.time.wait(RETRY_MS * unknowns);
      }
    }
  }

  async #transact<T>(
    actor: Actor,
    askedAt: number,
    work: (tx: Transaction) => Promise<T>,
  ): Promise<T> {
    const hold = await this.#lock(actor);
    let value: T;
    try {
      if (hold.isLost) throw unavailable('the transaction was ended');
      this.#db.exec('begin');
      value = await this.#plain.write(['other'], (tx) => work({ ...tx, ...this.#dress(tx, hold) }));
      if (hold.isLost) throw unavailable('the transaction was ended');
      this.#mayBreak();
      const isUndone = this.#isDrawn('undone');
      if (isUndone) this.#undo();
      else this.#commit(actor, askedAt);
      const isBelieved = isUndone && this.#options.transactions === 'believed';
      if (!isBelieved && (isUndone || this.#isDrawn('lost'))) throw new Unknown('no answer came');
    } catch (error) {
      if (!hold.isLost && this.#db.isTransaction) {
        if (this.#options.transactions === 'kept') this.#commit(actor, askedAt);
        else this.#undo();
      }
      throw error;
    } finally {
      this.#release(hold);
    }
    await this.#travel();
    return value;
  }

  #commit(actor: Actor, askedAt: number): void {
    const isKilled = this.#isDrawn('killed');
    if (isKilled && this.#options.random() < 0.5) {
      this.#undo();
    } else {
      this.#db.exec('commit');
      this.#options.onCommit(this.#changes.take(), actor, askedAt);
    }
    if (isKilled) this.#options.onKill(actor);
  }

  #undo(): void {
    this.#db.exec('rollback');
    this.#changes.take();
  }

  #watchFrozen(hold: Hold): void {
    const { time } = this.#options;
    time.after(IDLE_MS, undefined, () => {
      if (this.#hold === hold && hold.actor.frozenUntil > time.now) this.abandon(hold.actor);
    });
  }

  /** Processes one at a time, in the order of arrival. */
  #lock(actor: Actor): Promise<Hold> {
    const hold = { actor, isLost: false };
    if (this.#hold === undefined) {
      this.#hold = hold;
      return Promise.resolve(hold);
    }
    return new Promise((resolve) => this.#line.push({ hold, go: () => resolve(hold) }));
  }

  #release(hold: Hold): void {
    // Statements issued beside a failed one come too late.
    hold.isLost = true;
    if (this.#hold !== hold) return;
    this.#hold = undefined;
    for (let next = this.#line.shift(); next !== undefined; next = this.#line.shift()) {
      const { actor } = next.hold;
      if (actor.isDead) continue;
      this.#hold = next.hold;
      // A frozen client can get the lock, too.
      if (actor.frozenUntil > this.#options.time.now) this.#watchFrozen(next.hold);
      this.#options.time.after(0, actor, next.go);
      return;
    }
  }

  #dress(session: Session | Transaction, hold: Hold): Pick<Transaction, 'run' | 'each' | 'send'> {
    const isSlow = this.#isDrawn('slow');
    const marks: number[] = [];
    const ask = <T>(sql: string, statement: () => Promise<T>): Promise<T> => {
      try {
        if (hold.isLost) throw unavailable('the transaction was ended');
        this.#mayBreak();
        if (sql.startsWith('savepoint')) marks.push(this.#changes.count);
        if (sql.startsWith('rollback to')) this.#changes.undo(marks.at(-1) ?? 0);
        if (sql.startsWith('release')) marks.pop();
        return statement();
      } catch (error) {
        return Promise.reject(error);
      }
    };
    const take = <T>(sql: string, statement: () => Promise<T>): Promise<T> =>
      isSlow ? this.#travel().then(() => ask(sql, statement)) : ask(sql, statement);
    const { text, rows } = this.#rewrite;
    return {
      run: (sql, values) => take(sql, () => session.run(text(sql), values)),
      each: (statement, ...given) => take('', () => session.each(rows(statement), ...given)),
      send: (statement, ...given) => {
        if (hold.isLost || !('send' in session)) throw unavailable('the transaction was ended');
        session.send(rows(statement), ...given);
      },
    };
  }

  async #reach(actor: Actor): Promise<void> {
    await this.#travel();
    if (this.isAway || this.cutOff.has(actor) || this.#isDrawn('away')) {
      throw unavailable('the database cannot be reached');
    }
  }

  #travel(): Promise<void> {
    return this.#options.time.wait(Math.floor(this.#options.random() * this.faults.wayMs));
  }

  #mayBreak(): void {
    if (this.#isDrawn('broken')) {
      throw Object.assign(new Error('disk I/O error'), { code: 'ERR_SQLITE_ERROR', errcode: 10 });
    }
  }

  #isDrawn(what: Exclude<keyof DatabaseFaults, 'wayMs'>): boolean {
    return this.faults[what] > 0 && this.#options.random() < this.faults[what];
  }
}

function unavailable(message: string): DuctileError {
  return new DuctileError('LEDGER_UNAVAILABLE', message);
}

function isUnavailable(error: unknown): boolean {
  return error instanceof DuctileError && error.code === 'LEDGER_UNAVAILABLE';
}
