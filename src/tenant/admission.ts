import type { SkipReason } from '../schedule/schedule.ts';
import type { QueueLimit } from '../job/types.ts';

/** What somebody brings. */
export interface Brought {
  readonly jobs: number;
  readonly signals: number;
  /** The ledger counts the queue in the transaction that adds the jobs, where the limit allows that. */
  readonly isCountedThere?: boolean;
}

/** Has it done, if there is room for it; throws TENANT_SUSPENDED or TENANT_LIMIT otherwise. */
export type Within = <T>(brought: Brought, work: () => Promise<T>) => Promise<T>;

/** What a tenant may use of what all share, at the doors through which work comes in. */
export interface Quota {
  readonly within: Within;
  /** The limit that the ledger checks when jobs are added; undefined if none, or too large. */
  queueLimit(): QueueLimit | undefined;
  /** How many attempts may run at once, wherever; undefined for no limit. */
  workers(): number | undefined;
  /** Why no schedule fires for the time being, as far as is known. */
  held(): Extract<SkipReason, 'tenant_limit' | 'tenant_suspended'> | undefined;
  /** Learns what is used by now, where that decides anything. */
  review(): Promise<void>;
}
