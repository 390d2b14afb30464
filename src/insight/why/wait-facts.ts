import type { Timestamp } from '../../base/clock.ts';
import type { UsualDuration } from '../usual-duration.service.ts';
import type { Job } from '../../job/job.ts';
import type { PluginSwitch } from '../../directive/types.ts';
import type { PluginHealth } from '../../config/snapshot-types.ts';
import type { DependencyHolder, Line } from '../../tenant/outlook.ts';

/** Who paused or suspended something, as far as that is on record. */
export interface DirectiveAuthor {
  readonly actor: string | null;
  readonly at: Timestamp | null;
}

/** What holds everything back in a ledger. */
export interface ServiceFacts {
  /** Processes that have said lately that they live. */
  readonly hosts: readonly { readonly id: string; readonly host: string; readonly slots: number }[];
  /** Why the process that answers cannot write to the ledger. */
  readonly trouble: string | undefined;
  readonly paused: DirectiveAuthor | undefined;
  readonly tenant:
    | {
        readonly slug: string;
        readonly held: 'tenant_limit' | 'tenant_suspended' | undefined;
        readonly workers: number | undefined;
      }
    | undefined;
}

/** What holds a plugin back. */
export interface PluginFacts {
  readonly name: string;
  readonly state: 'loaded' | 'disabled' | 'dormant' | 'broken' | 'unknown';
  /** Some live process knows it, here or elsewhere. */
  readonly isKnown: boolean;
  readonly switchedOff: PluginSwitch | undefined;
  /** Its setup, unless it has none or that went well. */
  readonly init: PluginHealth | undefined;
  /** Undefined where nobody set a limit. */
  readonly parallelism: number | undefined;
  /** Several of its jobs may run at a time. */
  readonly isConcurrencySafe?: boolean | undefined;
  readonly runnerGraceMs: number;
  /** Credentials of its configuration that this process can't open or find. */
  readonly credentials?: readonly CredentialFault[] | undefined;
}

/** A credential that a plugin needs and doesn't get; without a key it isn't there at all. */
export interface CredentialFault {
  readonly name: string;
  /** The key that sealed it, which isn't here. */
  readonly keyId: string | undefined;
}

export interface WaitFacts {
  readonly job: Job;
  readonly service: ServiceFacts;
  readonly plugin: PluginFacts;
  readonly queue: Line;
  /** Who has its dependency key, or stands first in the line of it. */
  readonly holder?: DependencyHolder | undefined;
  /** The database's time. */
  readonly now?: Timestamp | undefined;
  /** How long running jobs usually take, by their ids. */
  readonly usual?: ReadonlyMap<string, UsualDuration> | undefined;
}
