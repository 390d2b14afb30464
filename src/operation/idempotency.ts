import { createHash } from 'node:crypto';
import { DuctileError, toDuctileError } from '../base/errors.ts';
import { makeId } from '../base/ids.ts';
import { limits } from '../base/limits.ts';
import type { Context } from './context.ts';

export interface IdempotentResponse {
  readonly status: number;
  /** As it goes out. */
  readonly text: string;
}

export interface KeyedRequest {
  readonly key: string;
  /** Method and path. */
  readonly route: string;
  /** Everything else that was asked. */
  readonly asked: Uint8Array;
  /** The answer must not be kept; who asks again is told what there is to tell then. */
  readonly isSecret: boolean;
  /** It only asks what would happen: the key is still free for what is done after that. */
  readonly isDryRun: boolean;
}

export interface Once extends IdempotentResponse {
  /** It was done before; this is the answer of then. */
  readonly repeated: boolean;
}

/**
 * Does a request once for each key of a caller. The key is on the ledger before anything is done,
 * and what is made gets the id that is kept with it: whoever asks again after a crash, or at the
 * same time, makes the same thing and not a second one.
 */
export async function answerOnce(
  context: Context,
  { key, route, asked, isSecret, isDryRun }: KeyedRequest,
  run: (context: Context) => Promise<IdempotentResponse>,
): Promise<Once> {
  checkKey(key);
  if (isDryRun) return { ...(await run(context)), repeated: false };
  const { ledger } = context.engine;
  const bodyDigest = createHash('sha256').update(asked).digest('hex');
  const { actor } = context.principal;
  const bound = { actor, route, key, bodyDigest, subjectId: makeId() };
  const found = await ledger.idempotencyKeys.open(bound);
  if (found.kind === 'mismatch') {
    const message = 'another request was made with this Idempotency-Key';
    throw new DuctileError('IDEMPOTENCY_MISMATCH', message, { place: 'idempotency-key' });
  }
  if (found.kind === 'answered')
    return { status: found.status, text: found.answer, repeated: true };
  const { subjectId } = found;
  const own = { ...bound, subjectId };
  try {
    const answer = await run({ ...context, idempotencyKey: key, subjectId });
    if (!isSecret)
      await ledger.idempotencyKeys.close(own, { status: answer.status, answer: answer.text });
    return { ...answer, repeated: false };
  } catch (thrown) {
    if (isOver(toDuctileError(thrown))) await ledger.idempotencyKeys.close(own, undefined);
    throw thrown;
  }
}

/**
 * Nothing was done that a second try could do twice: it was refused, or it is on record as a directive
 * that failed, such as one that was interrupted. With its key kept it would fail for ever.
 */
function isOver({ kind, details }: DuctileError): boolean {
  // It is on record and waits, so asking again is asking for the same.
  if (details?.['directive_status'] === 'requested') return false;
  return kind.status < 500 || details?.['directive_status'] === 'failed';
}

function checkKey(key: string): void {
  if (/^[\x21-\x7e]+$/.test(key) && key.length <= limits.idempotencyKeyCharsMax) return;
  const message = `the key must be 1 to ${limits.idempotencyKeyCharsMax} visible ASCII characters`;
  throw new DuctileError('INPUT_INVALID', message, { place: 'idempotency-key' });
}
