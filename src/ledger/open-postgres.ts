import { DuctileError, messageOf } from '../base/errors.ts';
import { backupPostgres } from './backup.ts';
import { checkLedger, glanceAtLedger } from './check.ts';
import type { Store, Transaction } from './dialect.ts';
import type { Ledger } from './ledger.ts';
import { migrate } from './migrate.ts';
import { makeNotifier, type Notifier } from './notify.ts';
import { openPostgres } from './postgres.ts';
import { adoptEvents } from './queries/event.ts';

export interface PostgresParts {
  readonly store: Store;
  readonly notifier: Notifier;
  readonly care: Pick<Ledger, 'backup' | 'check' | 'quickCheck'>;
}

/** A schema brought up to date, and what a ledger over it is made of. */
export async function openPostgresParts(
  url: string,
  schema: string,
  signal?: AbortSignal,
): Promise<PostgresParts> {
  const store = openPostgres(url, schema);
  signal?.addEventListener('abort', () => store.cut(), { once: true });
  try {
    await store.write(['other'], async (tx) => {
      // Two hosts that start together must not both create the schema.
      await tx.run(tx.dialect.lockClaims ?? 'select 1');
      await ensureSchema(tx, store.schema);
      await migrate(tx);
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
  // A hint writes nothing, and whoever waits for it should not wait for the disk.
  const notify = `select set_config('synchronous_commit', 'off', true), pg_notify(?, '')`;
  const notifier = makeNotifier(url, schema, (channel) =>
    store.read((session) => session.run(notify, [channel])),
  );
  return {
    store,
    notifier,
    care: {
      backup: (target) => backupPostgres(store, target),
      check: () => store.read(checkLedger),
      quickCheck: () => store.read(glanceAtLedger),
    },
  };
}

/** Asked first, because `if not exists` still wants the right to create where the schema exists. */
async function ensureSchema(tx: Transaction, schema: string): Promise<void> {
  const found = await tx.run('select 1 as one from pg_catalog.pg_namespace where nspname = ?', [
    schema,
  ]);
  if (found.length === 0) await tx.run(`create schema "${schema}"`);
}
