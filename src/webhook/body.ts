import { toDuctileError } from '../base/errors.ts';
import { isObject, type JsonObject } from '../base/json.ts';
import { parseStrictJson } from '../base/strict-json.ts';
import { CLOUDEVENT_TYPE, fromCloudEvent, readCloudEvent } from '../signal/cloudevent.ts';
import { takeHeader, type HookRequest } from './request.ts';
import { limits } from '../base/limits.ts';

export type ReadBody =
  | {
      readonly ok: true;
      readonly payload: JsonObject;
      /** What a CloudEvent said of itself, as the report of a signal. */
      readonly event?: JsonObject;
    }
  | { readonly ok: false; readonly fault: BodyFault; readonly message: string };

export type BodyFault = MediaFault | 'invalid_json' | 'body_must_be_object' | 'invalid_event';
type MediaFault = 'media_type_unsupported';

type MediaType = 'json' | 'form' | 'event';

/** `json`: only `application/json`, as document 4 has it, and a body of only `payload` is unwrapped. */
export type Accepts = 'json' | 'all';

/** What the body is declared to be; undefined when that is not taken, or was declared twice. */
export function mediaTypeOf(request: HookRequest, accepts: Accepts): MediaType | undefined {
  const encoding = takeHeader(request, 'content-encoding');
  const isPlain = encoding.ok
    ? encoding.value.toLowerCase() === 'identity'
    : encoding.reason === 'header_missing';
  const type = takeHeader(request, 'content-type');
  if (!isPlain || !type.ok) return undefined;
  const named = typeIn(type.value) ?? '';
  const media = mediaOf(named, request);
  const isTaken = accepts === 'all' || (media === 'json' && named === 'application/json');
  return isTaken ? media : undefined;
}

/** The body as an object, which is what payloads are. */
export function readBody(request: HookRequest, accepts: Accepts): ReadBody {
  const media = mediaTypeOf(request, accepts);
  if (media === undefined) {
    return refuse('media_type_unsupported', 'the declared type of the body is not accepted');
  }
  if (media === 'form') return readFields(request.rawBody);
  const text = decode(request.rawBody);
  if (text === undefined) return refuse('invalid_json', 'the body is not UTF-8');
  if (media === 'json') {
    const read = readObject(text, 'the body');
    return accepts === 'json' ? unwrapPayload(read) : read;
  }
  const parsed = parseStrictJson(text);
  if (!parsed.ok) return refuse('invalid_json', `the body ${parsed.fault}`);
  return readEvent(request, parsed.value);
}

const JSON_TYPE = /^application\/(?:[\w.+-]+\+)?json$/;

function mediaOf(type: string, request: HookRequest): MediaType | undefined {
  if (type === CLOUDEVENT_TYPE) return 'event';
  // A batch is several deliveries in one, which cannot be answered as one.
  if (type.startsWith('application/cloudevents')) return undefined;
  if (JSON_TYPE.test(type)) return hasAttributes(request) ? 'event' : 'json';
  return type === FORM_TYPE ? 'form' : undefined;
}

/** Of a CloudEvent: one that lacks some is unsound, and not something else. */
function hasAttributes({ headers }: HookRequest): boolean {
  return headers.some(([name]) => name.startsWith('ce-'));
}

/** A byte order mark stays, and is no JSON. */
const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

function decode(bytes: Buffer): string | undefined {
  try {
    return decoder.decode(bytes);
  } catch {
    return undefined;
  }
}

function readFields(bytes: Buffer): ReadBody {
  const text = decode(bytes);
  if (text !== undefined && OBJECT.test(text)) return readObject(text, 'the body');
  const form = readForm(bytes);
  if (!form.ok) return refuse('invalid_json', `the body ${form.fault}`);
  const wrapped = unwrap(form.fields);
  if (wrapped !== undefined) return wrapped;
  const payload = Object.fromEntries(
    [...form.fields].map(([name, values]) => [name, values.length === 1 ? values[0] : values]),
  );
  // Through the same gate as every other stranger's text: what a ledger cannot keep stays outside.
  return readObject(JSON.stringify(payload), 'the body');
}

/**
 * `curl -d` and others call every body a form. What begins as an object in JSON cannot be the text
 * of one: there braces and quotes are escaped.
 */
const OBJECT = /^\{\s*["}]/;

/** GitHub and Slack put JSON into the one field `payload` of a form; other texts are just that. */
function unwrap(fields: ReadonlyMap<string, readonly string[]>): ReadBody | undefined {
  const [text, more] = fields.get('payload') ?? [];
  if (text === undefined || more !== undefined || fields.size > 1) return undefined;
  return OBJECT.test(text) ? readObject(text, 'the field payload') : undefined;
}

function readObject(text: string, what: string): ReadBody {
  const parsed = parseStrictJson(text);
  if (!parsed.ok) return refuse('invalid_json', `${what} ${parsed.fault}`);
  if (!isObject(parsed.value)) return refuse('body_must_be_object', `${what} is not an object`);
  return { ok: true, payload: parsed.value };
}

/** The original hands on what is in `payload` when a body has nothing else, as its API does. */
function unwrapPayload(read: ReadBody): ReadBody {
  if (!read.ok) return read;
  const { payload, ...others } = read.payload;
  const isWrapped = isObject(payload) && Object.keys(others).length === 0;
  return isWrapped ? { ...read, payload } : read;
}

function readEvent(request: HookRequest, value: unknown): ReadBody {
  const headers = new Map<string, string>();
  for (const [name, text] of request.headers) {
    if (name !== 'content-type' && !name.startsWith('ce-')) continue;
    if (headers.has(name)) return refuse('invalid_event', `${name} came twice`);
    headers.set(name, text);
  }
  try {
    const event = fromCloudEvent(readCloudEvent(Object.fromEntries(headers), value));
    const { data } = event;
    return { ok: true, payload: isObject(data) ? data : {}, event };
  } catch (thrown) {
    return refuse('invalid_event', toDuctileError(thrown).message);
  }
}

function refuse(fault: BodyFault, message: string): ReadBody {
  return { ok: false, fault, message };
}

/**
 * The type that a body is declared to have, in lower case and whatever its parameters say; undefined
 * when it is none, or in another charset than UTF-8.
 */
function typeIn(contentType: string): string | undefined {
  const [type = ''] = /^[\w.+-]+\/[\w.+-]+/.exec(contentType) ?? [];
  let rest = contentType.slice(type.length);
  for (let found = PARAMETER.exec(rest); found !== null; found = PARAMETER.exec(rest)) {
    const [whole, name = '', value = ''] = found;
    if (name.toLowerCase() === 'charset' && !UTF_8.test(value)) return undefined;
    rest = rest.slice(whole.length);
  }
  return type === '' || rest.trim() !== '' ? undefined : type.toLowerCase();
}

const PARAMETER = /^\s*;\s*(?:([\w!#$&^.+-]+)\s*=\s*("(?:[^"\\]|\\.)*"|[^\s",;]+))?/;
const UTF_8 = /^(?:utf-?8|"utf-?8")$/i;

type ReadForm =
  | { readonly ok: true; readonly fields: ReadonlyMap<string, readonly string[]> }
  | { readonly ok: false; readonly fault: string };

const FORM_TYPE = 'application/x-www-form-urlencoded';

export function isForm(contentType: string): boolean {
  return typeIn(contentType) === FORM_TYPE;
}

/** The fields of a form, each with all of its values in order. */
export function readForm(bytes: Buffer): ReadForm {
  const fields = new Map<string, string[]>();
  let count = 0;
  for (const pair of bytes.toString('latin1').split('&')) {
    if (pair === '') continue;
    count += 1;
    if (count > limits.jsonKeysMax) return fault(`has more than ${limits.jsonKeysMax} fields`);
    const equals = pair.indexOf('=');
    const name = decodeFormText(equals === -1 ? pair : pair.slice(0, equals));
    const value = decodeFormText(equals === -1 ? '' : pair.slice(equals + 1));
    if (name === undefined || value === undefined) return fault('is not a form in UTF-8');
    const values = fields.get(name);
    if (values === undefined) fields.set(name, [value]);
    else values.push(value);
  }
  return { ok: true, fields };
}

function decodeFormText(written: string): string | undefined {
  if (/%(?![0-9A-Fa-f]{2})/.test(written)) return undefined;
  const raw = written
    .replaceAll('+', ' ')
    .replaceAll(/%(..)/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
  try {
    return decoder.decode(Buffer.from(raw, 'latin1'));
  } catch {
    return undefined;
  }
}

function fault(text: string): ReadForm {
  return { ok: false, fault: text };
}
