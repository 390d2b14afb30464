import { limits } from '../../base/limits.ts';
import { findSigner, type Signing } from './mac.ts';
import { takeHeader, type HookRequest, type HeaderFault } from '../request.ts';
import { findTimeFault, refuse, type OncePolicy, type Refusal, type Refused } from './verdict.ts';

/** The general form: any number of signatures over anything that the request has. */
export interface SignedScheme extends Signing {
  readonly kind: 'signed';
  readonly header: string;
  /** Between the entries of the header; empty when the header is one. */
  readonly separator: string;
  /** Which entries are signatures. */
  readonly prefix: string;
  readonly payload: readonly Part[];
  readonly timestamp: Timestamp | undefined;
  /** Where the sender names the delivery: headers, or else a field of the payload. */
  readonly idHeaders: readonly string[];
  readonly idField: string | undefined;
  /** Without a timestamp; with one it's always. */
  readonly once: OncePolicy;
  /** Whether the sender may ask for its challenge back. */
  readonly hasChallenge: boolean;
}

export interface Timestamp {
  readonly part: Part;
  readonly unit: 's' | 'ms';
  readonly toleranceMs: number;
}

interface Signed {
  readonly secretIndex: number;
  readonly timestampMs: number | undefined;
  readonly once: OncePolicy;
  readonly parts: readonly (string | Buffer)[];
}

export function verifySigned(
  scheme: SignedScheme,
  request: HookRequest,
  secrets: readonly string[],
  nowMs: number,
): Signed | Refused {
  const taken = takeHeader(request, scheme.header);
  if (!taken.ok) return refuse(taken.reason);
  const entries = split(taken.value, scheme.separator);
  const signatures = entries
    .filter((entry) => entry.startsWith(scheme.prefix))
    .map((entry) => entry.slice(scheme.prefix.length));
  if (signatures.length === 0) return refuse('signature_malformed');
  if (signatures.length > limits.hookSignaturesMax) return refuse('signatures_too_many');
  const filled = fillPayload(scheme.payload, request, entries);
  if (!filled.ok) return refuse(filled.reason);
  const secretIndex = findSigner(secrets, signatures, filled.parts, scheme);
  if (secretIndex === undefined) return refuse('signature_wrong');
  const time = readTime(scheme, request, entries, nowMs);
  if (!time.ok) return refuse(time.reason);
  const once = scheme.timestamp === undefined ? scheme.once : 'always';
  return { secretIndex, timestampMs: time.ms, once, parts: filled.parts };
}

function split(value: string, separator: string): string[] {
  if (separator === '') return [value];
  return value.split(separator).map((entry) => entry.trim());
}

type Time =
  | { readonly ok: true; readonly ms: number | undefined }
  | { readonly ok: false; readonly reason: Refusal };

function readTime(
  { timestamp }: SignedScheme,
  request: HookRequest,
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

/** A piece of what is signed. */
export type Part =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'header'; readonly name: string }
  /** A named entry of the signature header, such as `t=` in front of a time. */
  | { readonly kind: 'entry'; readonly name: string }
  | { readonly kind: 'body' }
  | { readonly kind: 'url' }
  | { readonly kind: 'method' };

type ParsedPayload =
  | { readonly ok: true; readonly parts: readonly Part[] }
  | { readonly ok: false; readonly message: string; readonly hint: string };

const FORM =
  'Write it like {header:X-Timestamp}.{body}; there are also {sig.t}, {url} and {method}.';

/** A template of what is signed, which must cover the body and leave no doubt where its parts end. */
export function parsePayload(template: string): ParsedPayload {
  const parts: Part[] = [];
  for (const [, placeholder, text] of template.matchAll(/\{([^{}]*)\}|([^{}]+|[{}])/g)) {
    const part = placeholder === undefined ? toText(text ?? '') : toPart(placeholder);
    if (part === undefined) {
      return fault(`does not know ${placeholder === undefined ? text : `{${placeholder}}`}`);
    }
    parts.push(part);
  }
  const bodies = parts.filter(({ kind }) => kind === 'body').length;
  if (bodies === 0) return fault('has no {body}, so anybody could change it');
  if (bodies > 1) return fault('has {body} twice, so nobody could tell where the first one ends');
  const isOpen = (part: Part, index: number): boolean =>
    hasName(part) && !mayStandBeside(innerOf(parts, index));
  return parts.some(isOpen) ? fault(OPEN) : { ok: true, parts };
}

const OPEN =
  'needs a separator after each {header:…} and {sig.…} before {body}, and before each after it';

/** A number may stand right behind the body; which ones are numbers is not said here. */
function mayStandBeside({ part, isBefore }: Inner): boolean {
  return part?.kind === 'text' || (part?.kind === 'body' && !isBefore);
}

/** What one placeholder means, such as `header:X-Timestamp`. */
export function toPart(placeholder: string): Part | undefined {
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
  parts: readonly Part[],
  request: HookRequest,
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

/** The neighbour of a part on the side of the body. */
interface Inner {
  readonly part: Part | undefined;
  readonly isBefore: boolean;
}

function innerOf(parts: readonly Part[], index: number): Inner {
  const isBefore = index < parts.findIndex(({ kind }) => kind === 'body');
  return { part: parts[isBefore ? index + 1 : index - 1], isBefore };
}

/**
 * Whether it is plain where the value ends towards the body: whoever may choose that could pass a
 * piece of the body for a piece of the value, and what was signed would still be the same text.
 */
function isClosed(
  { kind }: Part,
  value: Buffer,
  { part: inner, isBefore }: Inner,
  request: HookRequest,
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

/** Whether the sender may say nothing in the address: its path is that of the webhook. */
function isWithoutChoice({ url, headers }: HookRequest): boolean {
  const hosts = headers.filter(([name]) => name === 'host').map(([, host]) => host);
  return !/[?#]/.test(url) && !hosts.some((host) => host.includes('/'));
}

type Value =
  | { readonly ok: true; readonly bytes: string | Buffer }
  | { readonly ok: false; readonly reason: HeaderFault | 'signature_malformed' };

function valueOf(part: Part, request: HookRequest, entries: readonly string[]): Value {
  if (part.kind === 'text') return { ok: true, bytes: part.text };
  if (part.kind === 'body') return { ok: true, bytes: request.rawBody };
  if (part.kind === 'url') return { ok: true, bytes: request.url };
  if (part.kind === 'method') return { ok: true, bytes: request.method };
  if (part.kind === 'header') {
    const taken = takeHeader(request, part.name);
    // A header's characters are its bytes.
    return taken.ok ? { ok: true, bytes: Buffer.from(taken.value, 'latin1') } : taken;
  }
  const [first, second] = entries.filter((entry) => entry.startsWith(`${part.name}=`));
  if (first === undefined || second !== undefined) {
    return { ok: false, reason: 'signature_malformed' };
  }
  return { ok: true, bytes: Buffer.from(first.slice(part.name.length + 1), 'latin1') };
}

/** Whether the sender says it under a name. */
function hasName(part: Part): part is Part & { readonly name: string } {
  return part.kind === 'header' || part.kind === 'entry';
}

function toText(text: string): Part | undefined {
  return text === '{' || text === '}' ? undefined : { kind: 'text', text };
}

function fault(message: string): ParsedPayload {
  return { ok: false, message, hint: FORM };
}
