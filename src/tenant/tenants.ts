import type { Service } from '../base/service.ts';
import { columnOf, table, type RowOf } from '../ledger/table.ts';
import type { QueueLimit } from '../job/types.ts';
import type { SkipReason } from '../schedule/schedule.ts';

/** Returns the PostgreSQL schema of a tenant. */
export function tenantSchema(slug: string): string {
  return `org_${slug}`;
}

/** Keys that identify a ledger: the digest of a token, the id of a webhook. */
export type TenantKeyKind = 'token' | 'hook';

export const tenantStatuses = ['creating', 'active', 'suspended', 'deleting'] as const;
export type TenantStatus = (typeof tenantStatuses)[number];

export const tenantTable = table('tenants', {
  slug: 'text',
  title: 'text',
  status: columnOf<TenantStatus>('text'),
  workers: 'int?',
  queueLength: 'int?',
  signalsPerMinute: 'int?',
  storageBytes: 'int?',
  /** The time of the next due work; null if unknown. */
  dueAt: 'time?',
  schemaVersion: 'int?',
  schemaError: 'text?',
  schemaAt: 'time?',
  createdBy: 'text',
  createdAt: 'time',
  updatedAt: 'time',
});

/** Limits of shared resources; null is unlimited. */
export type TenantLimits = Pick<
  RowOf<typeof tenantTable>,
  'workers' | 'queueLength' | 'signalsPerMinute' | 'storageBytes'
>;

export interface TenantRow extends Omit<RowOf<typeof tenantTable>, keyof TenantLimits> {
  readonly limits: TenantLimits;
}

export type TenantDraft = Pick<TenantRow, 'slug' | 'title' | 'limits' | 'createdBy'>;

export interface TenantSchema {
  readonly version: number;
  /** The reason why its schema isn't up to date. */
  readonly error: string | null;
}

export interface DueTenants {
  readonly slugs: readonly string[];
  readonly nextInMs: number | undefined;
}

/**
 * The ledgers of this process besides the root one. A ledger is opened, with an engine, when a
 * caller needs it or work is due. It is closed when it is idle: a thousand idle tenants are only a
 * thousand rows.
 */
export interface Tenants<TenantEngine = unknown> {
  /**
   * Returns its engine, open until the visit ends. Throws TENANT_NOT_FOUND or TENANT_UNAVAILABLE.
   */
  visit(slug: string): Promise<Visit<TenantEngine>>;
  /** Looks for due tenants soon. */
  soon(): void;
  /** Stops a tenant's engine and closes its ledger; it can't be opened until `unblock`. */
  block(slug: string): Promise<void>;
  unblock(slug: string): void;
  /** The slugs of the open tenants. */
  readonly open: readonly string[];
}

/** A use of an open tenant, which isn't closed until it ends. */
export interface Visit<TenantEngine = unknown> {
  readonly engine: TenantEngine;
  readonly tenant: TenantRow;
  end(): void;
}

/** The open tenants of a service process. */
export interface TenantPool<TenantEngine = unknown> extends Tenants<TenantEngine>, Service {
  /** Makes all tenants due, before the row of a dead process is removed: it may have had claims in each. */
  makeAllDue(): Promise<void>;
  /** Resolves when no tenant starts another job. */
  awaitPause(): Promise<void>;
  /** Called when the active configuration changed. */
  renew(): void;
}

/** The tenant of an engine. */
export interface TenantSelf {
  readonly slug: string;
  /** The latest row of the root ledger. */
  readonly row: () => TenantRow;
  /** True while the whole service is paused. */
  readonly isHeld: () => boolean;
  /** Returns whether the service may presume other processes dead; see `Liveness`. */
  readonly mayReap: () => boolean;
  /**
   * Registers a key in the root ledger, before the tenant's ledger uses it. Returns false if it
   * is in use.
   */
  addKey(kind: TenantKeyKind, key: string): Promise<boolean>;
  /** Removes a key, after the tenant's ledger stopped using it. */
  dropKey(kind: TenantKeyKind, key: string): Promise<void>;
}

/** The work that a caller brings to a ledger. */
export interface QuotaRequest {
  readonly jobs: number;
  readonly signals: number;
  /** True if the ledger counts the queue in the transaction that adds the jobs. */
  readonly isCountedByLedger?: boolean;
}

/** The limits of a tenant, checked wherever work is accepted. */
export interface Quota {
  /** Runs the work if the limits allow it. Throws TENANT_SUSPENDED or TENANT_LIMIT otherwise. */
  readonly within: <T>(request: QuotaRequest, work: () => Promise<T>) => Promise<T>;
  /** Returns the limit that the ledger checks when jobs are added; undefined if none, or too large. */
  queueLimit(): QueueLimit | undefined;
  /** Returns how many attempts may run at once on all hosts; undefined for no limit. */
  workers(): number | undefined;
  /** Returns why schedules don't fire now, without counting; undefined if they do. */
  skipReason(): Extract<SkipReason, 'tenant_limit' | 'tenant_suspended'> | undefined;
  /** Counts the usage again if there are limits and the last count is old enough. */
  review(): Promise<void>;
}
