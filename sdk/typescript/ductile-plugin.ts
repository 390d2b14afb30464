/**
 * Protocol 2 for plugins in TypeScript: one request on standard input, one answer on standard output.
 * Throw ConfigError for errors that only the operator can fix (exit code 78), and Failure for others.
 * One file without dependencies, for Node 22.18 and later: copy it beside your plugin.
 */
import { text as readText } from 'node:stream/consumers';
import { inspect } from 'node:util';

const PROTOCOL = 2;
const EXIT_CONFIG = 78;
/** Maximum size of a snapshot or a payload, with space for Ductile's own keys. */
export const JSON_BYTES_MAX = 1_000_000;

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
export type JsonObject = { [key: string]: Json };

export interface PluginEvent {
  readonly type: string;
  readonly payload: JsonObject;
  readonly dedupe_key?: string;
}

export interface Log {
  readonly level: 'debug' | 'info' | 'warn' | 'error';
  readonly message: string;
}

export interface Answer {
  /** Short description of the result. */
  readonly result: string;
  readonly events?: readonly PluginEvent[];
  /** Complete new state; left out if nothing changed. */
  readonly state_updates?: JsonObject;
  readonly logs?: readonly Log[];
}

export interface Request {
  readonly command: string;
  readonly jobId: string;
  /** Number of the attempt, from 1. */
  readonly attempt: number;
  /** Name of the plugin, which differs from the manifest's name for an alias. */
  readonly instance: string;
  /** Id of the pipeline step; empty for other jobs. */
  readonly stepId: string;
  readonly config: Fields;
  /** The event's payload for `handle`, otherwise the job's payload. */
  readonly payload: Fields;
  readonly state: JsonObject;
  /** Baggage of the job's chain. */
  readonly context: JsonObject;
  /** The same for every attempt at the same work. */
  readonly idempotencyKey: string;
  /** Returns a stable key for each of several effects of a job, short enough for every API. */
  readonly keyFor: (effect: string) => string;
  /** Stored with the attempt, whether it succeeds or fails. */
  readonly log: Logger;
  /** Type of the event, for `handle`. */
  readonly eventType: string;
  /** Access to the API during this attempt, if `api_access` is configured. */
  readonly api: ApiAccess | undefined;
  /** Returns the milliseconds until the deadline, minus the time to respond. */
  readonly msLeft: (atMost: number) => number;
}

export class Logger {
  readonly entries: Log[] = [];

  debug(message: string): void {
    this.#add('debug', message);
  }

  info(message: string): void {
    this.#add('info', message);
  }

  warn(message: string): void {
    this.#add('warn', message);
  }

  error(message: string): void {
    this.#add('error', message);
  }

  #add(level: Log['level'], message: string): void {
    this.entries.push({ level, message });
  }
}

export interface ApiAccess {
  readonly url: string;
  readonly mcpUrl: string;
  readonly token: string;
}

export type Command = (request: Request) => Answer | Promise<Answer>;

/**
 * Reads the request, runs its command, prints the response and ends the process. A prewarmed process waits
 * in here, so do nothing time-dependent before.
 */
export async function runPlugin(commands: Readonly<Record<string, Command>>): Promise<void> {
  // Standard output is only for the response.
  const { error: toStderr } = console;
  Object.assign(console, { log: toStderr, info: toStderr, debug: toStderr, dir: toStderr });
  let request: Request | undefined;
  let reply: Reply;
  let code = 0;
  try {
    request = parseRequest(await readText(process.stdin));
    reply = { status: 'ok', ...(await findCommand(commands, request.command)(request)) };
  } catch (thrown) {
    code = thrown instanceof ConfigError ? EXIT_CONFIG : thrown instanceof Failure ? 0 : 1;
    if (code !== 0) process.stderr.write(`${inspect(thrown)}\n`);
    const error = messageOf(thrown).toWellFormed().replaceAll('\0', '\uFFFD');
    reply = { status: 'error', error, ...retryOf(thrown) };
  }
  const logs = [...(request?.log.entries ?? []), ...(reply.logs ?? [])];
  const whole = logs.length === 0 ? reply : { ...reply, logs };
  // Open sockets and timers must not keep the process alive after its response.
  process.stdout.write(`${JSON.stringify(whole)}\n`, () => process.exit(code));
}

type Reply =
  | (Answer & { readonly status: 'ok' })
  | (Retry & {
      readonly status: 'error';
      readonly error: string;
      readonly logs?: readonly Log[];
    });

interface Retry {
  readonly retry: boolean;
  readonly retry_after_seconds?: number;
}

/** Creates an event for routes and pipelines. With a dedupe key it causes the same work only once. */
export function makeEvent(type: string, payload: JsonObject, dedupeKey?: string): PluginEvent {
  return { type, payload, ...(dedupeKey === undefined ? {} : { dedupe_key: dedupeKey }) };
}

/**
 * Returns the items that no earlier poll found. Store `seen` in the state under the key that it was read
 * from; it contains only the latest ids, so that the state stays small.
 */
export function findUnseen<Item>(
  items: readonly Item[],
  idOf: (item: Item) => string,
  before: Json | undefined,
  keep = 1000,
): { readonly fresh: Item[]; readonly seen: string[] } {
  const seen = new Set(Array.isArray(before) ? before.filter((id) => typeof id === 'string') : []);
  const fresh: Item[] = [];
  for (const item of items) {
    const id = idOf(item);
    if (!seen.has(id)) fresh.push(item);
    // The latest ids are at the end; an id that is still present moves there.
    seen.delete(id);
    seen.add(id);
  }
  return { fresh, seen: [...seen].slice(-Math.max(keep, items.length)) };
}

/** Configuration error; a retry can't help. */
export class ConfigError extends Error {}

/** Failure of the job. `retry` tells whether a retry may help, and the seconds until the earliest one. */
export class Failure extends Error {
  readonly retry: boolean;
  readonly retryAfterSeconds: number | undefined;

  constructor(message: string, retry: boolean, retryAfterSeconds?: number) {
    super(message);
    this.retry = retry;
    this.retryAfterSeconds = retryAfterSeconds;
  }
}

/** Values by name, checked when they are read; an error names the location and the key. */
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
  const isOther = Array.isArray(value) || isRawJSON(value);
  return typeof value === 'object' && value !== null && !isOther;
}

export function messageOf(thrown: unknown): string {
  return thrown instanceof Error ? thrown.message : String(thrown);
}

/** Returns the size of a value as stored JSON. */
export function encodedSize(value: Json): number {
  return Buffer.byteLength(JSON.stringify(value));
}

/** Parses and checks a request. */
export function parseRequest(raw: string): Request {
  const message = parseObject(raw);
  if (message['protocol'] !== PROTOCOL) {
    throw new ConfigError(`this plugin speaks protocol ${PROTOCOL}`);
  }
  const command = typeof message['command'] === 'string' ? message['command'] : '';
  const { payload: data, type } = memberOf(message, 'event');
  const payload = command === 'handle' && isObject(data) ? data : memberOf(message, 'payload');
  const jobId = textOf(message['job_id']);
  const idempotencyKey = textOf(message['idempotency_key']) || jobId;
  const deadlineAt = message['deadline_at'];
  const deadline = typeof deadlineAt === 'string' ? Date.parse(deadlineAt) : Number.NaN;
  const answeringMs = 500;
  return {
    command,
    jobId,
    attempt: typeof message['attempt'] === 'number' ? message['attempt'] : 1,
    instance: textOf(message['instance']),
    stepId: textOf(message['step_id']),
    context: memberOf(message, 'context'),
    log: new Logger(),
    keyFor: (effect) => digest(`${idempotencyKey}\n${effect}`),
    config: new Fields(memberOf(message, 'config'), 'config', (text) => new ConfigError(text)),
    payload: new Fields(payload, 'payload', (text) => new Failure(text, false)),
    state: memberOf(message, 'state'),
    idempotencyKey,
    eventType: textOf(type),
    api: readAccess(memberOf(message, 'api')),
    msLeft: (atMost) =>
      Number.isNaN(deadline)
        ? atMost
        : Math.max(50, Math.min(atMost, deadline - Date.now() - answeringMs)),
  };
}

function readAccess({ url, mcp_url: mcpUrl, token }: JsonObject): ApiAccess | undefined {
  const isWhole =
    typeof url === 'string' && typeof mcpUrl === 'string' && typeof token === 'string';
  return isWhole ? { url, mcpUrl, token } : undefined;
}

/** Loads the module on demand, because most jobs don't need it and each job starts a process. */
function digest(text: string): string {
  return process.getBuiltinModule('node:crypto').createHash('sha256').update(text).digest('hex');
}

function textOf(value: Json | undefined): string {
  return typeof value === 'string' ? value : '';
}

function parseObject(raw: string): JsonObject {
  let value: unknown;
  try {
    value = parseExactly(raw);
  } catch {
    value = undefined;
  }
  if (isObject(value)) return value;
  throw new Failure('the request on standard input is not one JSON object', false);
}

/** TypeScript doesn't know these yet. */
const { rawJSON, isRawJSON } = JSON as unknown as {
  readonly rawJSON: (text: string) => unknown;
  readonly isRawJSON: (value: unknown) => boolean;
};

/**
 * Parses JSON without rounding: a number that a double can't hold, such as 12345678901234567890, becomes
 * an object that JSON.stringify writes as that number again. Its text is in `rawJSON`.
 */
export function parseExactly(text: string): unknown {
  if (!/[\d.]{16}|\d[eE][+-]?\d{3}/.test(text)) return JSON.parse(text);
  const keep = (_key: string, value: unknown, { source = '' }: { readonly source?: string }) =>
    typeof value === 'number' && isRounded(value, source) ? rawJSON(source) : value;
  return JSON.parse(text, keep as (key: string, value: unknown) => unknown);
}

/** A double that was printed with 17 digits is that double, although a shorter text would do. */
function isRounded(value: number, source: string): boolean {
  if (!Number.isFinite(value)) return true;
  const written = decimalOf(source);
  return written !== decimalOf(String(value)) && written !== decimalOf(value.toPrecision(17));
}

/** Spells each number in a single way. */
function decimalOf(text: string): string {
  const [, sign = '', whole = '', fraction = '', power = '0'] =
    /^(-?)(\d+)(?:\.(\d+))?(?:[eE](.+))?$/.exec(text) ?? [];
  const digits = `${whole}${fraction}`.replace(/^0+/, '');
  const kept = digits.replace(/0+$/, '');
  if (kept === '') return '0';
  return `${sign}${kept}e${Number(power) - fraction.length + digits.length - kept.length}`;
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

function retryOf(thrown: unknown): Retry {
  if (!(thrown instanceof Failure)) return { retry: !(thrown instanceof ConfigError) };
  const { retry, retryAfterSeconds: seconds } = thrown;
  return { retry, ...(seconds === undefined ? {} : { retry_after_seconds: seconds }) };
}
