import type { Service } from '../base/service.ts';
import type { TenantKeyKind, TenantRow } from './types.ts';

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
  /** Looks for due work now. */
  soon(): void;
  /** Stops its engine and closes its ledger; it can't be opened until `release`. */
  seclude(slug: string): Promise<void>;
  release(slug: string): void;
  /** The open tenants. */
  readonly awake: readonly string[];
}

export interface Visit<TenantEngine = unknown> {
  readonly engine: TenantEngine;
  readonly tenant: TenantRow;
  end(): void;
}

/** The part for the service process. */
export interface TenantKeeper<TenantEngine = unknown> extends Tenants<TenantEngine>, Service {
  /** Reaps claims of a dead process in all tenants. */
  mourn(): Promise<void>;
  /** Resolves when no tenant starts another job. */
  awaitPause(): Promise<void>;
  /** Called when the active configuration changed. */
  renew(): void;
}

/** What a tenant's engine knows about its tenant. */
export interface TenantSelf {
  readonly slug: string;
  /** The latest row of the root ledger. */
  readonly row: () => TenantRow;
  /** True while the whole service is paused. */
  readonly isHeld: () => boolean;
  /** Returns whether the service may presume other processes dead; see `Liveness`. */
  readonly mayReap: () => boolean;
  /**
   * Registers a key in the root ledger, before the tenant's ledger uses it. Returns false if it is
   * taken.
   */
  addKey(kind: TenantKeyKind, key: string): Promise<boolean>;
  /** Removes a key, after the tenant's ledger stopped using it. */
  dropKey(kind: TenantKeyKind, key: string): Promise<void>;
}
