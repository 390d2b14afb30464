import { DuctileError, messageOf } from '../base/errors.ts';
import type { Json } from '../base/json.ts';
import type { Log } from '../base/log.ts';
import { parseJson } from '../base/parse-json.ts';
import type { SealedText } from '../base/seal.ts';
import type { LedgerSubset } from '../ledger/ledger.ts';
import { isMasked, maskPayload, type PayloadMask } from './mask.ts';
import type { Signal } from './signal.ts';
import { purposes } from '../access/vault.service.ts';
import type { Vault } from '../access/vault.ts';

/** Signals are read by many and kept for long; what was masked in one can still be replayed. */
export function makeSealingMask(vault: Pick<Vault, 'seal'>, log: Log): PayloadMask {
  let isTold = false;
  return (payload, signalId, text = JSON.stringify(payload)) => {
    const kept = maskPayload(payload, signalId, text);
    if (kept.redacted.length === 0) return kept;
    try {
      const sealed = vault.seal(text, purposes.payload(signalId));
      return { ...kept, sealed };
    } catch (error) {
      // The work itself is done and counts; only its replay is lost.
      if (!isTold)
        log.warn('what signals do not show cannot be sealed', { error: messageOf(error) });
      isTold = true;
      return kept;
    }
  };
}

/** The original payload of a signal, or the reason why it can't be opened. */
export type OpenedPayload = { readonly payload: Json } | { readonly refused: DuctileError };

/** For whoever handles signals again: what they said, in their order. */
export async function openPayloads(
  signals: readonly Signal[],
  ledger: LedgerSubset<'signals.listSealedPayloads'>,
  vault: Pick<Vault, 'open'>,
): Promise<OpenedPayload[]> {
  const masked = signals.filter(({ metadata }) => isMasked(metadata)).map(({ id }) => id);
  const rows = masked.length === 0 ? [] : await ledger.signals.listSealedPayloads(masked);
  const sealedOf = new Map(rows.map(({ signalId, sealed }) => [signalId, sealed]));
  return signals.map((signal) =>
    isMasked(signal.metadata)
      ? openOne(signal.id, sealedOf.get(signal.id), vault)
      : { payload: parseJson(signal.data) as Json },
  );
}

function openOne(
  id: string,
  sealed: SealedText | undefined,
  vault: Pick<Vault, 'open'>,
): OpenedPayload {
  try {
    if (sealed === undefined) throw unsealed(id);
    return { payload: parseJson(vault.open(sealed, purposes.payload(id))) as Json };
  } catch (error) {
    if (error instanceof DuctileError) return { refused: error };
    throw error;
  }
}

function unsealed(id: string): DuctileError {
  const message = `signal ${id} was masked, and what it said was not sealed`;
  return new DuctileError('SIGNAL_MASKED', message, { place: id });
}
