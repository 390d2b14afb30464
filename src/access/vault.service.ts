import { DuctileError, messageOf } from '../base/errors.ts';
import { fingerprintSecret, sealText, unsealText, type MasterKey } from '../base/seal.ts';
import type { LedgerSubset } from '../ledger/ledger.ts';
import type { KeyRing } from './key-ring.service.ts';
import type { Vault } from './vault.ts';

const ROOT_LEDGER = 'root';

/** How a tenant's ledger is called in what is sealed. */
export function tenantLedger(slug: string): string {
  return `tenant ${slug}`;
}

/** Before the first key is made: who lost theirs must hear of it, and not get another one. */
export async function guardFirstKey(
  vault: Vault,
  ledger: LedgerSubset<'seals.count'>,
): Promise<void> {
  if (vault.keyIds.length === 0 && (await ledger.seals.count()).length > 0) vault.refuseFirst();
}

/** Reads which keys are here; none, where the key file can't be used. */
export function readKeyIds(vault: Pick<Vault, 'keyIds'>): readonly string[] {
  try {
    return vault.keyIds;
  } catch (error) {
    if (error instanceof DuctileError && error.code === 'CREDENTIAL_KEY_INVALID') return [];
    throw error;
  }
}

/** Whether a repeated request brings the secret whose fingerprint is on record; or both bring none. */
export function isSameSecret(
  secret: string | undefined,
  purpose: string,
  print: string | undefined,
  vault: Vault,
): boolean {
  if (secret === undefined || print === undefined) return secret === print;
  return vault.hasFingerprint(secret, purpose, print);
}

/** `ledger`: a name that the ledger itself doesn't hold, so that writing to the ledger can't change it. */
export function makeVault(ring: KeyRing, ledger: string = ROOT_LEDGER): Vault {
  return {
    get keyId() {
      return ring.newest().id;
    },
    seal: (clear, row) => sealText(clear, { ledger, row }, ring.newest()),
    open(sealed, purpose) {
      const key = mustFind(ring, sealed.keyId);
      try {
        return unsealText(sealed, { ledger, row: purpose }, key);
      } catch (error) {
        const message = `what was sealed for ${purpose} does not open: ${messageOf(error)}`;
        const hint = 'It was changed, or belongs to something else: set it anew.';
        throw new DuctileError('CREDENTIAL_KEY_INVALID', message, { hint, cause: error });
      }
    },
    fingerprint: (value, purpose) => fingerprintSecret(value, purpose, ring.newest()),
    hasFingerprint(value, purpose, print) {
      const key = ring.find(print.slice(0, print.indexOf(':')));
      return key !== undefined && fingerprintSecret(value, purpose, key) === print;
    },
    renew: (reason) => ring.renew(reason)?.id,
    refuseFirst: () => ring.refuseFirst(),
    forLedger: (name) => makeVault(ring, name),
    place: ring.place,
    get keyIds() {
      return ring.all().map(({ id }) => id);
    },
  };
}

function mustFind(ring: KeyRing, keyId: string): MasterKey {
  const key = ring.find(keyId);
  if (key !== undefined) return key;
  throw new DuctileError('CREDENTIAL_KEY_MISSING', `the key ${keyId} is not here`, {
    place: ring.place,
  });
}
