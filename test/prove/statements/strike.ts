/** Faults of the database itself, at the nth statement of a ledger. */
import { DatabaseSync, StatementSync } from 'node:sqlite';
import pg from 'pg';
import { onTestFinished, vi } from 'vitest';

export interface Striker {
  /** The nth statement from now on fails; with `forEver`, all later ones, too. */
  arm(at: number, forEver: boolean): void;
  /** Returns the number of failed statements since then. */
  disarm(): number;
}

interface Plan {
  left: number;
  readonly forEver: boolean;
  hits: number;
}

function makePlan(): Striker & { readonly strikes: () => boolean } {
  let plan: Plan | undefined;
  return {
    arm: (at, forEver) => void (plan = { left: at, forEver, hits: 0 }),
    disarm() {
      const hits = plan?.hits ?? 0;
      plan = undefined;
      return hits;
    },
    strikes() {
      if (plan === undefined) return false;
      plan.left -= 1;
      if (plan.left > 0 || (plan.left < 0 && !plan.forEver)) return false;
      plan.hits += 1;
      return true;
    },
  };
}

export interface SqliteFault {
  readonly errcode: number;
  /** Some errors end the whole transaction by themselves. */
  readonly rollsBack: boolean;
}

/** Makes every connection of this process fail like this, once armed. */
export function strikeSqlite({ errcode, rollsBack }: SqliteFault): Striker {
  const { strikes, ...striker } = makePlan();
  let writer: DatabaseSync | undefined;
  /* eslint-disable typescript/unbound-method -- each is called on its own object below */
  const { exec, prepare } = DatabaseSync.prototype;
  const { all, run } = StatementSync.prototype;
  /* eslint-enable typescript/unbound-method */
  const fail = (): void => {
    if (!strikes()) return;
    if (writer === undefined) throw new Error('it is not known who begins transactions');
    if (rollsBack && writer.isTransaction) exec.call(writer, 'rollback');
    throw Object.assign(new Error('struck'), { code: 'ERR_SQLITE_ERROR', errcode });
  };
  spy(
    vi.spyOn(DatabaseSync.prototype, 'prepare').mockImplementation(function (
      this: DatabaseSync,
      sql,
      ...options
    ) {
      // eslint-disable-next-line typescript/no-this-alias, unicorn/no-this-assignment -- to end its transaction
      if (sql === 'begin immediate') writer = this;
      return prepare.call(this, sql, ...options);
    }),
    vi.spyOn(DatabaseSync.prototype, 'exec').mockImplementation(function (this: DatabaseSync, sql) {
      // A rollback writes nothing, so it doesn't fail.
      if (!sql.startsWith('rollback')) fail();
      exec.call(this, sql);
    }),
    vi.spyOn(StatementSync.prototype, 'all').mockImplementation(function (
      this: StatementSync,
      ...values: unknown[]
    ) {
      fail();
      return all.apply(this, values as never);
    }),
    vi.spyOn(StatementSync.prototype, 'run').mockImplementation(function (
      this: StatementSync,
      ...values: unknown[]
    ) {
      fail();
      return run.apply(this, values as never);
    }),
  );
  return striker;
}

/** Makes the server itself fail a statement with an error of this class, within its transaction. */
export function strikePostgres(sqlState: string): Striker {
  const { strikes, ...striker } = makePlan();
  // eslint-disable-next-line typescript/unbound-method -- it is called on its own connection below
  const { execute } = pg.Connection.prototype;
  const text = `do $$ begin raise exception 'struck' using errcode = '${sqlState}'; end $$`;
  spy(
    vi.spyOn(pg.Connection.prototype, 'execute').mockImplementation(function (
      this: pg.Connection,
      ...given
    ) {
      if (strikes()) {
        // Another statement takes the place of the one that was to be executed next.
        this.parse({ name: '', text, types: [] }, true);
        this.bind({ statement: '', values: [] }, true);
      }
      execute.apply(this, given);
    }),
  );
  return striker;
}

const HASTE = 50;
/** Longer times are limits, not pauses. */
const PAUSE_MS_MAX = 1000;

/** The waits between tries that fail anyway are short. */
export function hurry(): void {
  const { setTimeout: patient } = globalThis;
  const hasty = ((work: () => void, ms = 0) =>
    patient(work, ms > PAUSE_MS_MAX ? ms : ms / HASTE)) as typeof setTimeout;
  spy(vi.spyOn(globalThis, 'setTimeout').mockImplementation(hasty));
}

function spy(...spies: readonly { mockRestore(): void }[]): void {
  onTestFinished(() => spies.forEach((one) => one.mockRestore()));
}
