import { DuctileError, messageOf } from '../base/errors.ts';
import {
  fingerprintSecret,
  sealText,
  unsealText,
  type MasterKey,
  type SealedText,
} from '../base/seal.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { KeyRing } from './key-ring.service.ts';

/** Seals and opens with the keys of this installation; the keys themselves never leave it. */
export interface Vault {
  /** The key that seals from now on; made on first use. */
  readonly keyId: string;
  seal(clear: string, purpose: string): SealedText;
  /** Throws CREDENTIAL_KEY_MISSING when it was sealed with a key that is not here. */
  open(sealed: SealedText, purpose: string): string;
  /** Equal for equal values; it tells nothing of the value to who has not the key. */
  fingerprint(value: string, purpose: string): string;
  /** Whether this is the fingerprint of a value, whichever key was the newest when it was made. */
  hasFingerprint(value: string, purpose: string, print: string): boolean;
  /** Makes a new key that seals from now on, once for each reason; undefined where keys are given. */
  renew(reason: string): string | undefined;
  /** Makes no first key from now on: something is sealed with one that is not here. */
  refuseFirst(): void;
  /** The same keys for another ledger: what one seals, the other doesn't open. */
  forLedger(name: string): Vault;
  /** Where its keys come from, in words. */
  readonly place: string;
  /** Which keys are here, the newest first; none is made for that. */
  readonly keyIds: readonly string[];
}

const ROOT_LEDGER = 'root';

/** How a tenant's ledger is called in what is sealed. */
export function tenantLedger(slug: string): string {
  return `tenant ${slug}`;
}

/** What a text was sealed for: it opens for nothing else. */
export const purposes = {
  credential: (name: string) => `credential ${name}`,
  payload: (signalId: string) => `signal ${signalId}`,
  webhook: (hookId: string) => `webhook ${hookId}`,
} as const;

/** Before the first key is made: who lost theirs must hear of it, and not get another one. */
export async function guardFirstKey(
  vault: Vault,
  ledger: Pick<Ledger, 'sealCounts'>,
): Promise<void> {
  if (vault.keyIds.length === 0 && (await ledger.sealCounts()).length > 0) vault.refuseFirst();
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
