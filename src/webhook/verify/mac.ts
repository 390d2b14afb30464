import { createHmac, hash, timingSafeEqual } from 'node:crypto';

export const algorithms = ['sha256', 'sha1', 'sha512'] as const;
export type Algorithm = (typeof algorithms)[number];

export const encodings = ['hex', 'base64'] as const;
export type Encoding = (typeof encodings)[number];

export const keyEncodings = ['utf8', 'base64', 'hex'] as const;
type KeyEncoding = (typeof keyEncodings)[number];

/** The encoding of a key. The prefix is removed if present. */
export interface KeyForm {
  readonly encoding: KeyEncoding;
  readonly prefix: string;
}

export interface SigningForm {
  readonly algorithm: Algorithm;
  readonly encoding: Encoding;
  readonly key: KeyForm;
}

/** Decodes the key of a secret. Undefined if it is invalid. */
export function parseKey(secret: string, { encoding, prefix }: KeyForm): Buffer | undefined {
  const text = secret.startsWith(prefix) ? secret.slice(prefix.length) : secret;
  if (text === '' || !written[encoding].test(text)) return undefined;
  return Buffer.from(text, encoding);
}

const written: Readonly<Record<KeyEncoding, RegExp>> = {
  utf8: /^/,
  base64: /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}(?:==)?|[A-Za-z0-9+/]{3}=?)?$/,
  hex: /^(?:[0-9A-Fa-f]{2})+$/,
};

/**
 * Finds the secret that made one of the signatures. Tries every pair, so that the time reveals
 * nothing. Compares signatures as text, because each has exactly one valid spelling.
 */
export function findSigner(
  secrets: readonly string[],
  signatures: readonly string[],
  parts: readonly (string | Buffer)[],
  { algorithm, encoding, key }: SigningForm,
): number | undefined {
  let found: number | undefined;
  for (const [index, secret] of secrets.entries()) {
    const bytes = parseKey(secret, key);
    if (bytes === undefined) continue;
    const expected = Buffer.from(createSignature(bytes, parts, { algorithm, encoding }));
    for (const signature of signatures) {
      if (isSameBytes(expected, Buffer.from(signature))) found ??= index;
    }
  }
  return found;
}

/** Returns the encoded signature. */
export function createSignature(
  key: Buffer,
  parts: readonly (string | Buffer)[],
  { algorithm, encoding }: Pick<SigningForm, 'algorithm' | 'encoding'>,
): string {
  const mac = createHmac(algorithm, key);
  for (const part of parts) mac.update(part);
  return mac.digest(encoding);
}

export function digestParts(parts: readonly (string | Buffer)[]): string {
  const [only] = parts;
  const all = parts.length === 1 && only !== undefined ? only : Buffer.concat(parts.map(toBytes));
  return hash('sha256', all);
}

/** `timingSafeEqual` throws for different lengths. */
export function isSameBytes(expected: Buffer, given: Buffer): boolean {
  return given.length === expected.length && timingSafeEqual(expected, given);
}

function toBytes(part: string | Buffer): Buffer {
  return typeof part === 'string' ? Buffer.from(part) : part;
}
