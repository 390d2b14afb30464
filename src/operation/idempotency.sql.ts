import type { Transaction } from '../ledger/dialect.ts';
import { intOrNull, text } from '../ledger/row.ts';

/** An idempotency key of a caller, bound to one request. */
export interface IdempotencyKey {
  readonly actor: string;
  /** Method and path, such as `POST /plugin/echo/handle`. */
  readonly route: string;
  readonly key: string;
  /** The digest of the rest of the request, to detect a different request with the same key. */
  readonly bodyDigest: string;
  /** The id for the object that the request creates. The first request decides it. */
  readonly subjectId: string;
}

/** The response to the first request with a key, which later requests get, too. */
export interface StoredResponse {
  readonly status: number;
  readonly answer: string;
}

/**
 * State of a key. `open`: there is no response yet, and repeating the request with the subject's id is
 * safe. `mismatch`: the key belongs to a different request.
 */
export type IdempotencyState =
  | { readonly kind: 'open'; readonly subjectId: string }
  | ({ readonly kind: 'answered' } & StoredResponse)
  | { readonly kind: 'mismatch' };

/**
 * Binds a key to the request that uses it first. A later request with the same key gets the same subject
 * id, so that concurrent requests, or a repetition after a crash, create one object.
 */
export async function openKey(tx: Transaction, key: IdempotencyKey): Promise<IdempotencyState> {
  const keys = tx.dialect.table('idempotency_keys');
  // The update changes nothing; it locks an existing row, so that it can be returned.
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

/** Stores the response to a request, or releases the key if there is none. The first response stays. */
export async function closeKey(
  tx: Transaction,
  key: IdempotencyKey,
  answer: StoredResponse | undefined,
): Promise<void> {
  const keys = tx.dialect.table('idempotency_keys');
  // The subject is the fence: a released key may be bound to another request by now.
  const own = [key.actor, key.route, key.key, key.subjectId];
  const condition = 'actor = ? and route = ? and key = ? and subject_id = ? and status is null';
  if (answer === undefined) {
    await tx.run(`delete from ${keys} where ${condition}`, own);
  } else {
    const values = [answer.status, answer.answer, ...own];
    await tx.run(`update ${keys} set status = ?, answer = ? where ${condition}`, values);
  }
}
