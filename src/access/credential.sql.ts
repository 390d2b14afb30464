import type { SealedText } from '../base/seal.ts';
import { insertRow } from '../ledger/insert.ts';
import {
  credentialTable,
  type CredentialDraft,
  type CredentialRow,
  type ResealedRow,
  type SealCount,
  type SealedCredential,
  type SealedPayload,
  type SealedRow,
} from './types.ts';
import {
  defineRows,
  type Row,
  type Session,
  type TableName,
  type Transaction,
} from '../ledger/dialect.ts';
import type { DirectiveEnd } from '../directive/types.ts';
import { int, text, textOrNull } from '../ledger/row.ts';

/** ResealedTables the credential of that name; the previous value is lost. */
export async function setCredential(
  tx: Transaction,
  draft: CredentialDraft,
  actor: string,
): Promise<DirectiveEnd> {
  const { dialect } = tx;
  const { id, name, provider, sealed, expiresInMs } = draft;
  const now = { sql: dialect.now };
  const [row] = await insertRow(
    tx,
    credentialTable,
    {
      id,
      name,
      provider,
      keyId: sealed.keyId,
      sealed: sealed.text,
      createdBy: actor,
      createdAt: now,
      updatedBy: actor,
      updatedAt: now,
      expiresAt:
        expiresInMs === undefined ? null : { sql: dialect.nowPlus('?'), values: [expiresInMs] },
    },
    `on conflict (name) do update set provider = excluded.provider, key_id = excluded.key_id,
      sealed = excluded.sealed, updated_by = excluded.updated_by,
      updated_at = excluded.updated_at, expires_at = excluded.expires_at
      returning id, expires_at`,
  );
  const credentialId = text(row ?? {}, 'id');
  return {
    status: 'completed',
    result: {
      credential_id: credentialId,
      name,
      created: credentialId === id,
      expires_at: textOrNull(row ?? {}, 'expires_at'),
    },
  };
}

export async function deleteCredential(tx: Transaction, name: string): Promise<DirectiveEnd> {
  const [row] = await tx.run(
    `delete from ${tx.dialect.table('credentials')} where name = ? returning id`,
    [name],
  );
  if (row === undefined) {
    const error = `there is no credential ${name}`;
    return { status: 'failed', code: 'CREDENTIAL_NOT_FOUND', error };
  }
  return { status: 'completed', result: { credential_id: text(row, 'id'), name } };
}

export async function listCredentials(session: Session): Promise<CredentialRow[]> {
  const rows = await session.run(`${select(session)} order by c.name`);
  return rows.map(toCredential);
}

export async function findCredential(
  session: Session,
  name: string,
): Promise<SealedCredential | undefined> {
  const [row] = await session.run(`${select(session)} where c.name = ?`, [name]);
  return row === undefined ? undefined : { ...toCredential(row), sealed: toSealed(row) };
}

export async function recordCredentialUse(
  tx: Transaction,
  names: readonly string[],
): Promise<void> {
  // All hosts update in the same order, so that they can't deadlock.
  const rows = names.toSorted().map((name) => ({ name }));
  tx.send(noteUse, rows);
}

const noteUse = defineRows({
  columns: { name: 'text' },
  sql: (r, d) => `update ${d.table('credentials')} set last_used_at = ${d.now} ${r.from}
    where credentials.name = ${r('name')}`,
});

/**
 * Stores the complete payloads of masked signals, in the commit of the signals. Repeating it changes
 * nothing.
 */
export function insertSealedPayloads(
  tx: Transaction,
  payloads: readonly { readonly id: string; readonly sealed?: SealedText | undefined }[],
): void {
  const rows = payloads.flatMap(({ id, sealed }) =>
    sealed === undefined ? [] : [{ signal_id: id, key_id: sealed.keyId, sealed: sealed.text }],
  );
  if (rows.length > 0) tx.send(insertPayload, rows);
}

const insertPayload = defineRows({
  columns: { signal_id: 'text', key_id: 'text', sealed: 'text' },
  sql: (r, d) => `insert into ${d.table('sealed_payloads')} (signal_id, key_id, sealed)
    select ${r('signal_id')}, ${r('key_id')}, ${r('sealed')} ${r.from}
    where true on conflict (signal_id) do nothing`,
});

/** Deletes the sealed payloads of deleted signals. */
export function deleteSealedPayloads(tx: Transaction, gone: readonly Row[]): void {
  tx.send(
    deletePayload,
    gone.map((row) => ({ signal_id: text(row, 'id') })),
  );
}

const deletePayload = defineRows({
  columns: { signal_id: 'text' },
  sql: (r, d) => `delete from ${d.table('sealed_payloads')}
    where signal_id in (select ${r('signal_id')} ${r.from})`,
});

export async function findSealedPayloads(
  session: Session,
  signalIds: readonly string[],
): Promise<SealedPayload[]> {
  const rows = await session.each(
    selectPayload,
    signalIds.map((signalId) => ({ wanted: signalId })),
  );
  return rows.map((row) => ({ signalId: text(row, 'signal_id'), sealed: toSealed(row) }));
}

const selectPayload = defineRows({
  columns: { wanted: 'text' },
  sql: (r, d) =>
    `select q.signal_id, q.key_id, q.sealed from ${r.lateral(
      `select p.signal_id, p.key_id, p.sealed from ${d.table('sealed_payloads')} p
      where p.signal_id = ${r('wanted')}`,
    )}`,
});

/** Counts sealed texts by key. */
export async function countSeals(session: Session): Promise<SealCount[]> {
  const count = (table: TableName): Promise<Row[]> =>
    session.run(
      `select key_id, count(*) as n from ${session.dialect.table(table)}
        where key_id is not null group by key_id`,
    );
  const [credentials, payloads] = [await count('credentials'), await count('sealed_payloads')];
  const webhooks = await count('webhooks');
  const numberOf = (rows: readonly Row[], keyId: string): number => {
    const row = rows.find((one) => one['key_id'] === keyId);
    return row === undefined ? 0 : int(row, 'n');
  };
  const keyIds = new Set(
    [...credentials, ...payloads, ...webhooks].map((row) => text(row, 'key_id')),
  );
  return [...keyIds].toSorted().map((keyId) => ({
    keyId,
    credentials: numberOf(credentials, keyId),
    payloads: numberOf(payloads, keyId),
    webhooks: numberOf(webhooks, keyId),
  }));
}

/** Lists texts that are sealed with a key, after a row: credentials first, each kind by its ids. */
export async function listSealedRows(
  session: Session,
  keyId: string,
  after: Pick<SealedRow, 'kind' | 'id'> | undefined,
  limit: number,
): Promise<SealedRow[]> {
  const found: SealedRow[] = [];
  for (const kind of kinds.slice(after === undefined ? 0 : kinds.indexOf(after.kind))) {
    const { table, key } = sealedTables[kind];
    const rows = await session.run(
      `select ${key} as id, key_id, sealed from ${session.dialect.table(table)}
        where key_id = ? and ${key} > ? order by ${key} limit ?`,
      [keyId, after?.kind === kind ? after.id : '', limit - found.length],
    );
    found.push(...rows.map((row) => ({ kind, id: text(row, 'id'), sealed: toSealed(row) })));
    if (found.length === limit) break;
  }
  return found;
}

const kinds = ['credential', 'payload', 'webhook'] as const;

/** ResealedTables sealed texts, unless they have changed since they were read. */
export async function updateSeals(
  tx: Transaction,
  changes: readonly ResealedRow[],
): Promise<number> {
  let count = 0;
  // All hosts update in the same order, so that they can't deadlock.
  for (const { kind, id, sealed, after } of changes.toSorted(compareRows)) {
    const { table, key } = sealedTables[kind];
    const changed = await tx.run(
      `update ${tx.dialect.table(table)} set key_id = ?, sealed = ?
        where ${key} = ? and sealed = ? returning key_id`,
      [after.keyId, after.text, id, sealed.text],
    );
    count += changed.length;
  }
  return count;
}

const sealedTables = {
  credential: { table: 'credentials', key: 'name' },
  payload: { table: 'sealed_payloads', key: 'signal_id' },
  webhook: { table: 'webhooks', key: 'id' },
} as const satisfies Record<SealedRow['kind'], { readonly table: TableName; readonly key: string }>;

function compareRows(a: SealedRow, b: SealedRow): number {
  return `${a.kind} ${a.id}` < `${b.kind} ${b.id}` ? -1 : 1;
}

function select({ dialect }: Session): string {
  return `select c.*, case when c.expires_at <= (select ${dialect.now}) then 1 else 0 end as expired
    from ${dialect.table('credentials')} c`;
}

function toSealed(row: Row): SealedText {
  return { keyId: text(row, 'key_id'), text: text(row, 'sealed') };
}

function toCredential(row: Row): CredentialRow {
  const { sealed: _, ...credential } = credentialTable.decode(row);
  return { ...credential, isExpired: row['expired'] === 1 };
}
