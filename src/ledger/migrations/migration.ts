import type { Dialect } from '../dialect.ts';

/** A numbered, forward-only step of a ledger's schema. */
export interface Migration {
  readonly version: number;
  readonly name: string;
  readonly statements: (dialect: Dialect) => string[];
}
