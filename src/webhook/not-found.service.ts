import { DuctileError } from '../base/errors.ts';
import { suggest } from '../config/nearest.ts';
import type { LedgerSubset } from '../ledger/ledger.ts';

/** What to say of an id that no webhook has, with the one that may be meant. */
export async function hookNotFound(
  id: string,
  ledger: LedgerSubset<'webhooks.list'>,
): Promise<DuctileError> {
  const known = (await ledger.webhooks.list()).map((row) => row.id);
  return new DuctileError('WEBHOOK_NOT_FOUND', `there is no webhook ${id}`, {
    place: 'id',
    hint: suggest(id, known, 'webhooks'),
  });
}
