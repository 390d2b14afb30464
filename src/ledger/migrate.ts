import { DuctileError } from '../base/errors.ts';
import { makeToken } from '../base/ids.ts';
import type { Transaction, Migration } from './dialect.ts';
import { core } from './migrations/0001-core.ts';
import { schedules } from './migrations/0002-schedules.ts';
import { directives } from './migrations/0003-directives.ts';
import { generations } from './migrations/0004-generations.ts';
import { runs } from './migrations/0005-runs.ts';
import { credentials } from './migrations/0006-credentials.ts';
import { packages } from './migrations/0007-packages.ts';
import { tenants } from './migrations/0008-tenants.ts';
import { webhooks } from './migrations/0009-webhooks.ts';
import { dependency } from './migrations/0010-dependency.ts';
import { incidents } from './migrations/0011-incidents.ts';
import { words } from './migrations/0012-words.ts';
import { access } from './migrations/0013-access.ts';
import { lists } from './migrations/0014-lists.ts';
import { usage } from './migrations/0015-usage.ts';
import { chains } from './migrations/0016-chains.ts';
import { snapshots } from './migrations/0017-snapshots.ts';
import { observations } from './migrations/0018-observations.ts';
import { questions } from './migrations/0019-questions.ts';

export const migrations: readonly Migration[] = [
  core,
  schedules,
  directives,
  generations,
  runs,
  credentials,
  packages,
  tenants,
  webhooks,
  dependency,
  incidents,
  words,
  access,
  lists,
  usage,
  chains,
  snapshots,
  observations,
  questions,
];
export const schemaVersion = Math.max(...migrations.map(({ version }) => version));

/** Brings a ledger to this program's schema in one transaction, and returns the applied migrations. */
export async function migrate(tx: Transaction): Promise<string[]> {
  const { dialect } = tx;
  const table = dialect.table('schema_migrations');
  await tx.run(`create table if not exists ${table} (
    version ${dialect.types.int} primary key,
    name ${dialect.types.text} not null,
    applied_at ${dialect.types.text} not null
  )`);
  const [row] = await tx.run(`select coalesce(max(version), 0) as version from ${table}`);
  const current = Number(row?.['version'] ?? 0);
  requireKnownSchema(current);
  const pending = migrations.filter(({ version }) => version > current);
  for (const { version, name, statements } of pending) {
    // All statements are sent at once: a new ledger needs more than a hundred.
    await Promise.all(statements(dialect).map((statement) => tx.run(statement)));
    await tx.run(`insert into ${table} (version, name, applied_at) values (?, ?, ${dialect.now})`, [
      version,
      name,
    ]);
  }
  if (current === 0) {
    await tx.run(`insert into ${dialect.table('ledger_meta')} (key, value) values ('epoch', ?)`, [
      makeToken(),
    ]);
  }
  return pending.map(({ version, name }) => `${version} ${name}`);
}

/** Throws if the schema is newer than this program, which can't know what it means. */
export function requireKnownSchema(version: number): void {
  if (version <= schemaVersion) return;
  throw new DuctileError(
    'LEDGER_NEWER',
    `the ledger has schema version ${version}, this program knows versions up to ${schemaVersion}`,
  );
}
