import type { Timestamp } from '../base/clock.ts';
import type { JsonObject } from '../base/json.ts';
import type { Sealed } from '../base/seal.ts';

/** The source of the runtime's own signals. Plugins' signals carry `plugin:<name>`. */
export const RUNTIME_SOURCE = 'ductile';

export function pluginSource(plugin: string): string {
  return `${PLUGIN_PREFIX}${plugin}`;
}

/** The form of what signals carry, which each of them names in its metadata. */
export const SCHEMA_VERSION = 1;

/** Of signals about which nothing more is to be said. */
export const PLAIN_METADATA = JSON.stringify({ schema_version: SCHEMA_VERSION });

/** Of signals that somebody is behind: who, and what they were then. */
export function metadataOf(
  actor: string,
  role: string | null | undefined,
): JsonObject & { readonly schema_version: number } {
  const told = role === null || role === undefined ? {} : { actor_role: role };
  return { schema_version: SCHEMA_VERSION, actor, ...told };
}

/** Who sent a signal, as routes and pipelines name them: a plugin by its name alone. */
export function senderOf(source: string): string {
  return source.startsWith(PLUGIN_PREFIX) ? source.slice(PLUGIN_PREFIX.length) : source;
}

const PLUGIN_PREFIX = 'plugin:';

/** An immutable fact, before it is on the ledger. The id is made by whoever reports it. */
export interface SignalDraft {
  readonly id: string;
  readonly type: string;
  readonly source: string;
  readonly subjectType?: string;
  readonly subjectId?: string;
  /** JSON text. */
  readonly data: string;
  readonly metadata?: string;
  /** What `data` was before something in it was masked. */
  readonly sealed?: Sealed;
  readonly hops: number;
  readonly correlationId: string;
  readonly causationId?: string;
  readonly visibility?: 'internal' | 'admin_only';
  /** Of a plugin's event: the attempt that emitted it and its place in the response. */
  readonly jobId?: string;
  readonly jobAttempt?: number;
  readonly eventIndex?: number;
  /** When it happened, if that is not now. */
  readonly occurredAt?: Timestamp;
  /** Of one source there is one signal with such a key, and one with such an id of the provider. */
  readonly dedupeKey?: string;
  readonly sourceEventId?: string;
  /** Its correlation was named by whoever reports it, and is not that of its cause. */
  readonly isCorrelated?: boolean;
  /** No directive is asked for because of it: it comes from one that was asked for so. */
  readonly isQuiet?: boolean;
}

/** A row of signals. */
export interface Signal {
  readonly seq: number;
  readonly id: string;
  readonly type: string;
  readonly source: string;
  readonly subjectType: string | null;
  readonly subjectId: string | null;
  readonly data: string;
  readonly metadata: string;
  readonly hops: number;
  readonly correlationId: string;
  readonly causationId: string | null;
  readonly visibility: string;
  readonly jobId: string | null;
  readonly jobAttempt: number | null;
  readonly eventIndex: number | null;
  readonly dedupeKey: string | null;
  readonly sourceEventId: string | null;
  readonly occurredAt: Timestamp;
  readonly insertedAt: Timestamp;
}
