import type { Timestamp } from '../base/clock.ts';
import { isObject, type Json, type JsonObject } from '../base/json.ts';
import { TRACE_KEY } from '../base/trace.ts';
import { PROTOCOL } from './manifest.ts';

/** The request of an attempt to its plugin. */
export interface PluginRequest {
  readonly jobId: string;
  readonly command: string;
  /** The name in the configuration, which differs from the manifest's for an alias. */
  readonly instance: string;
  readonly attempt: number;
  /** Equal for all attempts of the same work. */
  readonly idempotencyKey: string;
  readonly config: Readonly<JsonObject>;
  readonly state: Readonly<JsonObject>;
  readonly context: Readonly<JsonObject>;
  /** The stored payload: data, or an event around its data. */
  readonly payload: Json;
  /** The payload as JSON without line breaks, if it can be used as it is. */
  readonly payloadText?: string;
  /** The run and step of a pipeline; its payload is always data. */
  readonly step?: StepRequest;
  readonly deadlineAt: Timestamp;
  /** The W3C trace context of the attempt. */
  readonly traceparent?: string;
  /** Address and token of the API for this attempt. */
  readonly api?: JsonObject;
}

export interface StepRequest {
  readonly runId: string;
  readonly stepId: string;
  /** More members of its payload, as JSON text between the braces. */
  readonly beneath: Buffer;
  /** The names of those members. */
  readonly beneathKeys?: readonly string[];
  /** The event that caused the step, without its payload, which is the step's own. */
  readonly event?: JsonObject | undefined;
}

/**
 * Encodes one JSON object and a newline. Only `handle` gets `event`. Its `payload` is the event's,
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
    event === undefined ? `{"type":"${TRIGGER_EVENT}","payload":${payloadText}}` : payloadText;
  const baggage = isObject(data) ? listBaggage(request.context, Object.keys(data)) : [];
  if (baggage.length === 0) {
    return Buffer.from(`${head},"payload":${dataText},"event":${eventText}}\n`);
  }
  const merged = { ...Object.fromEntries(baggage), ...(data as JsonObject) };
  const carrying = JSON.stringify({ type: TRIGGER_EVENT, ...event, payload: merged });
  return Buffer.from(`${head},"payload":${dataText},"event":${carrying}}\n`);
}

/** Joins bytes: the payload is shared by many steps, and may be large. */
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
 * Lists the baggage for `event.payload`, as plugins of the original project expect. The payload's
 * own members win, and Ductile's internal members are left out.
 */
function listBaggage(context: Readonly<JsonObject>, taken: readonly string[]): Members {
  const entries = Object.entries(context);
  if (entries.length === 0) return entries;
  const kept = new Set([...taken, TRACE_KEY, RESERVED_KEY]);
  return entries.filter(([key]) => !kept.has(key));
}

/** The member of the baggage that no step may write. */
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

/** The event type of `handle` without an event, when a caller requested the job. */
const TRIGGER_EVENT = 'api.trigger';

/** The event type of a step whose previous step emitted no event. */
const STEP_EVENT = 'pipeline.step';

const eventKeys = new Set(['type', 'payload', 'dedupe_key', 'source', 'timestamp', 'event_id']);

/** A stored payload is an event if it has a type and a payload, and only members of events. */
function asEvent(payload: Json): JsonObject | undefined {
  if (!isObject(payload) || typeof payload['type'] !== 'string') return undefined;
  const keys = Object.keys(payload);
  // Only events of Ductile have metadata and the id of their signal.
  const isOwn = Object.hasOwn(payload, 'event_id');
  const isKnown = (key: string): boolean => eventKeys.has(key) || (isOwn && key === 'metadata');
  return keys.includes('payload') && keys.every(isKnown) ? payload : undefined;
}
