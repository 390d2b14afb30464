import { nouns } from './nouns.ts';
import { applyRules, type LedgerRules } from './rules.ts';
import { bindNouns } from './verbs.ts';
import { DuctileError } from '../base/errors.ts';
import { limits } from '../base/limits.ts';
import type { Log } from '../base/log.ts';
import { backupSqlite } from './backup.ts';
import {
  checkLedger,
  checkSqliteFile,
  collectProblems,
  quickCheckLedger,
  quickCheckSqliteFile,
  isFileDamage,
  checkSqliteIndexes,
  type IndexCheck,
} from './check.ts';
import type { Store } from './dialect.ts';
import type { Ledger, LedgerSubset } from './ledger.ts';
import { migrate, schemaVersion } from './migrate.ts';
import { silentNotifier, withEndNotifications, type Notifier } from './notifier.ts';
import { text } from './row.ts';
import { readInThread, type CheckSession } from './sqlite/read-thread.ts';
import { openSqlite } from './sqlite/store.ts';

export type LedgerLocation =
  | { readonly kind: 'sqlite'; readonly path: string }
  | { readonly kind: 'postgres'; readonly url: string; readonly schema: string };

/** Opens a ledger and brings its schema up to date. The signal aborts waiting for other hosts. */
export async function openLedger(
  location: LedgerLocation,
  rules: LedgerRules,
  signal?: AbortSignal,
  log?: Pick<Log, 'warn'>,
  tenancy?: Tenancy,
): Promise<Ledger> {
  return location.kind === 'sqlite'
    ? openSqliteLedger(location.path, rules, log)
    : openPostgresLedger(location, rules, signal, tenancy);
}

/** Opens a ledger for the service. It refuses a SQLite file in which a quick check finds damage. */
export async function openSoundLedger(
  location: LedgerLocation,
  rules: LedgerRules,
  signal?: AbortSignal,
  log?: Pick<Log, 'warn'>,
  tenancy?: Tenancy,
): Promise<Ledger> {
  const ledger = await openLedger(location, rules, signal, log, tenancy);
  if (location.kind === 'postgres') return ledger;
  try {
    const damage = (await ledger.quickCheck()).filter(isFileDamage);
    if (damage.length === 0) return ledger;
    throw new DuctileError('LEDGER_CORRUPT', damage.join('; '), { place: location.path });
  } catch (error) {
    await ledger.close();
    throw error;
  }
}

/** The root's part in a tenant's ledger, which has few connections and uses the root's hints. */
export interface Tenancy {
  readonly hint: () => void;
  /** The schema of the root ledger in PostgreSQL. */
  readonly rootSchema?: string;
}

async function openSqliteLedger(
  path: string,
  rules: LedgerRules,
  log?: Pick<Log, 'warn'>,
): Promise<Ledger> {
  const store = openSqlite(path, log);
  try {
    await store.write(['other'], async (tx) => {
      await migrate(tx);
      await tx.run(`pragma user_version = ${schemaVersion}`);
    });
  } catch (error) {
    await store.close();
    throw error;
  }
  // Only this process uses the file, so there is no other process to notify.
  const closed = new AbortController();
  const notifier: Notifier = {
    ...silentNotifier,
    close: () => Promise.resolve(closed.abort()),
  };
  return makeLedger(store, rules, notifier, {
    backup: (target, directive) => backupSqlite(store, target, directive),
    ...makeFileChecks(path, closed.signal),
  });
}

/** Makes the checks of an existing file. The signal aborts them. */
export function makeFileChecks(
  path: string,
  abort?: AbortSignal,
): LedgerSubset<'check' | 'checkIndexes' | 'quickCheck'> {
  const runChecks = (...checks: readonly ((session: CheckSession) => Promise<string[]>)[]) =>
    readInThread(path, (session) => collectProblems(session, ...checks), abort);
  return {
    check: () => runChecks(checkSqliteFile, checkLedger),
    quickCheck: () => runChecks(quickCheckSqliteFile, quickCheckLedger),
    checkIndexes: () => readInThread(path, checkSqliteIndexes, abort),
  };
}

async function openPostgresLedger(
  { url, schema }: Extract<LedgerLocation, { kind: 'postgres' }>,
  rules: LedgerRules,
  signal: AbortSignal | undefined,
  tenancy: Tenancy | undefined,
): Promise<Ledger> {
  // The driver is loaded only for PostgreSQL.
  const { openPostgresStorage } = await import('./postgres/open.ts');
  if (tenancy === undefined) {
    const { store, notifier, maintenance } = await openPostgresStorage(url, schema, signal);
    return makeLedger(store, rules, notifier, maintenance);
  }
  const { hint, rootSchema = schema } = tenancy;
  const options = { connectionsMax: limits.tenantConnectionsMax, rootSchema };
  const { store, maintenance } = await openPostgresStorage(url, schema, signal, options);
  return makeLedger(store, rules, { ...silentNotifier, hint }, maintenance);
}

/** Operations on the database as a whole. */
type LedgerMaintenance = LedgerSubset<'backup' | 'check' | 'quickCheck'> &
  Partial<LedgerSubset<'checkIndexes'>>;

const uncheckedIndexes: IndexCheck = { problems: [], skipped: 'its indexes cannot be checked' };

export function makeLedger(
  plainStore: Store,
  rules: LedgerRules,
  notifier: Notifier,
  maintenance: LedgerMaintenance,
): Ledger {
  const { store: notifyingStore, ...notifying } = withEndNotifications(plainStore, notifier);
  const { store, provideRules } = applyRules(notifyingStore, rules);
  const copies = new Set<Promise<void>>();
  let closing: Promise<void> | undefined;
  const close = async (): Promise<void> => {
    await notifier.close();
    await Promise.allSettled(copies);
    await store.close();
  };
  return {
    kind: store.dialect.name,
    check: () => maintenance.check(),
    quickCheck: () => maintenance.quickCheck(),
    checkIndexes: () => maintenance.checkIndexes?.() ?? Promise.resolve(uncheckedIndexes),
    backup(path, directive) {
      const copy = maintenance.backup(path, directive).finally(() => copies.delete(copy));
      copies.add(copy);
      return copy;
    },
    ...bindNouns(nouns, store),
    provideRules,
    now: () =>
      store.find(async (session) => {
        const [row] = await session.run(`select ${session.dialect.now} as now`);
        return text(row ?? {}, 'now');
      }),
    ...notifying,
    close: () => (closing ??= close()),
  };
}
