import type { Vault } from '../access/vault.ts';
import { DuctileError } from '../base/errors.ts';
import { makeId } from '../base/ids.ts';
import type { Log } from '../base/log.ts';
import type { Config } from '../config/config.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { Catalog } from '../plugin/catalog.ts';
import type { Quota, TenantSelf } from '../tenant/tenants.ts';
import { CommitBus } from './commit-events.ts';
import type { Generation } from './generation.ts';

/** The URLs of this process's listeners, for callers on the same machine. They are set once a listener is open. */
export interface Reach {
  api: string | undefined;
  webhooks: string | undefined;
}

/** State and tools that all services of one ledger share. */
export interface LedgerContext {
  readonly ledger: Ledger;
  /** Identifies this process in the ledger. */
  readonly processId: string;
  /** Undefined for the root ledger. */
  readonly tenant: TenantSelf | undefined;
  /** The limits of the tenant. */
  readonly quota: Quota;
  /** Seals and opens secrets. */
  readonly vault: Vault;
  readonly reach: Readonly<Reach>;
  /** Reports what each commit of this process made ready. */
  readonly commits: CommitBus;
  readonly log: Log;
  /** The active generation; a reload replaces it. */
  generation: Generation;
  /** The configuration and the plugins of the active generation. */
  readonly config: Config;
  readonly catalog: Catalog;
  state: 'stopped' | 'starting' | 'running' | 'stopping';
  /** Throws STOPPING if the engine is stopping and accepts nothing new. */
  requireAccepting(): void;
}

export function createLedgerContext(
  given: Pick<
    LedgerContext,
    'ledger' | 'tenant' | 'quota' | 'vault' | 'reach' | 'log' | 'generation'
  >,
): LedgerContext {
  return {
    ...given,
    processId: makeId(),
    commits: new CommitBus(),
    state: 'stopped',
    get config() {
      return this.generation.config;
    },
    get catalog() {
      return this.generation.catalog;
    },
    requireAccepting() {
      if (this.state === 'stopping') throw new DuctileError('STOPPING', 'the service is stopping');
    },
  };
}
