import { fromTimestamp, type Timestamp } from '../base/clock.ts';
import { DuctileError } from '../base/errors.ts';
import { type Json, type JsonObject, toStoredJson } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import {
  findNameFault,
  metadataOf,
  pluginSource,
  RUNTIME_SOURCE,
  type SignalDraft,
} from './signal.ts';
import { findSecret, REDACTED_KEY } from './mask.ts';

/** A signal that an outside caller reports. Blank texts count as absent. */
export interface SignalReport {
  readonly type: string;
  readonly source: string;
  /** The subject, as `<type>/<id>` or an id alone. */
  readonly subject?: string | undefined;
  readonly data: JsonObject;
  /** Its `correlation_id` and `causation_id` place the signal in a chain. */
  readonly metadata?: JsonObject | undefined;
  readonly occurredAt?: Timestamp | undefined;
  readonly dedupeKey?: string | undefined;
  readonly sourceEventId?: string | undefined;
  readonly visibility?: 'internal' | 'admin_only' | undefined;
}

export interface Reporter {
  /** The id of the new signal. */
  readonly id: string;
  readonly actor: string;
  /** The actor's role at that time. */
  readonly actorRole?: string | undefined;
  readonly nowMs: number;
}

/** Translates a report to a draft. Throws with the field if the report can't be stored. */
export function toSignalDraft(report: SignalReport, reporter: Reporter): SignalDraft {
  const { id, nowMs } = reporter;
  const { type, source, data, visibility, metadata: given = {} } = report;
  const fault = findNameFault(type);
  if (fault !== undefined) throw refuse('type', fault);
  checkSource(source);
  const { correlation_id: correlation, causation_id: causation, ...rest } = given;
  const correlationId = readText(correlation, 'metadata.correlation_id', limits.eventTypeBytesMax);
  return {
    id,
    type,
    source,
    data: encode(data, 'data', limits.payloadBytesMax),
    metadata: encodeMetadata(rest, reporter),
    hops: 1,
    correlationId: correlationId ?? id,
    ...(correlationId === undefined ? {} : { isCorrelated: true }),
    ...omitUndefined({
      ...splitSubject(readText(report.subject, 'subject')),
      causationId: readText(causation, 'metadata.causation_id', limits.eventTypeBytesMax),
      dedupeKey: readText(report.dedupeKey, 'dedupe_key'),
      sourceEventId: readText(report.sourceEventId, 'source_event_id'),
      occurredAt: checkTime(report.occurredAt, nowMs),
      visibility,
    }),
  };
}

/** Reserves the sources of Ductile and of plugins: routes trust them. */
function checkSource(source: string): void {
  if (readText(source, 'source', limits.eventTypeBytesMax) === undefined) {
    throw refuse('source', 'must not be blank');
  }
  if (source === RUNTIME_SOURCE || source.startsWith(pluginSource(''))) {
    throw refuse('source', `must not be ${RUNTIME_SOURCE} or the source of a plugin`);
  }
}

/** Most reports have no metadata, and those of one reporter are equal: they are checked once. */
function encodeMetadata(given: JsonObject, { actor, actorRole }: Reporter): string {
  const own = metadataOf(actor, actorRole);
  if (Object.keys(given).length > 0) {
    // The caller can't set its own role, or claim that something was masked, which would refuse a
    // replay.
    const { schema_version: usual, ...who } = own;
    const { actor_role: _, [REDACTED_KEY]: __, schema_version: version = usual, ...others } = given;
    const metadata = { schema_version: version, ...others, ...who };
    return encode(metadata, 'metadata', limits.signalMetadataBytesMax);
  }
  if (lastPlain?.actor !== actor || lastPlain.actorRole !== actorRole) {
    const text = encode(own, 'metadata', limits.signalMetadataBytesMax);
    lastPlain = { actor, actorRole, text };
  }
  return lastPlain.text;
}

/** The metadata of a reporter without metadata of its own. */
interface PlainMetadata {
  readonly actor: string;
  readonly actorRole: string | undefined;
  readonly text: string;
}

let lastPlain: PlainMetadata | undefined;

function encode(value: JsonObject, field: string, bytesMax: number): string {
  const text = toStoredJson(value, field, bytesMax);
  refuseSecret(value, field);
  return text;
}

function refuseSecret(value: Json, field: string): void {
  const found = findSecret(value, field);
  if (found === undefined) return;
  throw new DuctileError(
    'INPUT_INVALID',
    `${found.path} ${found.rule}; signals must not hold secrets`,
    {
      place: found.path,
      hint: 'Remove it, or use a reference instead, such as the id of a credential.',
    },
  );
}

function readText(
  value: unknown,
  field: string,
  bytesMax: number = limits.dedupeKeyBytesMax,
): string | undefined {
  if (value === undefined || value === null) return undefined;
  if (typeof value !== 'string') throw refuse(field, 'must be text');
  toStoredJson(value, field, bytesMax);
  // These texts are stored and shown like the data. Some of them are in indexes and URLs.
  refuseSecret(value, field);
  return value.trim() === '' ? undefined : value;
}

/** Splits `<type>/<id>`, or an id alone. */
export function splitSubject(subject: string | undefined): {
  subjectType?: string;
  subjectId?: string;
} {
  if (subject === undefined) return {};
  const at = subject.indexOf('/');
  if (at <= 0) return { subjectId: subject };
  return { subjectType: subject.slice(0, at), subjectId: subject.slice(at + 1) };
}

/** A signal from the future would be kept until then. */
function checkTime(at: Timestamp | undefined, nowMs: number): Timestamp | undefined {
  if (at === undefined || fromTimestamp(at) <= nowMs + limits.occurredAheadMsMax) return at;
  throw refuse('occurred_at', 'is in the future');
}

type DefinedFields<T> = { [K in keyof T]?: Exclude<T[K], undefined> };

function omitUndefined<T extends object>(fields: T): DefinedFields<T> {
  const given = Object.entries(fields).filter(([, value]) => value !== undefined);
  return Object.fromEntries(given) as DefinedFields<T>;
}

function refuse(place: string, fault: string): DuctileError {
  return new DuctileError('INPUT_INVALID', `${place} ${fault}`, { place });
}
