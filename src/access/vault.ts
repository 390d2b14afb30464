import type { SealedText } from '../base/seal.ts';

/** The only user of the keys of this installation, which seals and opens secrets with them. */
export interface Vault {
  /** The current sealing key; created on first use. */
  readonly keyId: string;
  seal(clear: string, purpose: string): SealedText;
  /** Throws CREDENTIAL_KEY_MISSING if the sealing key isn't here. */
  open(sealed: SealedText, purpose: string): string;
  /** Equal for equal values. It reveals nothing without the key. */
  fingerprint(value: string, purpose: string): string;
  /** True if it is the fingerprint of a value, made with any of the keys. */
  hasFingerprint(value: string, purpose: string, print: string): boolean;
  /** Creates a new sealing key, once per reason; undefined if keys come from the environment. */
  renew(reason: string): string | undefined;
  /** Disables creating a first key, because existing secrets were sealed with a missing one. */
  forbidFirstKey(): void;
  /** Returns a vault for another ledger: neither opens the other's secrets. */
  forLedger(name: string): Vault;
  /** Describes the source of the keys. */
  readonly place: string;
  /** The known keys, newest first; never creates one. */
  readonly keyIds: readonly string[];
}
