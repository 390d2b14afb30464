import type { Timestamp } from '../base/clock.ts';
import type { CopyDirective } from '../directive/types.ts';
import type { IndexCheck } from './check.ts';
import type { LedgerNotifications } from './notifier.ts';
import type { nouns } from './nouns.ts';
import type { LedgerRules } from './rules.ts';
import type { BoundNouns } from './verbs.ts';

type LedgerNouns = BoundNouns<typeof nouns>;

/**
 * A tenant's durable record. Each noun has its verbs, such as `ledger.jobs.claim(…)`; `nouns.ts` lists them.
 * Each writing verb is one whole transaction and resolves only after its commit. Callers can't compose
 * transactions. Verbs take and return plain data. The caller makes ids and tokens, so that a verb can be
 * repeated after a lost response and still happens once.
 */
export interface Ledger extends LedgerNouns, LedgerNotifications {
  readonly kind: 'sqlite' | 'postgres';
  /** Reads the database's clock. */
  now(): Promise<Timestamp>;

  /** Copies the ledger into a file, in which the directive that makes the copy is completed. */
  backup(path: string, directive?: CopyDirective): Promise<void>;
  /** Returns every inconsistency that the database and our own invariants can show. */
  check(): Promise<string[]>;
  /** Returns the inconsistencies that can be found quickly, even in a large ledger. */
  quickCheck(): Promise<string[]>;
  /** Compares indexes with their tables. It can take long, and other work continues meanwhile. */
  checkIndexes(): Promise<IndexCheck>;
  close(): Promise<void>;

  /** Replaces rules that the ledger was opened with. An engine calls it before its first write. */
  provideRules(rules: Partial<LedgerRules>): void;
}

type VerbPath = {
  [Noun in keyof LedgerNouns]: `${Noun}.${keyof LedgerNouns[Noun] & string}`;
}[keyof LedgerNouns];

type NounOf<Path> = Path extends `${infer Noun}.${string}` ? Noun & keyof LedgerNouns : never;
type VerbOf<Path, Noun extends string> = Path extends `${Noun}.${infer Name}` ? Name : never;

/** The part of a ledger that a function uses, such as `LedgerSubset<'jobs.find' | 'now'>`. */
export type LedgerSubset<Path extends VerbPath | Exclude<keyof Ledger, keyof LedgerNouns>> = {
  readonly [Noun in NounOf<Path>]: Pick<
    LedgerNouns[Noun],
    VerbOf<Path, Noun> & keyof LedgerNouns[Noun]
  >;
} & Pick<Ledger, Extract<Path, keyof Ledger>>;

/** Verbs that replace those of a ledger. */
export type LedgerOverlay = {
  readonly [Noun in keyof LedgerNouns]?: Partial<LedgerNouns[Noun]>;
} & Partial<Omit<Ledger, keyof LedgerNouns>>;

/**
 * Returns the ledger with some verbs replaced. All others stay the ledger's own, even if one of them is
 * replaced later.
 */
export function overlayLedger(ledger: Ledger, overlay: LedgerOverlay): Ledger {
  const members = Object.entries(overlay).map(([name, value]) => {
    if (typeof value !== 'object') return [name, value];
    const noun = ledger[name as keyof LedgerNouns];
    return [name, Object.assign(Object.create(noun) as object, value)];
  });
  return Object.assign(Object.create(ledger) as Ledger, Object.fromEntries(members));
}
