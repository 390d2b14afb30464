import { readUserName } from '../base/account.ts';
import type { Config } from '../config/config.ts';
import type { Engine } from '../engine/engine.ts';
import { makePrincipal, type Principal } from '../access/tokens.service.ts';
import type { SubmittedBy } from '../job/job.ts';
import type { IsolationState } from '../plugin/isolation.ts';
import type { Extras } from './extras.ts';

/** Caller of an operation, and the engine that it runs on. */
export interface Context {
  readonly engine: Engine;
  readonly principal: Principal;
  readonly submittedBy: SubmittedBy;
  /** The caller's name for this request; a repeated request with it is done once. */
  readonly idempotencyKey?: string;
  /** The configuration's files, for operations that need `files`. */
  readonly configFiles?: ConfigFiles;
  /** The id for the object that this request creates; a repeated request gets the same id. */
  readonly subjectId?: string;
  /** The caller's trace context. */
  readonly traceparent?: string;
  /** Returns a signal that aborts when the caller disconnects; for operations that wait. */
  readonly disconnected?: () => AbortSignal;
  /**
   * Resolves when no work that descends from this job can continue in this process, or after an abort. Only
   * set if the process ends with the operation.
   */
  readonly settleLineage?: (rootJobId: string, signal: AbortSignal) => Promise<void>;
}

/** Location of the configuration's files, and functions that need them. */
export interface ConfigFiles {
  /** The path in `--config`, or the one with which the service was started. */
  readonly given: string | undefined;
  /** The directory of the plugins that come with the program. */
  readonly shippedPlugins: string;
  /** Tries how plugins of tenants would be isolated on this host. */
  readonly isolation?: (config: Config) => IsolationState;
  /** Reads the ids of the credential keys on this host. */
  readonly readKeyIds?: (config: Config) => readonly string[];
  /** Undefined in the service. */
  readonly extras?: Extras;
}

/** Returns a principal with all rights, for the control socket and the local command line. */
export function ownerOf(actor: string): Principal {
  return makePrincipal(actor, ['*']);
}

/** Returns the principal of the operator who typed a command on this machine. */
export function localOwner(): Principal {
  return ownerOf(`cli:${readUserName()}`);
}
