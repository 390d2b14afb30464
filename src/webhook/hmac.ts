import { limits } from '../base/limits.ts';
import { findSigner, type Algorithm, type Encoding, type KeyForm } from './mac.ts';
import { findAll, makeEffort, type Effort, type Pattern } from './pattern.ts';
import { takeHeader, type HookRequest } from './request.ts';
import { refuse, type OncePolicy, type Refused } from './verdict.ts';

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
  readonly idHeaders: readonly string[];
  readonly once: OncePolicy;
}

export interface HmacSigned {
  readonly secretIndex: number;
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
    idHeaders: [],
    once: 'never',
  };
}

export function verifyHmac(
  scheme: HmacScheme,
  request: HookRequest,
  secrets: readonly string[],
): HmacSigned | Refused {
  const taken = takeHeader(request, scheme.header);
  if (!taken.ok) return refuse(taken.reason);
  const effort = makeEffort();
  const signatures = findSignatures(scheme, taken.value, effort);
  if (signatures === undefined) return refuse('pattern_exhausted');
  if (signatures.length === 0) return refuse('signature_malformed');
  if (signatures.length > limits.hookSignaturesMax) return refuse('signatures_too_many');
  const parts: (string | Buffer)[] = [request.rawBody];
  if (scheme.payloadPrefix !== undefined) {
    const prefixes = findAll(scheme.payloadPrefix, taken.value, 1, effort);
    if (prefixes === undefined) return refuse('pattern_exhausted');
    const [prefix = ''] = prefixes;
    if (prefix === '') return refuse('prefix_unmatched');
    // Or a piece of the body could be passed for it.
    if (prefix.includes('.')) return refuse('value_ambiguous');
    // A header's characters are its bytes.
    parts.unshift(Buffer.from(`${prefix}.`, 'latin1'));
  }
  const { algorithm, encoding } = scheme;
  const signing = { algorithm, encoding, key: literal };
  const secretIndex = findSigner(secrets, signatures, parts, signing);
  if (secretIndex === undefined) return refuse('signature_wrong');
  return { secretIndex, once: scheme.once, parts };
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
