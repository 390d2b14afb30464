import { columnOf, jsonColumn, table, type RowOf } from '../ledger/table.ts';
import type { SealedText } from '../base/seal.ts';
import type { Role } from '../base/roles.ts';

export const credentialTable = table('credentials', {
  id: 'text',
  name: 'text',
  provider: 'text?',
  keyId: 'text',
  sealed: 'text',
  createdBy: 'text',
  createdAt: 'time',
  updatedBy: 'text',
  updatedAt: 'time',
  lastUsedAt: 'time?',
  expiresAt: 'time?',
});

export interface CredentialRow extends Omit<RowOf<typeof credentialTable>, 'sealed'> {
  /** Decided by the database's clock. */
  readonly isExpired: boolean;
}

export interface SealedCredential extends CredentialRow {
  readonly sealed: SealedText;
}

/** A new credential, or a new value of an existing one. */
export interface CredentialDraft extends Pick<
  SealedCredential,
  'id' | 'name' | 'provider' | 'sealed'
> {
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

export const apiTokenTable = table('api_tokens', {
  id: 'text',
  name: 'text',
  digest: 'text',
  role: columnOf<Role>('text'),
  /** Without the scopes of its role. */
  scopes: jsonColumn<readonly string[]>(),
  createdBy: 'text',
  createdAt: 'time',
  expiresAt: 'time?',
  rotatedAt: 'time?',
  lastUsedAt: 'time?',
});

export interface ApiTokenRow extends RowOf<typeof apiTokenTable> {
  /** Decided by the database's clock. */
  readonly expired: boolean;
}

export interface TokenDraft extends Pick<
  ApiTokenRow,
  'id' | 'name' | 'digest' | 'role' | 'scopes'
> {
  /** Measured by the database's clock. */
  readonly expiresInMs: number | undefined;
}
