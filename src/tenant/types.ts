import type { Timestamp } from '../base/clock.ts';

/**
 * What the root ledger knows of the others. Each verb is about the ledger it is asked of: only that of
 * the root ledger is ever asked.
 */
export interface TenantVerbs {
  tenants(): Promise<TenantRow[]>;
  tenant(slug: string): Promise<TenantRow | undefined>;
  /** Writes one down as `creating`; false when there is one of that name. */
  addTenant(draft: TenantDraft): Promise<boolean>;
  /** Only from one of these states; false when it is in none of them. One that is active is due. */
  moveTenant(slug: string, from: readonly TenantStatus[], to: TenantStatus): Promise<boolean>;
  setTenantLimits(slug: string, limits: TenantLimits): Promise<boolean>;
  /** Its row and every key that leads to it. */
  forgetTenant(slug: string): Promise<void>;
  /** Which of them have something due now, and in how many milliseconds the next one has. */
  dueTenants(limit: number): Promise<DueTenants>;
  /** Something is due in it at that time, as far as is known; null for nothing. */
  noteTenantDue(slug: string, due: 'now' | { readonly at: Timestamp } | null): Promise<void>;
  /** A process died that may have held claims in any of them: all are to be looked at. */
  noteAllTenantsDue(): Promise<void>;
  /** Resolves when every claim is committed that was in progress in a tenant's ledger, on any host. */
  awaitTenantClaims(): Promise<void>;
  /** How bringing its schema up to date ended. */
  noteTenantSchema(slug: string, report: TenantSchema): Promise<void>;
  /** Makes a key lead to a tenant, before the tenant's own ledger says so; false when it leads to another. */
  addTenantKey(kind: TenantKeyKind, key: string, slug: string): Promise<boolean>;
  dropTenantKey(kind: TenantKeyKind, key: string): Promise<void>;
  tenantOfKey(kind: TenantKeyKind, key: string): Promise<string | undefined>;
}

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
