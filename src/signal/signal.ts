import { table, type Optional, type RowOf } from '../ledger/table.ts';
import type { Timestamp } from '../base/clock.ts';
import { isObject, parseStoredJson, type JsonObject } from '../base/json.ts';
import type { DirectiveDraft } from '../directive/directive.ts';
import type { SealedText } from '../base/seal.ts';
import { limits } from '../base/limits.ts';

/** The source of Ductile's own signals. Plugins' signals have `plugin:<name>`. */
export const RUNTIME_SOURCE = 'ductile';

export function pluginSource(plugin: string): string {
  return `${PLUGIN_PREFIX}${plugin}`;
}

/** The schema version that each signal names in its metadata. */
export const SCHEMA_VERSION = 1;

/** The metadata of signals without further metadata. */
export const PLAIN_METADATA = JSON.stringify({ schema_version: SCHEMA_VERSION });

/** Returns the metadata of a signal that an actor caused, with the actor's role at that time. */
export function metadataOf(
  actor: string,
  role: string | null | undefined,
): JsonObject & { readonly schema_version: number } {
  const own = role === null || role === undefined ? {} : { actor_role: role };
  return { schema_version: SCHEMA_VERSION, actor, ...own };
}

/** Returns the sender as routes and pipelines name it: a plugin by its name alone. */
export function senderOf(source: string): string {
  return source.startsWith(PLUGIN_PREFIX) ? source.slice(PLUGIN_PREFIX.length) : source;
}

const PLUGIN_PREFIX = 'plugin:';

/** The types of the signals that a breaker opened and that it closed. */
export const breakerSignals = ['breaker.opened', 'breaker.closed'] as const;

export const signalTable = table('signals', {
  seq: 'int',
  id: 'text',
  type: 'text',
  source: 'text',
  subjectType: 'text?',
  subjectId: 'text?',
  /** JSON text. */
  data: 'text',
  metadata: 'text',
  hops: 'int',
  correlationId: 'text',
  causationId: 'text?',
  /** `internal` or `admin_only`. */
  visibility: 'text',
  /** For a plugin's event: the attempt that emitted it, and its index in the response. */
  jobId: 'text?',
  jobAttempt: 'int?',
  eventIndex: 'int?',
  /** Each source can use a dedupe key once, and an id of its own once. */
  dedupeKey: 'text?',
  sourceEventId: 'text?',
  occurredAt: 'time',
  insertedAt: 'time',
});

export type Signal = RowOf<typeof signalTable>;

type SignalProperties = Pick<Signal, 'id' | 'type' | 'source' | 'data' | 'hops' | 'correlationId'> &
  Optional<
    Signal,
    | 'subjectType'
    | 'subjectId'
    | 'metadata'
    | 'causationId'
    | 'jobId'
    | 'jobAttempt'
    | 'eventIndex'
    | 'dedupeKey'
    | 'sourceEventId'
  >;

/** An immutable fact that isn't in the ledger yet. The reporter creates the id. */
export interface SignalDraft extends SignalProperties {
  /** The whole `data`, if something in it was masked. */
  readonly sealed?: SealedText;
  readonly visibility?: 'internal' | 'admin_only';
  /** The time of the event, if it isn't now. */
  readonly occurredAt?: Timestamp;
  /** The reporter named the correlation, so it isn't inherited from the cause. */
  readonly isCorrelated?: boolean;
  /** The signal comes from a directive that a signal requested, so it must not request another. */
  readonly isQuiet?: boolean;
}

export interface SignalFilter {
  readonly id?: string;
  /** Only ids with this prefix. */
  readonly idPrefix?: string;
  readonly type?: string;
  readonly source?: string;
  readonly subjectType?: string;
  readonly subjectId?: string;
  readonly correlationId?: string;
  readonly causationId?: string;
  readonly dedupeKey?: string;
  readonly sourceEventId?: string;
  readonly jobId?: string;
  readonly visibility?: 'internal' | 'admin_only';
  /** Only signals that occurred in [from, to). */
  readonly from?: Timestamp;
  readonly to?: Timestamp;
  readonly upToSeq?: number;
  /** Keyset page: rows after this one, in the order of the list. */
  readonly beforeSeq?: number;
  readonly order?: 'newest' | 'oldest';
  /** The most data to read. One row is returned even if it is larger. */
  readonly bytesMax?: number;
  readonly limit: number;
}

export interface SignalGroup {
  readonly source: string;
  readonly type: string;
  readonly count: number;
}

/** `visitMax`: how many rows a page may read. */
export type SignalPageFilter = { readonly visitMax?: number } & Pick<
  SignalFilter,
  | 'type'
  | 'source'
  | 'subjectType'
  | 'subjectId'
  | 'correlationId'
  | 'visibility'
  | 'from'
  | 'to'
  | 'beforeSeq'
  | 'order'
  | 'limit'
>;

/**
 * Returns what is wrong with the type of a reported signal, or undefined. Plugins may name events
 * freely.
 */
export function findNameFault(name: string): string | undefined {
  if (name.length > limits.eventTypeBytesMax) {
    return `is longer than ${limits.eventTypeBytesMax} characters`;
  }
  if (!NAME.test(name)) return 'must be lowercase words separated by dots, such as order.paid';
  const version = name.split('.').find((word) => VERSION.test(word));
  return version === undefined
    ? undefined
    : `contains the version ${version}; put versions into the data`;
}

const NAME = /^[a-z][a-z0-9_-]*(\.[a-z][a-z0-9_-]*)+$/;
const VERSION = /^v\d+([_-]\d+)*$/;

/** The key of deliveries in a signal's metadata and in the reserved part of the baggage. */
const WEBHOOK_KEY = 'webhook';

/** The prefix of the source of a delivery's signal. */
export const WEBHOOK_SOURCE = 'webhook:';

export function webhookSource(webhookId: string): string {
  return `${WEBHOOK_SOURCE}${webhookId}`;
}

/** The type of a delivery's signal, unless its webhook sets another one. */
export const DELIVERY_SIGNAL = 'webhook.received';

/**
 * Returns the id of the webhook that started its own target with this signal. A replay of the signal
 * doesn't start that target again: only its routes and pipelines are replayed.
 */
export function findStartingWebhook({
  type,
  source,
}: Pick<SignalDraft, 'type' | 'source'>): string | undefined {
  const isDelivery = type === DELIVERY_SIGNAL && source.startsWith(WEBHOOK_SOURCE);
  return isDelivery ? source.slice(WEBHOOK_SOURCE.length) : undefined;
}

type SignalOrigin = Pick<SignalDraft, 'source' | 'metadata'>;

/** Reads the webhook, event type and headers from the metadata of a delivery's signal. */
export function deliveryEventIn({ source, metadata }: SignalOrigin): JsonObject | undefined {
  if (!source.startsWith(WEBHOOK_SOURCE)) return undefined;
  // Most signals have no delivery: don't parse their metadata.
  if (metadata?.includes(`"${WEBHOOK_KEY}":`) !== true) return undefined;
  const parsed = parseStoredJson(metadata);
  const event = isObject(parsed) ? parsed[WEBHOOK_KEY] : undefined;
  return isObject(event) ? event : undefined;
}

/** Reads the sender's event type of a signal, in the form that routes and pipelines match. */
export function eventBehind(signal: SignalOrigin): string | undefined {
  const event = deliveryEventIn(signal)?.['event'];
  return typeof event === 'string' ? event : undefined;
}

/** A delivery's event as metadata. */
export function toEventMetadata(event: JsonObject | undefined): JsonObject {
  return event === undefined ? {} : { [WEBHOOK_KEY]: event };
}

/** Returns the same as baggage, in the part that steps can't write. */
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
  // Only for plugins with `notify_on_complete`.
  'notify_on_complete',
  'text',
];

/**
 * The members of the payloads of Ductile's own signals, by type. Templates for these signals are
 * checked against them in advance.
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

/** A directive that a handler requests for a signal. It starts when a process looks for due directives. */
export interface SignalDirective {
  /** Always has an idempotency key. */
  readonly draft: DirectiveDraft;
  readonly forApproval: boolean;
  /** The signal of the request. */
  readonly signal: SignalDraft;
}

export type ListSignalDirectives = (signal: SignalDraft) => readonly SignalDirective[];

export type OnSignalDirectives = (directives: readonly SignalDirective[]) => void;
