import type { Transaction } from '../ledger/dialect.ts';
import type { KeptAnswer, KeyAnswer, RequestKey } from '../directive/types.ts';
import { intOrNull, text } from '../ledger/row.ts';

/**
 * The first request with a key binds its id to it. Whoever comes with the same key later works under
 * that id as well, so that also two at once, or one after a crash, make one thing.
 */
export async function openKey(tx: Transaction, key: RequestKey): Promise<KeyAnswer> {
  const keys = tx.dialect.table('idempotency_keys');
  // The update changes nothing; it locks the row that is there, so that it stays to be read.
  const [row] = await tx.run(
    `insert into ${keys} (actor, route, key, body_digest, subject_id, created_at)
      values (?, ?, ?, ?, ?, ${tx.dialect.now})
      on conflict (actor, route, key) do update set route = excluded.route
      returning body_digest, subject_id, status, answer`,
    [key.actor, key.route, key.key, key.bodyDigest, key.subjectId],
  );
  if (row === undefined) throw new Error('a key was not recorded');
  if (text(row, 'body_digest') !== key.bodyDigest) return { kind: 'mismatch' };
  const status = intOrNull(row, 'status');
  if (status === null) return { kind: 'open', subjectId: text(row, 'subject_id') };
  return { kind: 'answered', status, answer: text(row, 'answer') };
}

/** The first answer stays. */
export async function closeKey(
  tx: Transaction,
  key: RequestKey,
  answer: KeptAnswer | undefined,
): Promise<void> {
  const keys = tx.dialect.table('idempotency_keys');
  // The subject is the fence: a key that was given back may have been bound again meanwhile.
  const own = [key.actor, key.route, key.key, key.subjectId];
  const condition = 'actor = ? and route = ? and key = ? and subject_id = ? and status is null';
  if (answer === undefined) {
    await tx.run(`delete from ${keys} where ${condition}`, own);
  } else {
    const values = [answer.status, answer.answer, ...own];
    await tx.run(`update ${keys} set status = ?, answer = ? where ${condition}`, values);
  }
}
