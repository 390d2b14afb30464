import { DuctileError, messageOf } from '../../base/errors.ts';
import { backupPostgres } from '../backup.ts';
import { checkLedger, quickCheckLedger, checkPostgresIndexes } from '../check.ts';
import type { Store, Transaction } from '../dialect.ts';
import type { LedgerSubset } from '../ledger.ts';
import { migrate } from '../migrate.ts';
import type { Notifier } from '../notifier.ts';
import { makeNotifier } from './notify.ts';
import { openPostgres, type PostgresOptions } from './store.ts';
import { adoptEvents } from '../../signal/event-feed.sql.ts';
import { readMeta } from '../meta.ts';

interface PostgresStorage {
  readonly store: Store;
  readonly notifier: Notifier;
  readonly maintenance: LedgerSubset<'backup' | 'check' | 'checkIndexes' | 'quickCheck'>;
}

/** Opens a schema and brings it up to date. */
export async function openPostgresStorage(
  url: string,
  schema: string,
  signal?: AbortSignal,
  options?: PostgresOptions,
): Promise<PostgresStorage> {
  const store = openPostgres(url, schema, options);
  signal?.addEventListener('abort', () => store.cut(), { once: true });
  try {
    await store.write(['other'], async (tx) => {
      // Only one of two hosts that start at the same time may create the schema.
      await tx.run(tx.dialect.lockClaims ?? 'select 1');
      await ensureSchema(tx, store.schema);
      await migrate(tx);
      await requireFinishedRestore(tx, store.schema);
      await adoptEvents(tx);
    });
  } catch (error) {
    await store.close();
    if (error instanceof DuctileError) throw error;
    throw new DuctileError('LEDGER_UNAVAILABLE', `cannot prepare the schema: ${messageOf(error)}`, {
      place: 'state.url',
      hint: 'The database user needs the right to create and use its schema.',
      cause: error,
    });
  }
  // A notification writes nothing, so its commit doesn't have to wait for the disk.
  const notify = `select set_config('synchronous_commit', 'off', true), pg_notify(?, ?)`;
  const notifier = makeNotifier(url, schema, (channel, payload) =>
    store.read((session) => session.run(notify, [channel, payload])),
  );
  return {
    store,
    notifier,
    maintenance: {
      backup: (target, directive) => backupPostgres(store, target, directive),
      check: () => store.read(checkLedger),
      quickCheck: () => store.read(quickCheckLedger),
      checkIndexes: () => store.read((session) => checkPostgresIndexes(session, schema)),
    },
  };
}

/** Throws if a restore into this schema was interrupted: a part of the record must not be used. */
async function requireFinishedRestore(tx: Transaction, schema: string): Promise<void> {
  if ((await readMeta(tx, 'restoring')) === undefined) return;
  const message = `restoring a backup into the schema ${schema} was interrupted`;
  throw new DuctileError('BACKUP_INVALID', message, {
    place: 'state.url',
    hint: 'Import or restore it again. The partial data will be replaced.',
  });
}

/** Creates the schema. `if not exists` would need the right to create schemas even if it exists. */
async function ensureSchema(tx: Transaction, schema: string): Promise<void> {
  const found = await tx.run('select 1 as one from pg_catalog.pg_namespace where nspname = ?', [
    schema,
  ]);
  if (found.length === 0) await tx.run(`create schema "${schema}"`);
}
