/**
 * The tables that all worlds of a process use in turn: emptying them is faster than creating them
 * and compiling each statement again.
 */
import { DatabaseSync, type StatementSync } from 'node:sqlite';
import { tables, type Store } from '../../../src/ledger/dialect.ts';
import { migrate } from '../../../src/ledger/migrate.ts';
import { makeConnectionStore } from '../../../src/ledger/sqlite/store.ts';
import { Changes } from './rows.ts';

/** The real class: each world replaces the global one. */
const RealDate = Date;

export class Tables {
  readonly db = new DatabaseSync(':memory:');
  readonly store: Store = makeConnectionStore(this.db, () => this.#tell(undefined));
  readonly #clock = { now: () => 0, toldMs: NaN, told: '' };
  #changes: Changes | undefined;
  #empty: readonly StatementSync[] = [];

  static async open(): Promise<Tables> {
    const made = new Tables();
    const { db, store } = made;
    // The ledger asks the database for the time, with this.
    // Within a statement it is always the same, as that of the database is.
    db.function('strftime', { varargs: true, deterministic: true }, (_format, _now, shift) =>
      made.#tell(shift),
    );
    await store.write(['other'], migrate);
    made.#changes = new Changes(db);
    made.#empty = made.#toEmpty();
    return made;
  }

  /** The tables of a new ledger, under a virtual clock. */
  renew(now: () => number): Changes {
    if (this.#changes === undefined) throw new Error('the tables are not open');
    this.#clock.now = now;
    if (this.db.isTransaction) this.db.exec('rollback');
    for (const statement of this.#empty) statement.run();
    this.#changes.take();
    return this.#changes;
  }

  /** Statements that delete everything except the rows of the migrations. */
  #toEmpty(): StatementSync[] {
    const written = tables.filter(
      (table) => this.db.prepare(`select 1 from ${table} limit 1`).get() !== undefined,
    );
    for (const table of written) {
      this.db.exec(`create temp table first_${table} as select * from ${table}`);
    }
    const statements = [
      ...tables.map((table) => `delete from ${table}`),
      'delete from sqlite_sequence',
      ...written.map((table) => `insert into ${table} select * from temp.first_${table}`),
    ];
    return statements.map((statement) => this.db.prepare(statement));
  }

  /** Caches the text, because most calls are for the same time. */
  #tell(shift: unknown): string {
    const ms = this.#clock.now();
    if (typeof shift === 'string') {
      return new RealDate(Math.round(ms + Number.parseFloat(shift) * 1000)).toISOString();
    }
    if (ms !== this.#clock.toldMs) {
      this.#clock.toldMs = ms;
      this.#clock.told = new RealDate(ms).toISOString();
    }
    return this.#clock.told;
  }
}
