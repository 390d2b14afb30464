import { limits } from '../../base/limits.ts';
import { findSigner, type Signing } from './mac.ts';
import { fillPayload, valueOf, type Part } from '../payload.ts';
import { takeHeader, type HookRequest } from '../request.ts';
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

export interface Signed {
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
