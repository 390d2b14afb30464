import type { Timestamp } from '../base/clock.ts';
import type { Config } from '../config/config.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { Catalog } from '../plugin/catalog.ts';
import type { LiveFinding } from './finding.ts';

/** What a check may look at. */
export interface CheckContext {
  readonly ledger: Ledger;
  readonly config: Config;
  /** Undefined when the plugins can't be read; that is another finding. */
  readonly catalog: Catalog | undefined;
  /** The database's time. */
  readonly now: Timestamp;
  /** Ids of the credential keys that this process can open; undefined where they weren't read. */
  readonly keyIds: readonly string[] | undefined;
  /** False for a tenant's ledger, where findings about the whole machine are left out. */
  readonly isRoot: boolean;
  /**
   * When an operator acknowledged a finding, by its id. Objects that ended before that moment are no
   * longer part of the finding. `findLiveFindings` reads it.
   */
  readonly acknowledged?: ReadonlyMap<string, Timestamp> | undefined;
}

/**
 * Looks for one kind of trouble. Each check costs a bounded number of index-backed reads, because the
 * incident watcher runs all of them every few seconds.
 */
export type Check = (context: CheckContext) => Promise<LiveFinding[]>;
