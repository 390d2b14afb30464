import { messageOf } from '../base/errors.ts';
import { ExactNumber, parseJson } from '../base/parse-json.ts';
import { describeUnsafeJson, isObject, type Json, type JsonObject } from '../base/json.ts';
import { isDeeperThan } from '../base/strict-json.ts';
import { limits } from '../base/limits.ts';

/** An event as a plugin emits it; the engine adds id, source and time. */
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

/** What a plugin wrote to stdout, if it is what the protocol asks for. */
export type Response =
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
      /** No sooner than after this, as far as the plugin knows. */
      readonly retryAfterMs: number | undefined;
      readonly logs: readonly PluginLog[];
    }
  | { readonly status: 'invalid'; readonly fault: string };

/** Reads a response. It never throws: whatever is wrong with it is a fault in words. */
export function parseResponse(stdout: Buffer): Response {
  try {
    return readResponse(readObject(stdout));
  } catch (thrown) {
    if (thrown instanceof Fault) return { status: 'invalid', fault: thrown.message };
    return { status: 'invalid', fault: `stdout cannot be read: ${messageOf(thrown)}` };
  }
}

/** Text that both databases and a terminal's one line can keep. */
export function toStorable(text: string): string {
  const whole = text.toWellFormed();
  return whole.includes('\u0000') ? replaceNul(whole) : whole;
}

const REPLACEMENT = 0xfffd;

/** By its units: sought and replaced as text, millions of them hold up everybody for seconds. */
function replaceNul(text: string): string {
  const units = new Uint16Array(text.length);
  for (let at = 0; at < units.length; at += 1) units[at] = text.charCodeAt(at) || REPLACEMENT;
  return new TextDecoder('utf-16le', { ignoreBOM: true }).decode(units);
}

class Fault extends Error {}

/** What a response may have around data of any depth that is allowed: itself, its events, one event. */
const LEVELS_AROUND = 8;

const strictUtf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

function readObject(stdout: Buffer): JsonObject {
  let text: string;
  try {
    text = strictUtf8.decode(stdout);
  } catch {
    throw new Fault('stdout is not valid UTF-8');
  }
  if (text.startsWith('\uFEFF')) throw new Fault('stdout starts with a byte order mark');
  if (text.trim() === '') throw new Fault('stdout is empty');
  // Before anything is built of it: a few megabytes of brackets take seconds.
  if (isDeeperThan(text, limits.jsonDepthMax + LEVELS_AROUND)) {
    throw new Fault('stdout is nested too deeply');
  }
  let value: unknown;
  try {
    value = parseJson(text);
  } catch (thrown) {
    throw new Fault(`stdout is not one JSON object: ${messageOf(thrown)}`);
  }
  if (!isObject(value)) throw new Fault('stdout is JSON, but not an object');
  return value;
}

function readResponse(value: JsonObject): Response {
  const status = value['status'];
  const logs = readPluginLogs(value['logs']);
  if (status === 'error') {
    const error = readText(value, 'error');
    const retryAfterMs = readDelay(value['retry_after_seconds']);
    return { status, error, retry: value['retry'] !== false, retryAfterMs, logs };
  }
  if (status !== 'ok') {
    const given = status === undefined ? 'is missing' : `is ${JSON.stringify(status)}`;
    throw new Fault(`status ${given}; it must be "ok" or "error"`);
  }
  const result = readText(value, 'result');
  const events = readEvents(value['events']);
  return { status, result, events, stateUpdates: readState(value['state_updates']), logs };
}

/** What is no time is left out: that it failed counts more than when to try again. */
function readDelay(given: Json | undefined): number | undefined {
  // A delay is a time, and 1e400 seconds are as long as a plugin may ask for.
  const seconds = given instanceof ExactNumber ? Number(given.text) : given;
  if (typeof seconds !== 'number' || seconds <= 0) return undefined;
  return Math.min(Math.ceil(seconds * 1000), limits.retryAfterMsMax);
}

function readText(value: JsonObject, key: string): string {
  const text = value[key];
  if (text === undefined || text === null) throw new Fault(`${key} is missing`);
  if (typeof text !== 'string') throw new Fault(`${key} must be text`);
  if (text.trim() === '') throw new Fault(`${key} must not be blank`);
  return safe(text, key);
}

function readState(value: Json | undefined): JsonObject | undefined {
  if (value === undefined || value === null) return undefined;
  if (!isObject(value)) throw new Fault('state_updates must be an object');
  return Object.keys(value).length === 0 ? undefined : safe(value, 'state_updates');
}

function readEvents(value: Json | undefined): PluginEvent[] {
  if (value === undefined || value === null) return [];
  if (!Array.isArray(value)) throw new Fault('events must be a list');
  if (value.length > limits.eventsPerAttemptMax) {
    throw new Fault(
      `events has ${value.length} entries; at most ${limits.eventsPerAttemptMax} may be emitted at once`,
    );
  }
  return value.map((event, index) => readEvent(event, `events[${index}]`));
}

function readEvent(event: Json, at: string): PluginEvent {
  if (!isObject(event)) throw new Fault(`${at} must be an object`);
  const { type, payload, dedupe_key: key } = event;
  if (typeof type !== 'string' || type === '') throw new Fault(`${at}.type must be text`);
  if (key !== undefined && key !== null && typeof key !== 'string') {
    throw new Fault(`${at}.dedupe_key must be text`);
  }
  const dedupeKey = key?.trim() ?? '';
  return {
    type: short(type, `${at}.type`, limits.eventTypeBytesMax),
    payload: safe(payload ?? {}, `${at}.payload`),
    ...(dedupeKey === ''
      ? {}
      : { dedupeKey: short(dedupeKey, `${at}.dedupe_key`, limits.dedupeKeyBytesMax) }),
  };
}

function short(text: string, at: string, bytesMax: number): string {
  if (Buffer.byteLength(text) > bytesMax) throw new Fault(`${at} is longer than ${bytesMax} bytes`);
  return safe(text, at);
}

/** Reads log entries. One that is malformed is left out: logs never decide whether work counts. */
export function readPluginLogs(value: Json | undefined): PluginLog[] {
  if (!Array.isArray(value)) return [];
  return value.flatMap((entry): PluginLog[] => {
    const { level, message } = isObject(entry) ? entry : { level: 'info', message: entry };
    if (typeof message !== 'string') return [];
    const known = pluginLogLevels.find((name) => name === level) ?? 'info';
    return [{ level: known, message: toStorable(message) }];
  });
}

function safe<T extends Json>(value: T, at: string): T {
  const unsafe = describeUnsafeJson(value, limits.jsonDepthMax);
  if (unsafe !== undefined) throw new Fault(`${at}${unsafe.slice('$'.length)}`);
  return value;
}

/**
 * Gives each event's payload the attempt's result as `result`, as the original project does. A payload
 * keeps a `result` of its own, and one that would become too large stays as it is.
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
