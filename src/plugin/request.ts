import type { Timestamp } from '../base/clock.ts';
import { isObject, type Json, type JsonObject } from '../base/json.ts';
import { TRACE_KEY } from '../base/trace.ts';
import { PROTOCOL } from './manifest.ts';

/** What one attempt tells its plugin. */
export interface PluginRequest {
  readonly jobId: string;
  readonly command: string;
  /** The name the plugin runs under, which is not its manifest's when it is an alias. */
  readonly instance: string;
  readonly attempt: number;
  /** The same for every attempt at the same work. */
  readonly idempotencyKey: string;
  readonly config: Readonly<JsonObject>;
  readonly state: Readonly<JsonObject>;
  readonly context: Readonly<JsonObject>;
  /** As the job stores it: data, or an event around its data. */
  readonly payload: Json;
  /** The same as JSON without line breaks, where it need not be written anew. */
  readonly payloadText?: string;
  /** Of a pipeline: the run and the step that it is; its payload is always data. */
  readonly step?: StepRequest;
  readonly deadlineAt: Timestamp;
  /** Where in a trace the attempt stands, in W3C's words. */
  readonly traceparent?: string;
  /** Where and how the API may be asked while the attempt goes on. */
  readonly api?: JsonObject;
}

export interface StepRequest {
  readonly runId: string;
  readonly stepId: string;
  /** What else is in its payload: members as they stand in JSON between the braces. */
  readonly beneath: Buffer;
  /** The names of those members. */
  readonly beneathKeys?: readonly string[];
  /** The event that caused the step: all of it but its payload, which is the step's own. */
  readonly event?: JsonObject | undefined;
}

/**
 * Encodes one JSON object and a newline. Only `handle` gets `event`, and its `payload` is the event's,
 * so that a plugin finds its data in the same member whatever started the job.
 */
export function encodeRequest(request: PluginRequest): Buffer {
  const { command, payload, step } = request;
  if (step !== undefined) return encodeStep(request, step);
  const { payloadText = JSON.stringify(payload) } = request;
  const head = JSON.stringify(headOf(request)).slice(0, -1);
  if (command !== 'handle') return Buffer.from(`${head},"payload":${payloadText}}\n`);
  const event = asEvent(payload);
  const data = event === undefined ? payload : (event['payload'] ?? null);
  const dataText = event === undefined ? payloadText : JSON.stringify(data);
  const eventText =
    event === undefined ? `{"type":"${ASKED_EVENT}","payload":${payloadText}}` : payloadText;
  const baggage = isObject(data) ? listBaggage(request.context, Object.keys(data)) : [];
  if (baggage.length === 0) {
    return Buffer.from(`${head},"payload":${dataText},"event":${eventText}}\n`);
  }
  const merged = { ...Object.fromEntries(baggage), ...(data as JsonObject) };
  const carrying = JSON.stringify({ type: ASKED_EVENT, ...event, payload: merged });
  return Buffer.from(`${head},"payload":${dataText},"event":${carrying}}\n`);
}

/** Puts it together from bytes: the payload beneath is the same for many steps, and may be large. */
function encodeStep(request: PluginRequest, step: StepRequest): Buffer {
  const { runId, stepId, beneath, beneathKeys = [], event = { type: STEP_EVENT } } = step;
  const head = JSON.stringify({ ...headOf(request), run_id: runId, step_id: stepId }).slice(0, -1);
  const own = JSON.stringify(request.payload);
  const comma = own === '{}' ? '' : ',';
  const rest = beneath.length === 0 ? own.slice(1) : `${comma}${own.slice(1)}`;
  if (request.command !== 'handle') {
    return Buffer.concat([Buffer.from(`${head},"payload":{`), beneath, Buffer.from(`${rest}}\n`)]);
  }
  const { type, ...others } = event;
  const ownKeys = isObject(request.payload) ? Object.keys(request.payload) : [];
  const baggage = listBaggage(request.context, [...ownKeys, ...beneathKeys]);
  const carried = JSON.stringify(Object.fromEntries(baggage)).slice(1, -1);
  const hasMore = beneath.length > 0 || own !== '{}';
  const opened = `${JSON.stringify({ type }).slice(0, -1)},"payload":{${carried}`;
  const tail = JSON.stringify(others).slice(1);
  return Buffer.concat([
    Buffer.from(`${head},"payload":{`),
    beneath,
    Buffer.from(`${rest},"event":${opened}${carried !== '' && hasMore ? ',' : ''}`),
    beneath,
    Buffer.from(`${rest}${tail === '}' ? '' : ','}${tail}}\n`),
  ]);
}

type Members = readonly (readonly [string, Json])[];

/**
 * The baggage that `event.payload` gets, as plugins of the original project expect: the payload's own
 * members win, and what Ductile keeps in the baggage for itself is left out.
 */
function listBaggage(context: Readonly<JsonObject>, taken: readonly string[]): Members {
  const entries = Object.entries(context);
  if (entries.length === 0) return entries;
  const kept = new Set([...taken, TRACE_KEY, RESERVED_KEY]);
  return entries.filter(([key]) => !kept.has(key));
}

/** The part of the baggage that no step may write. */
const RESERVED_KEY = 'ductile';

function headOf(request: PluginRequest): JsonObject {
  return {
    protocol: PROTOCOL,
    job_id: request.jobId,
    command: request.command,
    instance: request.instance,
    attempt: request.attempt,
    idempotency_key: request.idempotencyKey,
    config: request.config,
    state: request.state,
    context: request.context,
    deadline_at: request.deadlineAt,
    ...(request.traceparent === undefined ? {} : { traceparent: request.traceparent }),
    ...(request.api === undefined ? {} : { api: request.api }),
  };
}

/** What `handle` is told when somebody asked for it by name, and no event did. */
const ASKED_EVENT = 'api.trigger';

/** What `handle` is told when it is a step of a pipeline, and the step before it emitted no event. */
const STEP_EVENT = 'pipeline.step';

const eventKeys = new Set(['type', 'payload', 'dedupe_key', 'source', 'timestamp', 'event_id']);

/** A stored payload is an event when it has a type and a payload and nothing that events lack. */
function asEvent(payload: Json): JsonObject | undefined {
  if (!isObject(payload) || typeof payload['type'] !== 'string') return undefined;
  const keys = Object.keys(payload);
  // Only what Ductile itself wrote has metadata, and an id of its signal with it.
  const isOwn = Object.hasOwn(payload, 'event_id');
  const isKnown = (key: string): boolean => eventKeys.has(key) || (isOwn && key === 'metadata');
  return keys.includes('payload') && keys.every(isKnown) ? payload : undefined;
}
