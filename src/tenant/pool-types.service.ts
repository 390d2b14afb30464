import type { Service } from '../base/service.ts';
import type { TenantKeyKind, TenantRow } from './types.ts';
import type { Tenants } from '../engine/engine.ts';

/** The same, for whoever runs the process. */
export interface TenantKeeper extends Tenants, Service {
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
