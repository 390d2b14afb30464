import { messageOf } from '../base/errors.ts';
import { ExactNumber, parseJson } from '../base/parse-json.ts';
import {
  describeUnsafeJson,
  isObject,
  type Json,
  type JsonObject,
  isDeeperThan,
} from '../base/json.ts';
import { limits } from '../base/limits.ts';

/** An event of a plugin; the service adds id, source and time. */
export interface PluginEvent {
  readonly type: string;
  readonly payload: Json;
  readonly dedupeKey?: string;
}

export const pluginLogLevels = ['debug', 'info', 'warn', 'error'] as const;

export interface PluginLog {
  readonly level: (typeof pluginLogLevels)[number];
  readonly message: string;
}

/** A parsed stdout, or a fault. */
export type PluginResponse =
  | {
      readonly status: 'ok';
      readonly result: string;
      readonly events: readonly PluginEvent[];
      readonly stateUpdates: JsonObject | undefined;
      readonly logs: readonly PluginLog[];
    }
  | {
      readonly status: 'error';
      readonly error: string;
      readonly retry: boolean;
      /** The shortest delay before a retry. */
      readonly retryAfterMs: number | undefined;
      readonly logs: readonly PluginLog[];
    }
  | { readonly status: 'invalid'; readonly fault: string };

/** Parses a response. Never throws: every problem becomes a fault. */
export function parseResponse(stdout: Buffer): PluginResponse {
  try {
    return readResponse(readObject(stdout));
  } catch (thrown) {
    if (thrown instanceof ResponseFault) return { status: 'invalid', fault: thrown.message };
    return { status: 'invalid', fault: `stdout cannot be read: ${messageOf(thrown)}` };
  }
}

/** Replaces characters that PostgreSQL can't store: NUL and lone surrogates. */
export function toStorable(text: string): string {
  const whole = text.toWellFormed();
  return whole.includes('\u0000') ? replaceNul(whole) : whole;
}

const REPLACEMENT = 0xfffd;

/** Replaces NUL by code units: replacing millions of characters as text would block for seconds. */
function replaceNul(text: string): string {
  const units = new Uint16Array(text.length);
  for (let at = 0; at < units.length; at += 1) units[at] = text.charCodeAt(at) || REPLACEMENT;
  return new TextDecoder('utf-16le', { ignoreBOM: true }).decode(units);
}

class ResponseFault extends Error {}

/** Nesting around data: the response, its events, one event. */
const LEVELS_AROUND = 8;

const strictUtf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

function readObject(stdout: Buffer): JsonObject {
  let text: string;
  try {
    text = strictUtf8.decode(stdout);
  } catch {
    throw new ResponseFault('stdout is not valid UTF-8');
  }
  if (text.startsWith('\uFEFF')) throw new ResponseFault('stdout starts with a byte order mark');
  if (text.trim() === '') throw new ResponseFault('stdout is empty');
  // Checked before parsing: a few megabytes of brackets take seconds.
  if (isDeeperThan(text, limits.jsonDepthMax + LEVELS_AROUND)) {
    throw new ResponseFault('stdout is nested too deeply');
  }
  let value: unknown;
  try {
    value = parseJson(text);
  } catch (thrown) {
    throw new ResponseFault(`stdout is not one JSON object: ${messageOf(thrown)}`);
  }
  if (!isObject(value)) throw new ResponseFault('stdout is JSON, but not an object');
  return value;
}

function readResponse(value: JsonObject): PluginResponse {
  const status = value['status'];
  const logs = readPluginLogs(value['logs']);
  if (status === 'error') {
    const error = readText(value, 'error');
    const retryAfterMs = readDelay(value['retry_after_seconds']);
    return { status, error, retry: value['retry'] !== false, retryAfterMs, logs };
  }
  if (status !== 'ok') {
    const given = status === undefined ? 'is missing' : `is ${JSON.stringify(status)}`;
    throw new ResponseFault(`status ${given}; it must be "ok" or "error"`);
  }
  const result = readText(value, 'result');
  const events = readEvents(value['events']);
  return { status, result, events, stateUpdates: readState(value['state_updates']), logs };
}

/** Ignores an invalid delay: the failure itself matters more. */
function readDelay(given: Json | undefined): number | undefined {
  // 1e400 seconds is the longest delay that a plugin may request.
  const seconds = given instanceof ExactNumber ? Number(given.text) : given;
  if (typeof seconds !== 'number' || seconds <= 0) return undefined;
  return Math.min(Math.ceil(seconds * 1000), limits.retryAfterMsMax);
}

function readText(value: JsonObject, key: string): string {
  const text = value[key];
  if (text === undefined || text === null) throw new ResponseFault(`${key} is missing`);
  if (typeof text !== 'string') throw new ResponseFault(`${key} must be text`);
  if (text.trim() === '') throw new ResponseFault(`${key} must not be blank`);
  return checkSafe(text, key);
}

function readState(value: Json | undefined): JsonObject | undefined {
  if (value === undefined || value === null) return undefined;
  if (!isObject(value)) throw new ResponseFault('state_updates must be an object');
  return Object.keys(value).length === 0 ? undefined : checkSafe(value, 'state_updates');
}

function readEvents(value: Json | undefined): PluginEvent[] {
  if (value === undefined || value === null) return [];
  if (!Array.isArray(value)) throw new ResponseFault('events must be a list');
  if (value.length > limits.eventsPerAttemptMax) {
    throw new ResponseFault(
      `events has ${value.length} entries; at most ${limits.eventsPerAttemptMax} may be emitted at once`,
    );
  }
  return value.map((event, index) => readEvent(event, `events[${index}]`));
}

function readEvent(event: Json, at: string): PluginEvent {
  if (!isObject(event)) throw new ResponseFault(`${at} must be an object`);
  const { type, payload, dedupe_key: key } = event;
  if (typeof type !== 'string' || type === '') throw new ResponseFault(`${at}.type must be text`);
  if (key !== undefined && key !== null && typeof key !== 'string') {
    throw new ResponseFault(`${at}.dedupe_key must be text`);
  }
  const dedupeKey = key?.trim() ?? '';
  return {
    type: checkLength(type, `${at}.type`, limits.eventTypeBytesMax),
    payload: checkSafe(payload ?? {}, `${at}.payload`),
    ...(dedupeKey === ''
      ? {}
      : { dedupeKey: checkLength(dedupeKey, `${at}.dedupe_key`, limits.dedupeKeyBytesMax) }),
  };
}

function checkLength(text: string, at: string, bytesMax: number): string {
  if (Buffer.byteLength(text) > bytesMax)
    throw new ResponseFault(`${at} is longer than ${bytesMax} bytes`);
  return checkSafe(text, at);
}

/** Reads log entries. Malformed entries are skipped, because logs never decide the result. */
export function readPluginLogs(value: Json | undefined): PluginLog[] {
  if (!Array.isArray(value)) return [];
  return value.flatMap((entry): PluginLog[] => {
    const { level, message } = isObject(entry) ? entry : { level: 'info', message: entry };
    if (typeof message !== 'string') return [];
    const known = pluginLogLevels.find((name) => name === level) ?? 'info';
    return [{ level: known, message: toStorable(message) }];
  });
}

function checkSafe<T extends Json>(value: T, at: string): T {
  const unsafe = describeUnsafeJson(value, limits.jsonDepthMax);
  if (unsafe !== undefined) throw new ResponseFault(`${at}${unsafe.slice('$'.length)}`);
  return value;
}

/**
 * Adds the attempt's result to each event's payload as `result`, as the original project does. An
 * existing `result` is kept, and a payload that would become too large isn't changed.
 */
export function addResult<T extends { readonly payload: Json }>(
  events: readonly T[],
  result: string,
): readonly T[] {
  const bytes = Buffer.byteLength(JSON.stringify(result));
  if (bytes * events.length > limits.resultCopiesBytesMax) return events;
  return events.map((event) => {
    const { payload } = event;
    if (!isObject(payload) || Object.hasOwn(payload, 'result')) return event;
    const added = { ...payload, result };
    const isTooLarge = Buffer.byteLength(JSON.stringify(added)) > limits.payloadBytesMax;
    return isTooLarge ? event : { ...event, payload: added };
  });
}
