import type { Timestamp } from '../base/clock.ts';

/** Returns the PostgreSQL schema of a tenant. */
export function tenantSchema(slug: string): string {
  return `org_${slug}`;
}

/** Keys that identify a ledger: the digest of a token, the id of a webhook. */
export type TenantKeyKind = 'token' | 'hook';

export const tenantStatuses = ['creating', 'active', 'suspended', 'deleting'] as const;
export type TenantStatus = (typeof tenantStatuses)[number];

export interface TenantDraft {
  readonly slug: string;
  readonly title: string;
  readonly limits: TenantLimits;
  readonly createdBy: string;
}

/** Limits of shared resources; null is unlimited. */
export interface TenantLimits {
  readonly workers: number | null;
  readonly queueLength: number | null;
  readonly signalsPerMinute: number | null;
  readonly storageBytes: number | null;
}

export interface TenantSchema {
  readonly version: number;
  /** The reason why its schema isn't up to date. */
  readonly error: string | null;
}

export interface TenantRow extends TenantDraft {
  readonly status: TenantStatus;
  /** The time of the next due work; null if unknown. */
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
