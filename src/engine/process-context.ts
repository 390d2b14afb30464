import type { Principal } from '../access/tokens.service.ts';
import { RunTokens } from '../access/credentials.service.ts';
import type { Vault } from '../access/vault.ts';
import type { Log } from '../base/log.ts';
import type { Directive } from '../directive/directive.ts';
import { makeIndexChecks, type IndexChecks } from '../insight/index-checks.service.ts';
import { makeMetrics, type Metrics } from '../insight/metrics.service.ts';
import { noTracer, type Tracer } from '../insight/tracer.service.ts';
import type { Runner } from '../job/run-plugin.service.ts';
import { makeSlotPool, type SlotPool } from '../job/slots.service.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { Host } from '../plugin/process.ts';
import type { TenantPool, TenantSelf } from '../tenant/tenants.ts';
import type { IsolationOf } from '../tenant/require-isolation.service.ts';
import type { Reach } from './context.ts';
import type { EngineDirective } from './directive-context.ts';
import type { Engine } from './engine.ts';
import type { Blueprint } from './generation.ts';
import type { BlueprintSource } from './reload.ts';

/** Objects that all ledgers of a process share. */
export interface ProcessContext {
  readonly version: string;
  /** The directory of the packages that come with the program; undefined if there is none. */
  readonly shippedPackages: string | undefined;
  readonly reach: Reach;
  /** The tokens of attempts that run in this process. */
  readonly runTokens: RunTokens;
  /** The slots for attempts. */
  readonly slotPool: SlotPool;
  /** Compares indexes, one ledger at a time. */
  readonly indexChecks: IndexChecks;
  readonly metrics: Metrics;
  readonly tracer: Tracer;
  /** All types of directives. */
  readonly directives: readonly EngineDirective[];
  /** Throws if the requester of a directive has lost the right to it while the directive waited. */
  readonly authorize: (engine: Engine, principal: Principal, directive: Directive) => Promise<void>;
}

/** Creates the context with defaults; `slots` returns the number of attempts that may run at once. */
export function createProcessContext(
  slots: () => number,
  given: Pick<ProcessContext, 'version' | 'directives' | 'authorize'> & Partial<ProcessContext>,
): ProcessContext {
  return {
    shippedPackages: undefined,
    reach: { api: undefined, webhooks: undefined },
    runTokens: new RunTokens(),
    slotPool: makeSlotPool(slots),
    indexChecks: makeIndexChecks(),
    metrics: makeMetrics(),
    tracer: noTracer,
    ...given,
  };
}

/** Input of an engine for one ledger. The caller owns the ledger. */
export interface LedgerSetup {
  readonly ledger: Ledger;
  /** The first generation is created from it. */
  readonly blueprint: Blueprint;
  /** Reads the files again for a reload. */
  readonly source: BlueprintSource;
  /** Starts plugin processes. */
  readonly host: Host;
  /** Runs commands in plugin processes. */
  readonly runner: Runner;
  readonly vault: Vault;
  /** Undefined for the root ledger. */
  readonly tenant?: TenantSelf | undefined;
  /** The other ledgers of the process; only the root ledger has them. */
  readonly tenants?: TenantPool<Engine> | undefined;
  /** Isolates the plugins of tenants; only for the root ledger. */
  readonly isolation?: IsolationOf | undefined;
  readonly log: Log;
}
