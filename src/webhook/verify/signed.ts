import { limits } from '../../base/limits.ts';
import { findSigner, type SigningForm } from './mac.ts';
import { readHeader, type WebhookRequest, type HeaderFault } from '../request.ts';
import {
  findTimeFault,
  refuseProof,
  type OncePolicy,
  type RefusalReason,
  type RefusedProof,
} from './verdict.ts';

/** The general scheme: any number of signatures over any parts of the request. */
export interface SignedScheme extends SigningForm {
  readonly kind: 'signed';
  readonly header: string;
  /** Separates the entries of the header. Empty if the header is one entry. */
  readonly separator: string;
  /** Marks the entries that are signatures. */
  readonly prefix: string;
  readonly payload: readonly PayloadPart[];
  readonly timestamp: SignedTimestamp | undefined;
  /** Headers with the sender's id of the delivery. `idField` is a field of the payload instead. */
  readonly idHeaders: readonly string[];
  readonly idField: string | undefined;
  /** Only without a timestamp. With one, it is always `always`. */
  readonly once: OncePolicy;
  /** True if the sender may request its challenge back. */
  readonly hasChallenge: boolean;
}

export interface SignedTimestamp {
  readonly part: PayloadPart;
  readonly unit: 's' | 'ms';
  readonly toleranceMs: number;
}

interface SignedProof {
  readonly secretIndex: number;
  readonly timestampMs: number | undefined;
  readonly once: OncePolicy;
  readonly parts: readonly (string | Buffer)[];
}

export function verifySigned(
  scheme: SignedScheme,
  request: WebhookRequest,
  secrets: readonly string[],
  nowMs: number,
): SignedProof | RefusedProof {
  const found = readHeader(request, scheme.header);
  if (!found.ok) return refuseProof(found.reason);
  const entries = split(found.value, scheme.separator);
  const signatures = entries
    .filter((entry) => entry.startsWith(scheme.prefix))
    .map((entry) => entry.slice(scheme.prefix.length));
  if (signatures.length === 0) return refuseProof('signature_malformed');
  if (signatures.length > limits.webhookSignaturesMax) return refuseProof('signatures_too_many');
  const filled = fillPayload(scheme.payload, request, entries);
  if (!filled.ok) return refuseProof(filled.reason);
  const secretIndex = findSigner(secrets, signatures, filled.parts, scheme);
  if (secretIndex === undefined) return refuseProof('signature_wrong');
  const time = readTime(scheme, request, entries, nowMs);
  if (!time.ok) return refuseProof(time.reason);
  const once = scheme.timestamp === undefined ? scheme.once : 'always';
  return { secretIndex, timestampMs: time.ms, once, parts: filled.parts };
}

function split(value: string, separator: string): string[] {
  if (separator === '') return [value];
  return value.split(separator).map((entry) => entry.trim());
}

type Time =
  | { readonly ok: true; readonly ms: number | undefined }
  | { readonly ok: false; readonly reason: RefusalReason };

function readTime(
  { timestamp }: SignedScheme,
  request: WebhookRequest,
  entries: readonly string[],
  nowMs: number,
): Time {
  if (timestamp === undefined) return { ok: true, ms: undefined };
  const value = valueOf(timestamp.part, request, entries);
  if (!value.ok) return value;
  const text = value.bytes.toString();
  if (!/^\d{1,15}$/.test(text)) return { ok: false, reason: 'timestamp_malformed' };
  const ms = Number(text) * (timestamp.unit === 's' ? 1000 : 1);
  const fault = findTimeFault(ms, timestamp.toleranceMs, nowMs);
  return fault === undefined ? { ok: true, ms } : { ok: false, reason: fault };
}

/** A part of the signed text. */
export type PayloadPart =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'header'; readonly name: string }
  /** A named entry of the signature header, such as `t=` for a time. */
  | { readonly kind: 'entry'; readonly name: string }
  | { readonly kind: 'body' }
  | { readonly kind: 'url' }
  | { readonly kind: 'method' };

type ParsedPayload =
  | { readonly ok: true; readonly parts: readonly PayloadPart[] }
  | { readonly ok: false; readonly message: string; readonly hint: string };

const FORM =
  'Write it like {header:X-Timestamp}.{body}; there are also {sig.t}, {url} and {method}.';

/**
 * Parses a template of the signed text. It must contain the body once, and the ends of its parts
 * must be unambiguous.
 */
export function parsePayload(template: string): ParsedPayload {
  const parts: PayloadPart[] = [];
  for (const [, placeholder, text] of template.matchAll(/\{([^{}]*)\}|([^{}]+|[{}])/g)) {
    const part = placeholder === undefined ? toText(text ?? '') : parsePayloadPart(placeholder);
    if (part === undefined) {
      return refusePayload(
        `has the unknown part ${placeholder === undefined ? text : `{${placeholder}}`}`,
      );
    }
    parts.push(part);
  }
  const bodies = parts.filter(({ kind }) => kind === 'body').length;
  if (bodies === 0) return refusePayload('has no {body}, so an attacker could change it');
  if (bodies > 1)
    return refusePayload('has {body} twice, so the end of the first one is ambiguous');
  const isOpen = (part: PayloadPart, index: number): boolean =>
    hasName(part) && !mayStandBeside(innerOf(parts, index));
  return parts.some(isOpen) ? refusePayload(OPEN) : { ok: true, parts };
}

const OPEN =
  'needs a separator after each {header:…} and {sig.…} before {body}, and before each after it';

/** Only a number may follow the body directly. Values are checked when the payload is filled. */
function mayStandBeside({ part, isBefore }: PartNeighbor): boolean {
  return part?.kind === 'text' || (part?.kind === 'body' && !isBefore);
}

/** Parses a placeholder, such as `header:X-Timestamp`. */
export function parsePayloadPart(placeholder: string): PayloadPart | undefined {
  if (placeholder === 'body' || placeholder === 'url' || placeholder === 'method') {
    return { kind: placeholder };
  }
  const header = /^header:([A-Za-z0-9_-]{1,100})$/.exec(placeholder)?.[1];
  if (header !== undefined) return { kind: 'header', name: header.toLowerCase() };
  const entry = /^sig\.([A-Za-z0-9_-]{1,20})$/.exec(placeholder)?.[1];
  return entry === undefined ? undefined : { kind: 'entry', name: entry };
}

type FilledPayload =
  | { readonly ok: true; readonly parts: readonly (string | Buffer)[] }
  | {
      readonly ok: false;
      readonly reason: HeaderFault | 'signature_malformed' | 'value_ambiguous';
    };

export function fillPayload(
  parts: readonly PayloadPart[],
  request: WebhookRequest,
  entries: readonly string[],
): FilledPayload {
  const filled: (string | Buffer)[] = [];
  for (const [index, part] of parts.entries()) {
    const value = valueOf(part, request, entries);
    if (!value.ok) return value;
    const isForeign = part.kind === 'url' || hasName(part);
    if (isForeign && !isClosed(part, Buffer.from(value.bytes), innerOf(parts, index), request)) {
      return { ok: false, reason: 'value_ambiguous' };
    }
    filled.push(value.bytes);
  }
  return { ok: true, parts: filled };
}

/** The neighbor of a part on the side of the body. */
interface PartNeighbor {
  readonly part: PayloadPart | undefined;
  readonly isBefore: boolean;
}

function innerOf(parts: readonly PayloadPart[], index: number): PartNeighbor {
  const isBefore = index < parts.findIndex(({ kind }) => kind === 'body');
  return { part: parts[isBefore ? index + 1 : index - 1], isBefore };
}

/**
 * True if the end of the value towards the body is unambiguous. Otherwise an attacker could move
 * bytes between body and value without changing the signed text.
 */
function isClosed(
  { kind }: PayloadPart,
  value: Buffer,
  { part: inner, isBefore }: PartNeighbor,
  request: WebhookRequest,
): boolean {
  if (kind === 'url' && isWithoutChoice(request)) return true;
  if (inner?.kind === 'text') {
    const text = Buffer.from(inner.text);
    return isBefore
      ? Buffer.concat([value, text]).indexOf(text) === value.length
      : Buffer.concat([text, value]).lastIndexOf(text) === 0;
  }
  const isNumber = /^\d+$/.test(value.toString('latin1'));
  const bodyEnd = request.rawBody.subarray(-1).toString('latin1');
  return inner?.kind === 'body' && !isBefore && isNumber && !/\d/.test(bodyEnd);
}

/** True if the sender can't choose any part of the address. Its path is that of the webhook. */
function isWithoutChoice({ url, headers }: WebhookRequest): boolean {
  const hosts = headers.filter(([name]) => name === 'host').map(([, host]) => host);
  return !/[?#]/.test(url) && !hosts.some((host) => host.includes('/'));
}

type Value =
  | { readonly ok: true; readonly bytes: string | Buffer }
  | { readonly ok: false; readonly reason: HeaderFault | 'signature_malformed' };

function valueOf(part: PayloadPart, request: WebhookRequest, entries: readonly string[]): Value {
  if (part.kind === 'text') return { ok: true, bytes: part.text };
  if (part.kind === 'body') return { ok: true, bytes: request.rawBody };
  if (part.kind === 'url') return { ok: true, bytes: request.url };
  if (part.kind === 'method') return { ok: true, bytes: request.method };
  if (part.kind === 'header') {
    const found = readHeader(request, part.name);
    // A header's characters are its bytes.
    return found.ok ? { ok: true, bytes: Buffer.from(found.value, 'latin1') } : found;
  }
  const [first, second] = entries.filter((entry) => entry.startsWith(`${part.name}=`));
  if (first === undefined || second !== undefined) {
    return { ok: false, reason: 'signature_malformed' };
  }
  return { ok: true, bytes: Buffer.from(first.slice(part.name.length + 1), 'latin1') };
}

/** True for parts with a name that the sender controls. */
function hasName(part: PayloadPart): part is PayloadPart & { readonly name: string } {
  return part.kind === 'header' || part.kind === 'entry';
}

function toText(text: string): PayloadPart | undefined {
  return text === '{' || text === '}' ? undefined : { kind: 'text', text };
}

function refusePayload(message: string): ParsedPayload {
  return { ok: false, message, hint: FORM };
}
