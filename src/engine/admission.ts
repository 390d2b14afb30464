/** What somebody brings. */
export interface Brought {
  readonly jobs: number;
  readonly signals: number;
}

/** Has it done, if there is room for it; throws TENANT_SUSPENDED or TENANT_LIMIT otherwise. */
export type Within = <T>(brought: Brought, work: () => Promise<T>) => Promise<T>;
