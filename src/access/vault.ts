import type { SealedText } from '../base/seal.ts';

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
