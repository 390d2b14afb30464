import type { Timestamp } from '../base/clock.ts';

/** The schema of a tenant's ledger in PostgreSQL. */
export function tenantSchema(slug: string): string {
  return `org_${slug}`;
}

/** What leads to a ledger from outside: the digest of a token, the id of a webhook. */
export type TenantKeyKind = 'token' | 'hook';

export const tenantStatuses = ['creating', 'active', 'suspended', 'deleting'] as const;
export type TenantStatus = (typeof tenantStatuses)[number];

export interface TenantDraft {
  readonly slug: string;
  readonly title: string;
  readonly limits: TenantLimits;
  readonly createdBy: string;
}

/** What it may use of what all share; null for no limit. */
export interface TenantLimits {
  readonly workers: number | null;
  readonly queueLength: number | null;
  readonly signalsPerMinute: number | null;
  readonly storageBytes: number | null;
}

export interface TenantSchema {
  readonly version: number;
  /** Why it could not be brought up to date. */
  readonly error: string | null;
}

export interface TenantRow extends TenantDraft {
  readonly status: TenantStatus;
  /** Something is due then or was; null when nothing is known to be. */
  readonly dueAt: Timestamp | null;
  readonly schemaVersion: number | null;
  readonly schemaError: string | null;
  readonly schemaAt: Timestamp | null;
  readonly createdAt: Timestamp;
  readonly updatedAt: Timestamp;
}

export interface DueTenants {
  readonly slugs: readonly string[];
  readonly nextInMs: number | undefined;
}
