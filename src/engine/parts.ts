import type { Log } from '../base/log.ts';
import type { Config } from '../config/config.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { Host } from '../plugin/process.ts';
import type { Blueprint } from './generation.ts';
import type { Runner } from './runner.ts';

/** What an engine is made of; whoever makes it owns the ledger. */
export interface EngineParts {
  /** What it begins with. */
  readonly blueprint: Blueprint;
  /** Reads everything again, under the rules of what is in force; throws what is wrong with it. */
  readonly load: (inForce: Config) => Blueprint;
  readonly ledger: Ledger;
  readonly host: Host;
  readonly runner: Runner;
  readonly version: string;
  readonly log: Log;
}
