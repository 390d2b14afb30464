/** The protocol of a plugin process: one request on stdin, and a result from its response and its end. */
import type { Timestamp } from '../base/clock.ts';
import { compact, isObject, type Json, type JsonObject } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import { formatByteSize, formatDuration } from '../base/quantity.ts';
import { TRACE_KEY } from '../base/trace.ts';
import type { Environment } from '../config/interpolate.ts';
import { PROTOCOL } from './manifest.ts';
import type { LimitReason, ProcessEnd, ProcessLimits, ProcessSpec } from './process.ts';
import { parseResponse, toStorable, type PluginEvent, type PluginLog } from './response.ts';

/** The request of an attempt to its plugin. */
interface PluginRequest {
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

/** Encodes the request of a step. Its payload can be large and shared by many steps, so it stays bytes. */
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
function listBaggage(context: Readonly<JsonObject>, payloadKeys: readonly string[]): Members {
  const entries = Object.entries(context);
  if (entries.length === 0) return entries;
  const excluded = new Set([...payloadKeys, TRACE_KEY, RESERVED_KEY]);
  return entries.filter(([key]) => !excluded.has(key));
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
    ...compact({ traceparent: request.traceparent, api: request.api }),
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

interface Failure {
  /** The line for `last_error`. */
  readonly message: string;
  /** True if a retry may help. */
  readonly retry: boolean;
  /** True if the exit code says that the configuration is wrong. */
  readonly exit78: boolean;
  /** The stdout, ready for `job_log.result`. */
  readonly raw: string;
}

/** The result of an attempt, decided from its response and its end. */
export type Reply =
  | {
      readonly kind: 'ok';
      readonly result: string;
      readonly events: readonly PluginEvent[];
      readonly stateUpdates: JsonObject | undefined;
      readonly logs: readonly PluginLog[];
      readonly raw: string;
    }
  /** The plugin reported a failure. Its events stay in `raw`. */
  | (Failure & {
      readonly kind: 'error';
      readonly logs: readonly PluginLog[];
      /** The shortest delay before a retry, if the plugin sets one. */
      readonly retryAfterMs?: number | undefined;
    })
  /** It timed out; a response during the grace period doesn't count. */
  | (Failure & { readonly kind: 'timeout' })
  | (Failure & { readonly kind: 'signal'; readonly signal: string })
  | (Failure & { readonly kind: 'exit'; readonly code: number })
  /** It exited with 0 but its response is invalid. */
  | (Failure & { readonly kind: 'protocol' })
  /** It exceeded a limit. */
  | (Failure & { readonly kind: LimitReason })
  /** It never started. `hostFull`: the machine lacked resources, so the job isn't at fault. */
  | (Failure & { readonly kind: 'unstarted'; readonly code: string; readonly hostFull: boolean })
  /**
   * The service stopped it: the claim was lost, the job was cancelled, or the service shuts down.
   */
  | (Failure & { readonly kind: 'fenced' | 'cancelled' | 'shutdown' });

/** Decides the result of an attempt from the end of its process and its limits. Never throws. */
export function decodeResponse(end: ProcessEnd, spec: LimitSpec = { timeoutMs: end.runMs }): Reply {
  const { exit, stopped } = end;
  const raw = toStorable(end.stdout.toString());
  const exit78 = exit.kind === 'exited' && exit.code === EXIT_CONFIG;
  const failure = (message: string, retry = true): Failure => ({
    message: oneLine(message),
    retry: retry && !exit78,
    exit78,
    raw,
  });

  if (stopped === 'fenced') return { kind: 'fenced', ...failure('stopped: its claim was lost') };
  if (stopped === 'cancelled') return { kind: 'cancelled', ...failure('cancelled') };
  if (stopped === 'timeout') {
    const message = `timed out after ${formatDuration(spec.timeoutMs)}`;
    return { kind: 'timeout', ...failure(message), retry: true };
  }
  if (stopped !== undefined && isLimit(stopped)) {
    return { kind: stopped, ...failure(exceeded[stopped](spec.limits ?? {})), retry: true };
  }
  if (exit.kind === 'unstarted') {
    const { code, hostFull } = exit;
    return { kind: 'unstarted', code, hostFull, ...failure(whyUnstarted(code, hostFull)) };
  }
  if (stopped === 'output' || end.stdoutOverflowed) {
    const message = `wrote more than ${limits.stdoutBytesMax} bytes to stdout`;
    return { kind: 'protocol', ...failure(message) };
  }
  const response = parseResponse(end.stdout);
  // Work that finished during the shutdown grace period counts.
  if (stopped === 'shutdown' && response.status !== 'ok') {
    return { kind: 'shutdown', ...failure('stopped: the service shuts down') };
  }
  if (response.status === 'ok' && (stopped === 'shutdown' || hasExitedCleanly(exit))) {
    const { result, events, stateUpdates, logs } = response;
    return { kind: 'ok', result, events, stateUpdates, logs, raw };
  }
  if (response.status === 'error') {
    const { error, retry, retryAfterMs, logs } = response;
    return { kind: 'error', logs, retryAfterMs, ...failure(error, retry), message: cut(error) };
  }
  const fault = response.status === 'ok' ? 'its response said ok' : response.fault;
  const lastError = lastLine(end.stderr);
  if (exit.kind === 'signalled') {
    const { signal } = exit;
    return { kind: 'signal', signal, ...failure(`was killed by ${signal}${lastError}`) };
  }
  if (exit.code !== 0) {
    const reason = lastError === '' ? `; ${fault}` : lastError;
    return { kind: 'exit', code: exit.code, ...failure(`exited with code ${exit.code}${reason}`) };
  }
  return { kind: 'protocol', ...failure(`${fault}${lastError}`) };
}

type LimitSpec = Pick<ProcessSpec, 'timeoutMs' | 'limits'>;

function isLimit(stopped: string): stopped is LimitReason {
  return Object.hasOwn(exceeded, stopped);
}

/** The kernel can kill processes for lack of memory even if no limit is set. */
const exceeded: Readonly<Record<LimitReason, (limits: ProcessLimits) => string>> = {
  memory: ({ memoryBytes }) =>
    memoryBytes === undefined
      ? 'was killed by the kernel because the machine ran out of memory'
      : `used more than ${formatByteSize(memoryBytes)} of memory`,
  processes: ({ processes = 0 }) => `had more than ${processes} processes at the same time`,
  cpu: ({ cpuMs = 0 }) => `used more than ${formatDuration(cpuMs)} of CPU time`,
  file_size: ({ fileBytes = 0 }) => `wrote a file of more than ${formatByteSize(fileBytes)}`,
};

const allowedVariables = new Set(['PATH', 'HOME', 'TZ', 'LANG', 'LANGUAGE', 'TMPDIR']);

/**
 * Builds the complete environment of a plugin process: paths, language and time zone, and the
 * variables that the operator passes on by name.
 */
export function pluginEnvironment(
  processEnv: Environment,
  passthrough: readonly string[],
): Record<string, string> {
  const env: Record<string, string> = {};
  for (const [name, value] of Object.entries(processEnv)) {
    if (isPassedVariable(name, passthrough) && value !== undefined) env[name] = value;
  }
  return env;
}

export function isPassedVariable(name: string, passthrough: readonly string[]): boolean {
  return allowedVariables.has(name) || /^LC_[A-Z]+$/.test(name) || passthrough.includes(name);
}

/** EX_CONFIG of sysexits.h. */
const EXIT_CONFIG = 78;

/** A program that reports ok and exits with an error contradicts itself, so it failed. */
function hasExitedCleanly(exit: ProcessEnd['exit']): boolean {
  return exit.kind === 'exited' && exit.code === 0;
}

const startErrors: Readonly<Record<string, string>> = {
  EACCES: 'permission denied',
  ENOENT: 'the program, or the interpreter in its first line, does not exist',
  ENOEXEC: 'it is not a program for this machine; does its first line start with #!?',
};

function whyUnstarted(code: string, hostFull: boolean): string {
  const reason = startErrors[code] ?? 'the system refused';
  const words = hostFull ? 'this machine has no room for another process' : reason;
  return `could not be started: ${words} (${code})`;
}

/** Returns the last line, which is usually the error message. */
function lastLine(stderr: Buffer): string {
  const line = stderr.toString().trimEnd().split('\n').at(-1)?.trim() ?? '';
  return line === '' ? '' : `: ${line.slice(0, STDERR_SHOWN)}`;
}

const STDERR_SHOWN = 300;

function oneLine(message: string): string {
  return cut(message.replaceAll(/[\p{Cc}\u2028\u2029]+/gu, ' '));
}

function cut(message: string): string {
  const short = message.length > limits.errorCharsMax;
  return toStorable(short ? `${message.slice(0, limits.errorCharsMax)}…` : message);
}
