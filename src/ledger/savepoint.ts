import { messageOf } from '../base/errors.ts';
import { limits } from '../base/limits.ts';
import type { Transaction } from './dialect.ts';

export type SavepointResult<T> =
  | { readonly isDone: true; readonly value: T }
  | { readonly isDone: false; readonly error: string };

/**
 * Does a part of a transaction that may fail without the rest: then nothing of it is left, and the
 * answer says why. Only a second try is guarded so; in the first the failure is the whole's. What it
 * sends is waited for, because nobody else may hear of its failure. Where the whole transaction is
 * lost, going back fails too, and so does the transaction; and where it only met another one in a
 * conflict, it is tried again as a whole.
 */
export async function runInSavepoint<T>(
  tx: Transaction,
  work: (inner: Transaction) => Promise<T>,
): Promise<SavepointResult<T>> {
  tx.savepoints.isUsed = true;
  if (!tx.savepoints.isEnabled) return { isDone: true, value: await work(tx) };
  const asked: Promise<unknown>[] = [];
  const attend = <A>(answer: Promise<A>): void => {
    answer.catch(() => undefined);
    asked.push(answer);
  };
  attend(tx.run('savepoint part'));
  try {
    const value = await work({
      ...tx,
      send: (...rows) => attend(tx.each(...rows)),
      finish: () => undefined,
    });
    await Promise.all(asked);
    attend(tx.run('release savepoint part'));
    return { isDone: true, value };
  } catch (thrown) {
    // What was only sent may have failed first, and what was asked for after it because of that.
    const causes = [...(await Promise.allSettled(asked)).flatMap(reasonOf), thrown];
    const conflict = causes.find((cause) => tx.dialect.isConflict(cause));
    if (conflict !== undefined) throw conflict;
    await tx.run('rollback to savepoint part');
    await tx.run('release savepoint part');
    return { isDone: false, error: messageOf(causes[0]).slice(0, limits.errorCharsMax) };
  }
}

function reasonOf(end: PromiseSettledResult<unknown>): unknown[] {
  return end.status === 'rejected' ? [end.reason] : [];
}
