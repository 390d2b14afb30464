import type { Timestamp } from '../base/clock.ts';
import type { SealedText } from '../base/seal.ts';

/** Secrets at rest: the ledger sees ciphertext alone. */
export interface CredentialVerbs {
  credentials(): Promise<CredentialRow[]>;
  credential(name: string): Promise<SealedCredential | undefined>;
  /** These were used since the last time this was said. */
  noteCredentialUse(names: readonly string[]): Promise<void>;
  /** What these signals said before they were masked; those that were not are left out. */
  sealedPayloads(signalIds: readonly string[]): Promise<SealedPayload[]>;
  /** How much is sealed with each key. */
  sealCounts(): Promise<SealCount[]>;
  /** What is sealed with this key, some at a time: behind the last one of those before. */
  sealedUnder(keyId: string, after: Place | undefined, limit: number): Promise<SealedThing[]>;
  /** Puts newly sealed texts in the place of those that have not changed meanwhile; says of how many. */
  reseal(changes: readonly Reseal[]): Promise<number>;
}

export interface CredentialRow {
  readonly id: string;
  readonly name: string;
  readonly provider: string | null;
  readonly keyId: string;
  readonly createdBy: string;
  readonly createdAt: Timestamp;
  readonly updatedBy: string;
  readonly updatedAt: Timestamp;
  readonly lastUsedAt: Timestamp | null;
  readonly expiresAt: Timestamp | null;
  /** By the database's clock. */
  readonly isExpired: boolean;
}

export interface SealedCredential extends CredentialRow {
  readonly sealed: SealedText;
}

/** The one of that name, new or in the place of the one before. */
export interface CredentialDraft {
  readonly id: string;
  readonly name: string;
  readonly provider: string | null;
  readonly sealed: SealedText;
  /** From now, by the database's clock. */
  readonly expiresInMs: number | undefined;
}

export interface SealedPayload {
  readonly signalId: string;
  readonly sealed: SealedText;
}

export interface SealedThing {
  readonly kind: 'credential' | 'payload' | 'webhook';
  /** A credential's name, a payload's signal, a webhook's id. */
  readonly id: string;
  readonly sealed: SealedText;
}

type Place = Pick<SealedThing, 'kind' | 'id'>;

export interface Reseal extends SealedThing {
  readonly after: SealedText;
}

export interface SealCount {
  readonly keyId: string;
  readonly credentials: number;
  readonly payloads: number;
  readonly webhooks: number;
}
