import type { Timestamp } from '../base/clock.ts';
import { isObject, parseStoredJson, type JsonObject } from '../base/json.ts';
import type { SealedText } from '../base/seal.ts';
import { limits } from '../base/limits.ts';

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

/** The types of the signals that a breaker opened and that it closed. */
export const breakerSignals = ['breaker.opened', 'breaker.closed'] as const;

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
  readonly sealed?: SealedText;
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

/**
 * What is wrong with the type of a signal that is no plugin's, or undefined when nothing is. Plugins
 * may name their events as they like.
 */
export function findNameFault(name: string): string | undefined {
  if (name.length > limits.eventTypeBytesMax) {
    return `is longer than ${limits.eventTypeBytesMax} characters`;
  }
  if (!NAME.test(name)) return 'must be lowercase words with dots between, such as order.paid';
  const version = name.split('.').find((word) => VERSION.test(word));
  return version === undefined ? undefined : `has the version ${version} in it, which is for data`;
}

const NAME = /^[a-z][a-z0-9_-]*(\.[a-z][a-z0-9_-]*)+$/;
const VERSION = /^v\d+([_-]\d+)*$/;

/** The key of a signal's metadata, and of the reserved part of the baggage, for deliveries. */
const WEBHOOK_KEY = 'webhook';

/** How the source of a delivery's signal begins. */
export const WEBHOOK_SOURCE = 'webhook:';

type Described = Pick<SignalDraft, 'source' | 'metadata'>;

/** The webhook, event type and headers in the metadata of a delivery's signal. */
export function deliveryEventIn({ source, metadata }: Described): JsonObject | undefined {
  if (!source.startsWith(WEBHOOK_SOURCE)) return undefined;
  // Most signals say nothing of it, and parsing would cost all of them.
  if (metadata?.includes(`"${WEBHOOK_KEY}":`) !== true) return undefined;
  const parsed = parseStoredJson(metadata);
  const event = isObject(parsed) ? parsed[WEBHOOK_KEY] : undefined;
  return isObject(event) ? event : undefined;
}

/** The sender's event type behind a signal, in the form that routes and pipelines match. */
export function eventBehind(signal: Described): string | undefined {
  const event = deliveryEventIn(signal)?.['event'];
  return typeof event === 'string' ? event : undefined;
}

/** A delivery's event as metadata. */
export function toEventMetadata(event: JsonObject | undefined): JsonObject {
  return event === undefined ? {} : { [WEBHOOK_KEY]: event };
}

/** The same as baggage, in the part that no step may write. */
export function toEventBaggage(event: JsonObject | undefined): JsonObject {
  return event === undefined ? {} : { ductile: { [WEBHOOK_KEY]: event } };
}

const commonOfEnds = [
  'message',
  'next',
  'job_id',
  'plugin',
  'command',
  'status',
  'attempt',
  'parent_job_id',
  'submitted_by',
  'actor',
  // Only of plugins with `notify_on_complete`.
  'notify_on_complete',
  'text',
];

/**
 * The members of the payloads of Ductile's own signals, by the signal's type. A template for one of
 * these signals is checked against them before anything happens.
 */
export const runtimePayloadKeys: Readonly<Record<string, readonly string[]>> = {
  'job.dead': [...commonOfEnds, 'reason', 'error'],
  'job.succeeded': [...commonOfEnds, 'result'],
  'run.halted': ['message', 'next', 'run_id', 'pipeline', 'reason', 'halted_at_step', 'branches'],
  'run.awaiting_approval': [
    'message',
    'next',
    'run_id',
    'pipeline',
    'step',
    'step_id',
    'branch_id',
    'timeout_ms',
  ],
  'incident.opened': ['message', 'next', 'incident_id', 'kind', 'key', 'count', 'status', 'detail'],
  'incident.closed': ['message', 'next', 'incident_id', 'kind', 'key', 'count', 'status', 'detail'],
  'breaker.opened': ['message', 'plugin', 'command', 'from_state', 'failure_count', 'job_id'],
  'breaker.closed': ['message', 'plugin', 'command', 'from_state', 'failure_count', 'job_id'],
};
