import { DuctileError } from '../base/errors.ts';
import {
  describeUnsafeJson,
  isObject,
  type Json,
  type JsonObject,
  parseStrictJson,
} from '../base/json.ts';

export const CLOUDEVENT_TYPE = 'application/cloudevents+json';
export const CLOUDEVENT_BATCH_TYPE = 'application/cloudevents-batch+json';

const SPEC_VERSION = '1.0';

/** Translates a CloudEvent to the input of a signal report. */
export function fromCloudEvent(event: unknown): JsonObject {
  if (!isObject(event)) throw refuse('body', 'must be a CloudEvent, a JSON object');
  const { specversion, id, type, source, subject, time, data, ...rest } = event;
  if (specversion !== SPEC_VERSION) throw refuse('specversion', `must be "${SPEC_VERSION}"`);
  for (const [name, value] of Object.entries({ id, type, source })) {
    if (typeof value !== 'string' || value === '') throw refuse(name, 'must be text');
  }
  const { correlationid, causationid, datacontenttype, data_base64: bytes, ...extensions } = rest;
  if (bytes !== undefined && data !== undefined) {
    throw refuse('data_base64', 'and data are both given: send one of them');
  }
  const metadata = omitUndefined({
    ...extensions,
    correlation_id: correlationid,
    causation_id: causationid,
  });
  return omitUndefined({
    type,
    source,
    source_event_id: id,
    subject,
    occurred_at: time,
    data: bytes === undefined ? toData(data) : toData(readBase64(bytes, datacontenttype)),
    metadata: Object.keys(metadata).length === 0 ? undefined : metadata,
  });
}

/** Decodes JSON that was sent as bytes. Other bytes are kept as they are, in an object. */
function readBase64(bytes: Json, contentType: Json | undefined): Json {
  if (
    typeof bytes !== 'string' ||
    !/^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/.test(bytes)
  ) {
    throw refuse('data_base64', 'must be bytes in Base64');
  }
  const type = typeof contentType === 'string' ? contentType : 'application/json';
  if (!/^application\/(?:json|[\w.+-]+\+json)(?:$|;)/i.test(type)) {
    return { data_base64: bytes, datacontenttype: type };
  }
  const parsed = parseStrictJson(Buffer.from(bytes, 'base64').toString('utf8'));
  if (!parsed.ok) throw refuse('data_base64', `holds JSON that ${parsed.fault}`);
  return parsed.value as Json;
}

/** The data of a signal is an object. */
function toData(data: Json | undefined): JsonObject {
  if (data === undefined) return {};
  return isObject(data) ? data : { value: data };
}

export function isCloudEventBatch(headers: Headers): boolean {
  return mediaTypeOf(headers) === CLOUDEVENT_BATCH_TYPE;
}

/** Translates each CloudEvent of a batch. An error names the event's index. */
export function fromCloudEvents(batch: unknown): JsonObject[] {
  if (!Array.isArray(batch)) throw refuse('body', 'must be a list of CloudEvents');
  return batch.map((event, index) => {
    try {
      return fromCloudEvent(event);
    } catch (thrown) {
      if (!(thrown instanceof DuctileError)) throw thrown;
      const place = `[${index}].${thrown.place ?? ''}`;
      throw new DuctileError(thrown.code, `[${index}] ${thrown.message}`, { place });
    }
  });
}

function mediaTypeOf(headers: Headers): string {
  const [type = ''] = String(headers['content-type'] ?? '').split(';');
  return type.trim().toLowerCase();
}

type Headers = Readonly<Record<string, string | readonly string[] | undefined>>;

/**
 * Reads the CloudEvent of a request: its whole body, or attributes in headers. Undefined if it has
 * none.
 */
export function readCloudEvent(headers: Headers, body: unknown): unknown {
  const type = mediaTypeOf(headers);
  if (type === CLOUDEVENT_TYPE) return body;
  if (type.startsWith('application/cloudevents')) {
    const message = `CloudEvents are accepted as ${CLOUDEVENT_TYPE} or ${CLOUDEVENT_BATCH_TYPE}`;
    throw new DuctileError('MEDIA_TYPE_UNSUPPORTED', message, { place: 'content-type' });
  }
  if (headers[`${PREFIX}specversion`] === undefined) return undefined;
  const attributes = Object.entries(headers)
    .filter(([name]) => name.startsWith(PREFIX))
    .map(([name, value]) => [name.slice(PREFIX.length), decode(name, String(value))] as const);
  for (const [name, value] of attributes) {
    const unsafe = describeUnsafeJson({ [name]: value }, 1);
    if (unsafe !== undefined) throw refuse(`${PREFIX}${name}`, unsafe.replace(/^\S+ /, ''));
  }
  return omitUndefined({ ...Object.fromEntries(attributes), data: body as Json | undefined });
}

/** The prefix of the headers that carry attributes. */
const PREFIX = 'ce-';

/**
 * Returns whether the caller sends CloudEvents in headers, and so gets the response in that form.
 */
export function wantsBinaryCloudEvents(headers: Headers): boolean {
  return headers[`${PREFIX}specversion`] === SPEC_VERSION;
}

function decode(name: string, value: string): string {
  try {
    return decodeURIComponent(value);
  } catch {
    throw refuse(name, 'has an invalid percent encoding');
  }
}

/** A signal in the form of responses. */
export interface ShownSignal {
  readonly signal_id: string;
  readonly type: string;
  readonly source: string;
  readonly subject_type: string | null;
  readonly subject_id: string | null;
  readonly data: unknown;
  readonly correlation_id: string;
  readonly causation_id: string | null;
  readonly occurred_at: string;
  readonly inserted_at: string;
}

/** Encodes the source as a URI reference if it isn't one. */
export function toCloudEvent(signal: ShownSignal): JsonObject {
  const { subject_type: kind, subject_id: subject } = signal;
  return omitUndefined({
    specversion: SPEC_VERSION,
    id: signal.signal_id,
    type: signal.type,
    source: encodeURI(signal.source),
    subject: [kind, subject].filter((part) => part !== null).join('/') || undefined,
    time: signal.occurred_at,
    recordedtime: signal.inserted_at,
    correlationid: signal.correlation_id,
    causationid: signal.causation_id ?? undefined,
    datacontenttype: 'application/json',
    data: signal.data as Json,
  });
}

/** Encodes a signal as a CloudEvent in binary mode: attributes for headers, and its data alone. */
export function toBinaryCloudEvent(signal: ShownSignal): {
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly data: Json;
} {
  const { data = null, datacontenttype: _, ...attributes } = toCloudEvent(signal);
  const headers = Object.entries(attributes).flatMap(([name, value]) =>
    typeof value === 'string' ? [[`${PREFIX}${name}`, encode(value)] as const] : [],
  );
  return { headers, data };
}

/** Encodes the characters that a header can't hold, and the percent sign. */
function encode(value: string): string {
  return value.replaceAll(/[^\u0021-\u007e]|["%]/gu, (sign) => {
    const bytes = [...Buffer.from(sign)];
    return bytes.map((byte) => `%${byte.toString(16).toUpperCase().padStart(2, '0')}`).join('');
  });
}

function omitUndefined(fields: Readonly<Record<string, Json | undefined>>): JsonObject {
  const filled = Object.entries(fields).filter(([, value]) => value !== undefined);
  return Object.fromEntries(filled) as JsonObject;
}

function refuse(place: string, fault: string): DuctileError {
  return new DuctileError('INPUT_INVALID', `${place} ${fault}`, { place });
}
