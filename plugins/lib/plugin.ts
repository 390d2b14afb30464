/**
 * Protocol 2 for plugins in TypeScript: one request on standard input, one answer on standard output.
 * Throw ConfigError for what only the operator can mend (exit code 78) and Failure for the rest.
 */
import { text as readText } from 'node:stream/consumers';
import { inspect } from 'node:util';

const PROTOCOL = 2;
const EXIT_CONFIG = 78;
/** What the runtime accepts for one snapshot or one payload, with room for its own keys. */
export const JSON_BYTES_MAX = 1_000_000;

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
export type JsonObject = { [key: string]: Json };

export interface PluginEvent {
  readonly type: string;
  readonly payload: JsonObject;
  readonly dedupe_key?: string;
}

export interface Log {
  readonly level: 'info' | 'warn' | 'error';
  readonly message: string;
}

export interface Answer {
  /** What was done, in a few words. */
  readonly result: string;
  readonly events?: readonly PluginEvent[];
  /** A whole snapshot; left out when nothing changed. */
  readonly state_updates?: JsonObject;
  readonly logs?: readonly Log[];
}

export interface Request {
  readonly command: string;
  readonly config: Fields;
  /** The event's payload for `handle`, the plain one otherwise. */
  readonly payload: Fields;
  readonly state: JsonObject;
  /** Milliseconds for the work itself: until the deadline, less what answering takes. */
  msLeft(atMost: number): number;
}

export type Command = (request: Request) => Answer | Promise<Answer>;

/** Reads the request, runs its command and ends the process with the answer. */
export async function runPlugin(commands: Readonly<Record<string, Command>>): Promise<void> {
  let reply: JsonObject | (Answer & { status: 'ok' });
  let code = 0;
  try {
    const request = parseRequest(await readText(process.stdin));
    reply = { status: 'ok', ...(await findCommand(commands, request.command)(request)) };
  } catch (thrown) {
    code = thrown instanceof ConfigError ? EXIT_CONFIG : thrown instanceof Failure ? 0 : 1;
    if (code !== 0) process.stderr.write(`${inspect(thrown)}\n`);
    const error = messageOf(thrown).toWellFormed().replaceAll('\0', '\uFFFD');
    reply = { status: 'error', error, retry: isRetryable(thrown) };
  }
  // Whatever is still open (a socket, a timer) must not keep the process alive after its answer.
  process.stdout.write(`${JSON.stringify(reply)}\n`, () => process.exit(code));
}

/** The configuration is wrong; trying again cannot help. */
export class ConfigError extends Error {}

/** The job failed. `retry` says whether trying again may help. */
export class Failure extends Error {
  readonly retry: boolean;

  constructor(message: string, retry: boolean) {
    super(message);
    this.retry = retry;
  }
}

/** Values by name, checked where they are read; an error names the place and the key. */
export class Fields {
  readonly values: JsonObject;
  readonly #place: string;
  readonly #toError: (message: string) => Error;

  constructor(values: JsonObject, place: string, toError: (message: string) => Error) {
    this.values = values;
    this.#place = place;
    this.#toError = toError;
  }

  refuse(key: string, reason: string): Error {
    return this.#toError(`${this.#place}.${key} ${reason}`);
  }

  get(key: string): Json {
    return Object.hasOwn(this.values, key) ? (this.values[key] ?? null) : null;
  }

  text(key: string): string | undefined {
    const value = this.get(key);
    if (value === null) return undefined;
    if (typeof value !== 'string' || value.trim() === '' || value.includes('\0')) {
      throw this.refuse(key, 'must be a non-empty string');
    }
    return value;
  }

  flag(key: string): boolean {
    const value = this.get(key);
    if (value !== null && typeof value !== 'boolean') {
      throw this.refuse(key, 'must be true or false');
    }
    return value === true;
  }

  whole(key: string, otherwise: number, low: number, high: number): number {
    const value = this.get(key);
    if (value === null) return otherwise;
    if (typeof value !== 'number' || !Number.isInteger(value) || value < low || value > high) {
      throw this.refuse(key, `must be a whole number from ${low} to ${high}`);
    }
    return value;
  }

  texts(key: string): string[] {
    const value = this.get(key);
    if (value === null) return [];
    const isText = (item: Json): item is string => typeof item === 'string' && item.trim() !== '';
    if (!Array.isArray(value) || !value.every(isText)) {
      throw this.refuse(key, 'must be a list of non-empty strings');
    }
    return value;
  }

  mapping(key: string): JsonObject {
    const value = this.get(key);
    if (value === null) return {};
    if (!isObject(value)) throw this.refuse(key, 'must be a mapping');
    return value;
  }
}

export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

export function messageOf(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown);
}

/** Bytes of a value as the JSON that the runtime will keep. */
export function encodedSize(value: Json): number {
  return Buffer.byteLength(JSON.stringify(value));
}

function parseRequest(raw: string): Request {
  const message = parseObject(raw);
  if (message['protocol'] !== PROTOCOL) {
    throw new ConfigError(`this plugin speaks protocol ${PROTOCOL}`);
  }
  const command = typeof message['command'] === 'string' ? message['command'] : '';
  const event = memberOf(message, 'event')['payload'];
  const payload = command === 'handle' && isObject(event) ? event : memberOf(message, 'payload');
  const deadlineAt = message['deadline_at'];
  const deadline = typeof deadlineAt === 'string' ? Date.parse(deadlineAt) : Number.NaN;
  const answeringMs = 500;
  return {
    command,
    config: new Fields(memberOf(message, 'config'), 'config', (text) => new ConfigError(text)),
    payload: new Fields(payload, 'payload', (text) => new Failure(text, false)),
    state: memberOf(message, 'state'),
    msLeft: (atMost) =>
      Number.isNaN(deadline)
        ? atMost
        : Math.max(50, Math.min(atMost, deadline - Date.now() - answeringMs)),
  };
}

function parseObject(raw: string): JsonObject {
  let value: unknown;
  try {
    value = JSON.parse(raw);
  } catch {
    value = undefined;
  }
  if (isObject(value)) return value;
  throw new Failure('the request on standard input is not one JSON object', false);
}

function memberOf(message: JsonObject, key: string): JsonObject {
  const value = message[key] ?? {};
  if (!isObject(value)) throw new Failure(`${key} of the request must be an object`, false);
  return value;
}

function findCommand(commands: Readonly<Record<string, Command>>, name: string): Command {
  const command = Object.hasOwn(commands, name) ? commands[name] : undefined;
  if (command !== undefined) return command;
  const known = Object.keys(commands).toSorted().join(', ');
  throw new Failure(`unknown command '${name}'; there are ${known}`, false);
}

function isRetryable(thrown: unknown): boolean {
  return thrown instanceof Failure ? thrown.retry : !(thrown instanceof ConfigError);
}
