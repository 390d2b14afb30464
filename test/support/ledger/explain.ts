/** A ledger that reports the query plan of each of its statements. */
import { noRules } from '../../../src/ledger/rules.ts';
import { DatabaseSync } from 'node:sqlite';
import pg from 'pg';
import { onTestFinished, vi } from 'vitest';
import type { Ledger } from '../../../src/ledger/ledger.ts';
import { openLedger } from '../../../src/ledger/open.ts';
import { sqliteReaders } from '../../../src/ledger/sqlite/readers.ts';
import { makeSession } from '../../../src/ledger/sqlite/session.ts';
import { makeClient, type Bench, type PostgresPlace } from './bench.ts';

export interface Plan {
  readonly statement: string;
  /** Lines of the database's plan. */
  readonly steps: readonly string[];
}

/** Counts the rows that PostgreSQL visited in each step of a plan. */
export function countVisits({ steps }: Plan): { table: string; rows: number; step: string }[] {
  return steps.flatMap((step, index) => {
    const [, table = '', rowsPerLoop = '0', loops = '0'] =
      / on (\w+).*\(actual rows=([\d.]+) loops=(\d+)\)/.exec(step) ?? [];
    if (table === '') return [];
    const isNext = (line: string): boolean =>
      line.includes('(actual rows=') || line.includes('never executed');
    const after = steps.slice(index + 1);
    const end = after.findIndex(isNext);
    const own = after.slice(0, end === -1 ? undefined : end).join('\n');
    const removed = [...own.matchAll(/Rows Removed by (?:Filter|Index Recheck): (\d+)/g)];
    const each = removed.reduce((sum, [, count]) => sum + Number(count), Number(rowsPerLoop));
    return [{ table, rows: each * Number(loops), step: `${step} ${own}` }];
  });
}

export interface Explainer {
  readonly ledger: Ledger;
  /** Returns the plans of the statements of `work`; on SQLite only of new ones. */
  readonly explain: (work: () => Promise<unknown>) => Promise<Plan[]>;
}

export async function openExplainer(bench: Bench): Promise<Explainer> {
  return bench.place.kind === 'sqlite' ? explainSqlite(bench) : explainPostgres(bench.place);
}

async function explainSqlite({ open, sql }: Bench): Promise<Explainer> {
  const ledger = await open();
  const statements: string[] = [];
  // eslint-disable-next-line typescript/unbound-method -- it is called on its own database below
  const prepare = DatabaseSync.prototype.prepare;
  const spy = vi.spyOn(DatabaseSync.prototype, 'prepare');
  spy.mockImplementation(function (this: DatabaseSync, text: string) {
    statements.push(text);
    return prepare.call(this, text);
  });
  const reading = vi.spyOn(sqliteReaders, 'read');
  // Statements of reader threads can't be seen, so they run here.
  reading.mockImplementation(async (path, work) => {
    const db = new DatabaseSync(path, { readOnly: true });
    try {
      return await work(makeSession(db));
    } finally {
      db.close();
    }
  });
  onTestFinished(() => {
    spy.mockRestore();
    reading.mockRestore();
  });
  return {
    ledger,
    async explain(work) {
      statements.splice(0);
      await work();
      const plans: Plan[] = [];
      for (const statement of statements.splice(0)) {
        const rows = await sql(`explain query plan ${statement}`);
        plans.push({ statement, steps: rows.map((row) => String(row['detail'])) });
      }
      return plans;
    },
  };
}

const settings = [
  `session_preload_libraries = 'auto_explain'`,
  'auto_explain.log_min_duration = 0',
  'auto_explain.log_analyze = on',
  'auto_explain.log_timing = off',
  'client_min_messages = log',
];

/** Makes PostgreSQL report the used plans as notices on the same connection. */
async function explainPostgres(place: PostgresPlace): Promise<Explainer> {
  const notices: string[] = [];
  // eslint-disable-next-line typescript/unbound-method -- it is called on its own client below
  const emit = pg.Client.prototype.emit;
  const spy = vi.spyOn(pg.Client.prototype, 'emit');
  spy.mockImplementation(function (this: pg.Client, event: unknown, ...values: unknown[]) {
    const [value] = values as [{ message?: string } | undefined];
    if (event === 'notice') notices.push(value?.message ?? '');
    return Boolean(Reflect.apply(emit, this, [event, ...values]));
  });
  const { url, forget } = await makeTalkativeRole(place);
  const ledger = await openLedger({ ...place, url }, noRules);
  onTestFinished(async () => {
    await ledger.close();
    spy.mockRestore();
    await forget();
  });
  return {
    ledger,
    async explain(work) {
      notices.splice(0);
      await work();
      return notices.splice(0).flatMap((notice) => {
        const [, statement = '', plan = ''] =
          /plan:\nQuery Text: ([^]*?)\n((?:Query Parameters: [^\n]*\n)?[^\n]*\(cost=[^]*)$/.exec(
            notice,
          ) ?? [];
        return plan === '' ? [] : [{ statement, steps: plan.split('\n') }];
      });
    },
  };
}

/** Creates a role whose settings enable the notices, without changing the ledger's own settings. */
async function makeTalkativeRole({ url }: PostgresPlace): Promise<{
  readonly url: string;
  readonly forget: () => Promise<void>;
}> {
  // Roles belong to the whole server, so the name contains the test's database.
  const role = `talks_${new URL(url).pathname.slice(1)}`;
  const admin = makeClient(url);
  await admin.connect();
  await admin.query(`create role ${role} superuser login password 'p'`);
  for (const setting of settings) await admin.query(`alter role ${role} set ${setting}`);
  const own = new URL(url);
  own.username = role;
  own.password = 'p';
  return {
    url: own.href,
    async forget() {
      await admin.query(`drop role ${role}`);
      await admin.end();
    },
  };
}
