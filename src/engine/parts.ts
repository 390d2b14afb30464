import type { Log } from '../base/log.ts';
import type { Config } from '../config/config.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { Host } from '../plugin/process.ts';
import type { Directive } from '../directive/directive.ts';
import type { Engine } from './engine.ts';
import type { Blueprint } from './generation.ts';
import type { Reach, RunTokens } from '../access/attempt-tokens.service.ts';
import type { Meters } from '../insight/metrics.service.ts';
import type { Runner } from '../job/run-plugin.service.ts';
import type { Principal } from '../access/principal.service.ts';
import type { TenantKeeper, TenantSelf } from '../tenant/tenants.ts';
import type { Tracer } from '../insight/tracer.service.ts';
import type { IndexChecks } from '../insight/index-checks.service.ts';
import type { Turns } from '../job/slots.service.ts';
import type { IsolationOf } from '../tenant/require-isolation.service.ts';
import type { Vault } from '../access/vault.ts';

/** What an engine is made of; whoever makes it owns the ledger. */
export interface EngineParts {
  /** What it begins with. */
  readonly blueprint: Blueprint;
  /** Reads everything again, under the rules of what is in force; throws what is wrong with it. */
  readonly load: (inForce: Config) => Blueprint;
  /** The same for a configuration that is at hand: with what installations bring. */
  readonly compile: (config: Config) => Blueprint;
  readonly ledger: Ledger;
  readonly host: Host;
  readonly runner: Runner;
  readonly version: string;
  /** What seals and opens secrets; all ledgers of a process share it. */
  readonly vault: Vault;
  /** The tokens of attempts that run in this process, of all ledgers. */
  readonly runTokens: RunTokens;
  readonly reach: Reach;
  /** The directory of the packages that come with the program; undefined for none. */
  readonly shippedPackages?: string | undefined;
  /** The places of the process, when others share them. */
  readonly turns?: Turns | undefined;
  /** Compares indexes, one ledger of the process at a time; of its own unless told. */
  readonly indexChecks?: IndexChecks | undefined;
  /** What counts for all ledgers of the process; one of its own unless told. */
  readonly meters?: Meters | undefined;
  /** Where traces of all ledgers go; nowhere unless told. */
  readonly tracer?: Tracer | undefined;
  /** The other ledgers of this process; only the engine of the root ledger has them. */
  readonly tenants?: TenantKeeper<Engine> | undefined;
  /** How plugins of tenants are kept out of what is not theirs; only for the root ledger. */
  readonly isolation?: IsolationOf | undefined;
  /** Undefined for the root ledger. */
  readonly tenant?: TenantSelf | undefined;
  /** Throws when somebody may not have this done any more, which waited for a while. */
  readonly authorize: (engine: Engine, principal: Principal, directive: Directive) => Promise<void>;
  readonly log: Log;
}
