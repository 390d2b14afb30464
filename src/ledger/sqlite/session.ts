import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { toTimestamp, type Timestamp } from '../../base/clock.ts';
import type { Dialect, Row, RowsStatement, Transaction, Value } from '../dialect.ts';
import { compileRun, toRuns, toValue } from '../batch-statement.ts';

const NOW = `strftime('%Y-%m-%dT%H:%M:%fZ', 'now')`;

export const sqliteDialect: Dialect = {
  name: 'sqlite',
  table: (name) => name,
  types: {
    int: 'integer',
    text: 'text',
    identity: 'integer primary key autoincrement',
    transaction: 'integer not null default 0',
    derived: 'virtual',
  },
  now: NOW,
  statementNow: NOW,
  nowPlus: (ms) => `strftime('%Y-%m-%dT%H:%M:%fZ', 'now', (${ms} / 1000.0) || ' seconds')`,
  // SQLite's clock is the clock of this process, and formatting the time in SQL costs a sixth of an insert.
  takesTime: true,
  forUpdate: '',
  forShare: '',
  skipLocked: '',
  lockClaims: undefined,
  pausedBy: ['ledger_meta'],
  awaitClaimsIn: undefined,
  lockClaimsShared: undefined,
  lockQueue: undefined,
  lockRuns: undefined,
  settledBelow: undefined,
  nextTransaction: undefined,
  lastJobSeq: undefined,
  ownTransaction: undefined,
  size: `(p.page_count - f.freelist_count) * s.page_size
    from pragma_page_count p, pragma_freelist_count f, pragma_page_size s`,
  // SQLite has a single writer, so conflicts can't happen.
  isConflict: () => false,
  parameter: (index) => `?${index}`,
  among: (index) => `in (select value from json_each(?${index}))`,
  list: (values) => JSON.stringify(values),
};

/** Reads the host's clock, which is also the clock of a SQLite database on it. */
export function readClock(): Timestamp {
  return toTimestamp(Date.now());
}

export function makeSession(db: DatabaseSync, clock: () => Timestamp = readClock): Transaction {
  const statements = new Map<string, StatementSync>();
  const prepare = (sql: string): StatementSync => {
    let statement = statements.get(sql);
    if (statement === undefined)
      statements.set(sql, (statement = db.prepare(withoutReplanning(sql))));
    return statement;
  };
  const runEach = <R>(
    definition: RowsStatement<R>,
    rows: readonly NoInfer<R>[],
    common: readonly Value[] = [],
  ): Row[] => {
    if (rows.length === 0) return [];
    const { returns } = definition;
    const found: Row[] = [];
    const now = clock();
    for (const run of toRuns(definition, rows)) {
      const { text, bind } = compileRun(sqliteDialect, definition, run);
      const statement = prepare(text);
      const values = bind(run, common, now);
      if (returns === undefined) {
        for (const row of statement.all(...values)) found.push(row as Row);
      } else if (statement.run(...values).changes > 0) {
        found.push({ [returns]: toValue(run.row[returns]) });
      }
    }
    return found;
  };
  return {
    dialect: sqliteDialect,
    isRetry: false,
    savepoints: { isEnabled: true, isUsed: false },
    run: (sql, values = []) => toPromise(() => prepare(sql).all(...values) as Row[]),
    each: (...args) => toPromise(() => runEach(...args)),
    send: (...args) => void runEach(...args),
    finish: () => undefined,
  };
}

/** Prevents SQLite from planning a statement again for each value of a bare parameter after `limit`. */
export function withoutReplanning(sql: string): string {
  return sql.replaceAll(/\blimit (\?\d*)/g, 'limit $1 + 0');
}

/** Returns results and errors through a promise, as on PostgreSQL. */
function toPromise<T>(work: () => T): Promise<T> {
  try {
    return Promise.resolve(work());
  } catch (error) {
    return Promise.reject(error);
  }
}
