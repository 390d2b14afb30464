import type { Timestamp } from '../base/clock.ts';
import type { SealedText } from '../base/seal.ts';
import type { Role } from '../base/roles.ts';

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
  /** Decided by the database's clock. */
  readonly isExpired: boolean;
}

export interface SealedCredential extends CredentialRow {
  readonly sealed: SealedText;
}

/** A new credential, or a new value of an existing one. */
export interface CredentialDraft {
  readonly id: string;
  readonly name: string;
  readonly provider: string | null;
  readonly sealed: SealedText;
  /** From now, by the database's clock. */
  readonly expiresInMs: number | undefined;
}

/** The complete payload of a masked signal. */
export interface SealedPayload {
  readonly signalId: string;
  readonly sealed: SealedText;
}

/** A sealed text and the row that it is in. */
export interface SealedRow {
  readonly kind: 'credential' | 'payload' | 'webhook';
  /** A credential's name, a payload's signal, a webhook's id. */
  readonly id: string;
  readonly sealed: SealedText;
}

/** A sealed text and the one that replaces it. */
export interface ResealedRow extends SealedRow {
  readonly after: SealedText;
}

/** The number of texts that are sealed with a key. */
export interface SealCount {
  readonly keyId: string;
  readonly credentials: number;
  readonly payloads: number;
  readonly webhooks: number;
}

export interface TokenDraft {
  readonly id: string;
  readonly name: string;
  readonly digest: string;
  readonly role: Role;
  readonly scopes: readonly string[];
  /** Measured by the database's clock. */
  readonly expiresInMs: number | undefined;
}

export interface ApiTokenRow {
  readonly id: string;
  readonly name: string;
  readonly digest: string;
  readonly role: Role;
  /** Without the scopes of its role. */
  readonly scopes: readonly string[];
  readonly createdBy: string;
  readonly createdAt: Timestamp;
  readonly expiresAt: Timestamp | null;
  readonly rotatedAt: Timestamp | null;
  readonly lastUsedAt: Timestamp | null;
  /** Decided by the database's clock. */
  readonly expired: boolean;
}
