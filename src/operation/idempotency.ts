import { createHash } from 'node:crypto';
import { DuctileError, toDuctileError } from '../base/errors.ts';
import { makeId } from '../base/ids.ts';
import { limits } from '../base/limits.ts';
import type { Context } from './context.ts';

export interface IdempotentResponse {
  readonly status: number;
  /** The body, as it is sent. */
  readonly text: string;
}

/** A request with an idempotency key. */
export interface KeyedRequest {
  readonly key: string;
  /** Method and path. */
  readonly route: string;
  /** The rest of the request; a different one with the same key is refused. */
  readonly content: Uint8Array;
  /** The response must not be stored; a repeated request runs again with the same subject id. */
  readonly isSecret: boolean;
  /** A dry run doesn't use up the key. */
  readonly isDryRun: boolean;
}

interface OnceResult extends IdempotentResponse {
  /** True for the stored response to an earlier request. */
  readonly repeated: boolean;
}

/**
 * Runs a request once for each key of a caller. The key is in the ledger before the request runs, and
 * the object that it creates gets the id that is stored with the key. So a repetition after a crash, or
 * at the same time, creates the same object and not a second one.
 */
export async function runOnce(
  context: Context,
  { key, route, content, isSecret, isDryRun }: KeyedRequest,
  run: (context: Context) => Promise<IdempotentResponse>,
): Promise<OnceResult> {
  checkKey(key);
  if (isDryRun) return { ...(await run(context)), repeated: false };
  const { ledger } = context.engine;
  const bodyDigest = createHash('sha256').update(content).digest('hex');
  const { actor } = context.principal;
  const idempotencyKey = { actor, route, key, bodyDigest, subjectId: makeId() };
  const found = await ledger.idempotencyKeys.open(idempotencyKey);
  if (found.kind === 'mismatch') {
    const message = 'this Idempotency-Key was already used for a different request';
    throw new DuctileError('IDEMPOTENCY_MISMATCH', message, { place: 'idempotency-key' });
  }
  if (found.kind === 'answered')
    return { status: found.status, text: found.answer, repeated: true };
  const { subjectId } = found;
  const own = { ...idempotencyKey, subjectId };
  try {
    const response = await run({ ...context, idempotencyKey: key, subjectId });
    const { status, text } = response;
    if (!isSecret) await ledger.idempotencyKeys.close(own, { status, answer: text });
    return { ...response, repeated: false };
  } catch (thrown) {
    if (canRelease(toDuctileError(thrown))) await ledger.idempotencyKeys.close(own, undefined);
    throw thrown;
  }
}

/**
 * Returns whether the key can be released: the request was refused, or it is recorded as a directive that
 * failed. Repeating it does nothing twice, and with the key bound it would fail forever.
 */
function canRelease({ kind, details }: DuctileError): boolean {
  // The directive waits, so a repeated request means the same one.
  if (details?.['directive_status'] === 'requested') return false;
  return kind.status < 500 || details?.['directive_status'] === 'failed';
}

function checkKey(key: string): void {
  if (/^[\x21-\x7e]+$/.test(key) && key.length <= limits.idempotencyKeyCharsMax) return;
  const message = `the key must be 1 to ${limits.idempotencyKeyCharsMax} visible ASCII characters`;
  throw new DuctileError('INPUT_INVALID', message, { place: 'idempotency-key' });
}
