import { limits } from '../../base/limits.ts';
import { findSigner, type Algorithm, type Encoding, type KeyForm } from './mac.ts';
import { findAll, makeEffort, type Effort, type Pattern } from './pattern.ts';
import { takeHeader, type HookRequest } from '../request.ts';
import { findTimeFault, refuse, type OncePolicy, type Refused } from './verdict.ts';

/** The generic form: one header, the body, and maybe something of the header before it. */
export interface HmacScheme {
  readonly kind: 'hmac';
  readonly header: string;
  readonly algorithm: Algorithm;
  readonly encoding: Encoding;
  /** Taken off where it is there; nothing is wrong where it is not. */
  readonly prefix: string;
  /** Finds signatures in the header as its first group, instead of the prefix. */
  readonly signature: Pattern | undefined;
  /** Finds in the header what was signed before the body, with a dot between. */
  readonly payloadPrefix: Pattern | undefined;
  /**
   * How far from now the time in the payload prefix may be; 0 doesn't check it. If undefined, the
   * default counts for a prefix that is a Unix time, and any other prefix is accepted.
   */
  readonly toleranceMs: number | undefined;
  readonly idHeaders: readonly string[];
  readonly once: OncePolicy;
}

export interface HmacSigned {
  readonly secretIndex: number;
  readonly timestampMs?: number | undefined;
  readonly once: OncePolicy;
  readonly parts: readonly (string | Buffer)[];
}

const literal: KeyForm = { encoding: 'utf8', prefix: '' };

/** The one way in which a static endpoint is signed. */
export function makeEndpointScheme(header: string): HmacScheme {
  return {
    kind: 'hmac',
    header: header.toLowerCase(),
    algorithm: 'sha256',
    encoding: 'hex',
    prefix: 'sha256=',
    signature: undefined,
    payloadPrefix: undefined,
    toleranceMs: undefined,
    idHeaders: [],
    once: 'never',
  };
}

export function verifyHmac(
  scheme: HmacScheme,
  request: HookRequest,
  secrets: readonly string[],
  nowMs: number,
): HmacSigned | Refused {
  const taken = takeHeader(request, scheme.header);
  if (!taken.ok) return refuse(taken.reason);
  const effort = makeEffort();
  const signatures = findSignatures(scheme, taken.value, effort);
  if (signatures === undefined) return refuse('pattern_exhausted');
  if (signatures.length === 0) return refuse('signature_malformed');
  if (signatures.length > limits.hookSignaturesMax) return refuse('signatures_too_many');
  const prefix = findPrefix(scheme, taken.value, effort);
  if (typeof prefix === 'object') return prefix;
  // A header's characters are its bytes.
  const signed = prefix === undefined ? [] : [Buffer.from(`${prefix}.`, 'latin1')];
  const parts = [...signed, request.rawBody];
  const { algorithm, encoding, once } = scheme;
  const signing = { algorithm, encoding, key: literal };
  const secretIndex = findSigner(secrets, signatures, parts, signing);
  if (secretIndex === undefined) return refuse('signature_wrong');
  const { toleranceMs } = scheme;
  if (prefix === undefined || toleranceMs === 0) return { secretIndex, once, parts };
  const timestampMs = timeIn(prefix);
  if (timestampMs === undefined) {
    return toleranceMs === undefined ? { secretIndex, once, parts } : refuse('timestamp_malformed');
  }
  const fault = findTimeFault(timestampMs, toleranceMs ?? limits.hookToleranceMs, nowMs);
  if (fault !== undefined) return refuse(fault);
  return { secretIndex, timestampMs, once: 'always', parts };
}

/** The signed text before the body; undefined if there is none. */
function findPrefix(
  { payloadPrefix }: HmacScheme,
  header: string,
  effort: Effort,
): string | Refused | undefined {
  if (payloadPrefix === undefined) return undefined;
  const prefixes = findAll(payloadPrefix, header, 1, effort);
  if (prefixes === undefined) return refuse('pattern_exhausted');
  const [prefix = ''] = prefixes;
  if (prefix === '') return refuse('prefix_unmatched');
  // Or a piece of the body could be passed for it.
  return prefix.includes('.') ? refuse('value_ambiguous') : prefix;
}

/** A Unix time in seconds (10 digits) or milliseconds (13 digits). */
function timeIn(prefix: string): number | undefined {
  if (!/^(?:\d{10}|\d{13})$/.test(prefix)) return undefined;
  return Number(prefix) * (prefix.length === 10 ? 1000 : 1);
}

function findSignatures(
  { signature, prefix }: HmacScheme,
  header: string,
  effort: Effort,
): string[] | undefined {
  if (signature !== undefined) {
    const found = findAll(signature, header, limits.hookSignaturesMax + 1, effort);
    return found?.filter((one) => one !== '');
  }
  return [header.startsWith(prefix) ? header.slice(prefix.length) : header];
}
