import type { Config } from '../config/config.ts';
import type { Engine } from '../engine/engine.ts';
import { makePrincipal, type Principal } from '../access/principal.service.ts';
import type { SubmittedBy } from '../job/job.ts';
import type { IsolationState } from '../plugin/isolation.ts';
import type { Prover } from '../engine/prover.ts';
import type { Workshop } from '../plugin/workshop.ts';

/** On whose behalf an operation runs, and on what. */
export interface Context {
  readonly engine: Engine;
  readonly principal: Principal;
  readonly submittedBy: SubmittedBy;
  /** The caller's own name for this request; asking again with it is asking once. */
  readonly idempotencyKey?: string;
  /** The configuration that it is about, and what comes with the program. */
  readonly place?: ConfigPlace;
  /** Id derived from the key, so that it is the same each time. */
  readonly subjectId?: string;
  /** Trace context of the caller, if it was sent. */
  readonly traceparent?: string;
  /** Aborted when the caller has hung up; asked for by those who make it wait. */
  readonly hungUp?: () => AbortSignal;
  /**
   * Resolves when nothing of a lineage can go on in this process, or nobody wants to know any more; only
   * where the process ends with its answer.
   */
  readonly standstill?: (rootJobId: string, over: AbortSignal) => Promise<void>;
}

export interface ConfigPlace {
  /** Path that `--config` named, or with which the service was started. */
  readonly given: string | undefined;
  /** The directory of the plugins that come with the program. */
  readonly shippedPlugins: string;
  /** Finds how plugins of tenants would be isolated here, by trying it. */
  readonly isolation?: (config: Config) => IsolationState;
  /** The ids of the credential keys that are here. */
  readonly readKeyIds?: (config: Config) => readonly string[];
  /** Only where the files of the configuration are. */
  readonly extras?: Extras;
}

/** The work of operations that is loaded on demand from `extras/`. */
export interface Extras {
  loadProver(): Promise<Prover>;
  loadWorkshop(): Promise<Workshop>;
}

/** Returns the principal of the control socket and the local command line, with all rights. */
export function ownerOf(actor: string): Principal {
  return makePrincipal(actor, OWNER_SCOPES);
}

const OWNER_SCOPES: readonly string[] = ['*'];
