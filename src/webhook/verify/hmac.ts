import { limits } from '../../base/limits.ts';
import { findSigner, type Algorithm, type Encoding, type KeyForm } from './mac.ts';
import { findMatches, createMatchEffort, type MatchEffort, type Pattern } from './pattern.ts';
import { readHeader, type WebhookRequest } from '../request.ts';
import { findTimeFault, refuseProof, type OncePolicy, type RefusedProof } from './verdict.ts';

/** A signature in one header over the body, optionally with a part of the header before it. */
export interface HmacScheme {
  readonly kind: 'hmac';
  readonly header: string;
  readonly algorithm: Algorithm;
  readonly encoding: Encoding;
  /** Removed from the header's value if present. */
  readonly prefix: string;
  /** Finds signatures in the header by its first group, instead of the prefix. */
  readonly signature: Pattern | undefined;
  /** Finds the signed text before the body in the header. A dot separates the two. */
  readonly payloadPrefix: Pattern | undefined;
  /**
   * The allowed age of the time in the payload prefix. 0 disables the check. If undefined, a Unix
   * time gets the default, and any other prefix is accepted.
   */
  readonly toleranceMs: number | undefined;
  readonly idHeaders: readonly string[];
  readonly once: OncePolicy;
}

interface HmacProof {
  readonly secretIndex: number;
  readonly timestampMs?: number | undefined;
  readonly once: OncePolicy;
  readonly parts: readonly (string | Buffer)[];
}

const literal: KeyForm = { encoding: 'utf8', prefix: '' };

/** The only signature scheme of static endpoints. */
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
  request: WebhookRequest,
  secrets: readonly string[],
  nowMs: number,
): HmacProof | RefusedProof {
  const found = readHeader(request, scheme.header);
  if (!found.ok) return refuseProof(found.reason);
  const effort = createMatchEffort();
  const signatures = findSignatures(scheme, found.value, effort);
  if (signatures === undefined) return refuseProof('pattern_exhausted');
  if (signatures.length === 0) return refuseProof('signature_malformed');
  if (signatures.length > limits.webhookSignaturesMax) return refuseProof('signatures_too_many');
  const prefix = findPrefix(scheme, found.value, effort);
  if (typeof prefix === 'object') return prefix;
  // A header's characters are its bytes.
  const signed = prefix === undefined ? [] : [Buffer.from(`${prefix}.`, 'latin1')];
  const parts = [...signed, request.rawBody];
  const { algorithm, encoding, once } = scheme;
  const signing = { algorithm, encoding, key: literal };
  const secretIndex = findSigner(secrets, signatures, parts, signing);
  if (secretIndex === undefined) return refuseProof('signature_wrong');
  const { toleranceMs } = scheme;
  if (prefix === undefined || toleranceMs === 0) return { secretIndex, once, parts };
  const timestampMs = timeIn(prefix);
  if (timestampMs === undefined) {
    return toleranceMs === undefined
      ? { secretIndex, once, parts }
      : refuseProof('timestamp_malformed');
  }
  const fault = findTimeFault(timestampMs, toleranceMs ?? limits.webhookToleranceMs, nowMs);
  if (fault !== undefined) return refuseProof(fault);
  return { secretIndex, timestampMs, once: 'always', parts };
}

/** Finds the signed text before the body. Undefined if there is none. */
function findPrefix(
  { payloadPrefix }: HmacScheme,
  header: string,
  effort: MatchEffort,
): string | RefusedProof | undefined {
  if (payloadPrefix === undefined) return undefined;
  const prefixes = findMatches(payloadPrefix, header, 1, effort);
  if (prefixes === undefined) return refuseProof('pattern_exhausted');
  const [prefix = ''] = prefixes;
  if (prefix === '') return refuseProof('prefix_unmatched');
  // A dot inside the prefix would allow an attacker to move bytes between prefix and body.
  return prefix.includes('.') ? refuseProof('value_ambiguous') : prefix;
}

/** A Unix time in seconds (10 digits) or milliseconds (13 digits). */
function timeIn(prefix: string): number | undefined {
  if (!/^(?:\d{10}|\d{13})$/.test(prefix)) return undefined;
  return Number(prefix) * (prefix.length === 10 ? 1000 : 1);
}

function findSignatures(
  { signature, prefix }: HmacScheme,
  header: string,
  effort: MatchEffort,
): string[] | undefined {
  if (signature !== undefined) {
    const found = findMatches(signature, header, limits.webhookSignaturesMax + 1, effort);
    return found?.filter((one) => one !== '');
  }
  return [header.startsWith(prefix) ? header.slice(prefix.length) : header];
}
