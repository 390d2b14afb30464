import type { Service } from '../base/service.ts';
import type { TenantKeyKind, TenantRow } from './types.ts';

/**
 * The ledgers of this process besides the root one. One is opened, with an engine over it, when
 * somebody asks for it or when something is due in it, and closed again when nothing is to be done
 * there: a thousand tenants that do nothing are a thousand rows and no more.
 */
export interface Tenants<TenantEngine = unknown> {
  /** Its engine, awake until the visit ends; throws TENANT_NOT_FOUND, TENANT_UNAVAILABLE. */
  visit(slug: string): Promise<Visit<TenantEngine>>;
  /** Something may be due in some of them: look now. */
  soon(): void;
  /** Stops its engine and closes its ledger; nobody gets in until it is `release`d. */
  seclude(slug: string): Promise<void>;
  release(slug: string): void;
  /** Which are awake now. */
  readonly awake: readonly string[];
}

export interface Visit<TenantEngine = unknown> {
  readonly engine: TenantEngine;
  readonly tenant: TenantRow;
  end(): void;
}

/** The same, for whoever runs the process. */
export interface TenantKeeper<TenantEngine = unknown> extends Tenants<TenantEngine>, Service {
  /** A process of the root ledger died: its claims in any of them are to be taken back. */
  mourn(): Promise<void>;
  /** The system is paused: resolves when no ledger of a tenant starts another job. */
  awaitPause(): Promise<void>;
  /** What the process has in force is another now, and so what they share of it. */
  renew(): void;
}

/** What the engine of a tenant knows about being one. */
export interface TenantSelf {
  readonly slug: string;
  /** What the root ledger says of it, as last heard. */
  readonly row: () => TenantRow;
  /** Whether the process as a whole is paused: then nothing is started in any ledger. */
  readonly isHeld: () => boolean;
  /** Whether the process as a whole was well for long enough to judge others; see `Vitals`. */
  readonly mayJudge: () => boolean;
  /** Makes a key lead here, on the root ledger; before anything here says so. False when it is taken. */
  addKey(kind: TenantKeyKind, key: string): Promise<boolean>;
  /** A key leads nowhere any more; after nothing here says that it does. */
  dropKey(kind: TenantKeyKind, key: string): Promise<void>;
}
