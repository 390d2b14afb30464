/** What somebody brings. */
export interface Brought {
  readonly jobs: number;
  readonly signals: number;
  /** The ledger counts the queue in the transaction that adds the jobs, where the limit allows that. */
  readonly isCountedThere?: boolean;
}

/** Has it done, if there is room for it; throws TENANT_SUSPENDED or TENANT_LIMIT otherwise. */
export type Within = <T>(brought: Brought, work: () => Promise<T>) => Promise<T>;
