import { toDuctileError } from '../base/errors.ts';
import { isObject, parseStrictJson, type JsonObject } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import { parseTraceparent, TRACE_KEY } from '../base/trace.ts';
import { CLOUDEVENT_TYPE, fromCloudEvent, readCloudEvent } from '../signal/cloudevent.ts';

/** An unverified HTTP request. */
export interface WebhookRequest {
  readonly method: string;
  /** As the sender sees it, with scheme and host. */
  readonly url: string;
  /**
   * A pair per header line, in order, with names in lower case. Repeated headers appear
   * repeatedly.
   */
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly rawBody: Buffer;
}

/** A delivery as a listener has read it. */
export interface IncomingDelivery {
  readonly request: WebhookRequest;
  /** The address of the sender. Forwarded addresses count only for trusted proxies. */
  readonly source: string;
  /** True if the body exceeds the maximum of all webhooks. The rest was not read. */
  readonly isOversize: boolean;
  /** The known size of a body that was not read completely. */
  readonly bodyBytes?: number;
  /** Returns a signal that fires when the sender disconnects. */
  readonly disconnected?: () => AbortSignal;
  /** The distance from the first cause, if a running job made the delivery. */
  readonly hops?: number;
  /** The directive that delivers it as a test, without the listener. */
  readonly test?: DeliveryTest;
}

/** A test delivery: who requested it, and by which directive. */
export interface DeliveryTest {
  readonly actor: string;
  readonly directiveId: string;
}

/** Returns the `traceparent` of the sender. Undefined unless there is exactly one and it is valid. */
export function traceparentIn({ request }: IncomingDelivery): string | undefined {
  const given = request.headers.filter(([name]) => name === TRACE_KEY).map(([, value]) => value);
  const [only] = given;
  return given.length === 1 && parseTraceparent(only) !== undefined ? only : undefined;
}

export type HeaderFault = 'header_missing' | 'header_repeated' | 'header_too_long';

type HeaderResult =
  | { readonly ok: true; readonly value: string }
  | { readonly ok: false; readonly reason: HeaderFault };

/**
 * Reads a header that a decision depends on. It must occur once: with two values, other programs
 * may have used the other one.
 */
export function readHeader(request: WebhookRequest, name: string): HeaderResult {
  const [first, second] = valuesOf(request, name);
  if (first === undefined || first === '') return { ok: false, reason: 'header_missing' };
  if (second !== undefined) return { ok: false, reason: 'header_repeated' };
  if (first.length > limits.webhookHeaderCharsMax) return { ok: false, reason: 'header_too_long' };
  return { ok: true, value: first };
}

export function hasHeader(request: WebhookRequest, name: string): boolean {
  return request.headers.some(([key]) => key === name);
}

function valuesOf({ headers }: WebhookRequest, name: string): string[] {
  return headers.filter(([key]) => key === name).map(([, value]) => value);
}

export type BodyResult =
  | {
      readonly ok: true;
      readonly payload: JsonObject;
      /** The attributes of a CloudEvent, as data of the signal. */
      readonly event?: JsonObject;
    }
  | { readonly ok: false; readonly fault: BodyFault; readonly message: string };

export type BodyFault = MediaFault | 'invalid_json' | 'body_must_be_object' | 'invalid_event';
type MediaFault = 'media_type_unsupported';

type MediaType = 'json' | 'form' | 'event';

/**
 * `json` accepts only `application/json`, as the original program does, and unwraps a body with only `payload`.
 */
export type AcceptedMedia = 'json' | 'all';

/** Returns undefined if the declared type isn't accepted, or if it was declared twice. */
export function findMediaType(
  request: WebhookRequest,
  accepts: AcceptedMedia,
): MediaType | undefined {
  const encoding = readHeader(request, 'content-encoding');
  const isPlain = encoding.ok
    ? encoding.value.toLowerCase() === 'identity'
    : encoding.reason === 'header_missing';
  const type = readHeader(request, 'content-type');
  if (!isPlain || !type.ok) return undefined;
  const named = typeIn(type.value) ?? '';
  const media = mediaOf(named, request);
  const isAccepted = accepts === 'all' || (media === 'json' && named === 'application/json');
  return isAccepted ? media : undefined;
}

/** Reads the body as an object, because payloads are objects. */
export function readDeliveryBody(request: WebhookRequest, accepts: AcceptedMedia): BodyResult {
  const media = findMediaType(request, accepts);
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

function mediaOf(type: string, request: WebhookRequest): MediaType | undefined {
  if (type === CLOUDEVENT_TYPE) return 'event';
  // A batch is several deliveries, which can't get one response.
  if (type.startsWith('application/cloudevents')) return undefined;
  if (JSON_TYPE.test(type)) return hasAttributes(request) ? 'event' : 'json';
  return type === FORM_TYPE ? 'form' : undefined;
}

/** An incomplete CloudEvent is invalid, and not plain JSON. */
function hasAttributes({ headers }: WebhookRequest): boolean {
  return headers.some(([name]) => name.startsWith('ce-'));
}

/** A byte order mark is kept, so that it is invalid JSON. */
const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

function decode(bytes: Buffer): string | undefined {
  try {
    return decoder.decode(bytes);
  } catch {
    return undefined;
  }
}

function readFields(bytes: Buffer): BodyResult {
  const text = decode(bytes);
  if (text !== undefined && OBJECT.test(text)) return readObject(text, 'the body');
  const form = readForm(bytes);
  if (!form.ok) return refuse('invalid_json', `the body ${form.fault}`);
  const wrapped = unwrap(form.fields);
  if (wrapped !== undefined) return wrapped;
  const payload = Object.fromEntries(
    [...form.fields].map(([name, values]) => [name, values.length === 1 ? values[0] : values]),
  );
  // Checked like every other body from outside, so that nothing unstorable is accepted.
  return readObject(JSON.stringify(payload), 'the body');
}

/**
 * `curl -d` and other tools declare every body a form. Text that begins as a JSON object can't be a
 * form, because forms escape braces and quotes.
 */
const OBJECT = /^\{\s*["}]/;

/** GitHub and Slack put JSON into the only field `payload` of a form. */
function unwrap(fields: ReadonlyMap<string, readonly string[]>): BodyResult | undefined {
  const [text, more] = fields.get('payload') ?? [];
  if (text === undefined || more !== undefined || fields.size > 1) return undefined;
  return OBJECT.test(text) ? readObject(text, 'the field payload') : undefined;
}

function readObject(text: string, what: string): BodyResult {
  const parsed = parseStrictJson(text);
  if (!parsed.ok) return refuse('invalid_json', `${what} ${parsed.fault}`);
  if (!isObject(parsed.value)) return refuse('body_must_be_object', `${what} is not an object`);
  return { ok: true, payload: parsed.value };
}

/** Document 4 unwraps `payload` if the body has no other key, as its API does. */
function unwrapPayload(read: BodyResult): BodyResult {
  if (!read.ok) return read;
  const { payload, ...others } = read.payload;
  const isWrapped = isObject(payload) && Object.keys(others).length === 0;
  return isWrapped ? { ...read, payload } : read;
}

function readEvent(request: WebhookRequest, value: unknown): BodyResult {
  const headers = new Map<string, string>();
  for (const [name, text] of request.headers) {
    if (name !== 'content-type' && !name.startsWith('ce-')) continue;
    if (headers.has(name)) return refuse('invalid_event', `${name} occurs twice`);
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

function refuse(fault: BodyFault, message: string): BodyResult {
  return { ok: false, fault, message };
}

/**
 * Returns the media type in lower case, without its parameters. Undefined if it is invalid or has a
 * charset other than UTF-8.
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

type FormResult =
  | { readonly ok: true; readonly fields: ReadonlyMap<string, readonly string[]> }
  | { readonly ok: false; readonly fault: string };

const FORM_TYPE = 'application/x-www-form-urlencoded';

export function isForm(contentType: string): boolean {
  return typeIn(contentType) === FORM_TYPE;
}

/** Returns the fields of a form, each with all of its values in order. */
export function readForm(bytes: Buffer): FormResult {
  const fields = new Map<string, string[]>();
  let count = 0;
  for (const pair of bytes.toString('latin1').split('&')) {
    if (pair === '') continue;
    count += 1;
    if (count > limits.jsonKeysMax) return refuseForm(`has more than ${limits.jsonKeysMax} fields`);
    const equals = pair.indexOf('=');
    const name = decodeFormText(equals === -1 ? pair : pair.slice(0, equals));
    const value = decodeFormText(equals === -1 ? '' : pair.slice(equals + 1));
    if (name === undefined || value === undefined) return refuseForm('is not a form in UTF-8');
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

function refuseForm(text: string): FormResult {
  return { ok: false, fault: text };
}
