import { limits } from '../base/limits.ts';
import { parseJson } from '../base/parse-json.ts';
import type { Transaction } from '../ledger/dialect.ts';
import { textOrNull } from '../ledger/row.ts';

/** A directive in the hands of the process that executes it. */
export interface ProgressOwner {
  readonly directiveId: string;
  readonly processId: string;
}

/** Reads how far a directive is: null at its beginning, undefined when another process has it. */
export async function lockProgress<T>(
  tx: Transaction,
  { directiveId, processId }: ProgressOwner,
): Promise<T | null | undefined> {
  const [row] = await tx.run(
    `select progress from ${tx.dialect.table('directives')}
      where id = ? and status = 'running' and process_id = ? ${tx.dialect.forUpdate}`,
    [directiveId, processId],
  );
  if (row === undefined) return undefined;
  const kept = textOrNull(row, 'progress');
  return kept === null ? null : (parseJson(kept) as T);
}

/**
 * Records how far a directive is, in the transaction that did the step. Progress renews its attempts:
 * only a directive that dies several times at the same step is given up.
 */
export async function writeProgress(
  tx: Transaction,
  { directiveId }: Pick<ProgressOwner, 'directiveId'>,
  progress: object,
): Promise<void> {
  await tx.run(
    `update ${tx.dialect.table('directives')} set progress = ?,
      max_attempts = attempt + ${limits.directiveAttemptsMax - 1} where id = ?`,
    [JSON.stringify(progress), directiveId],
  );
}
