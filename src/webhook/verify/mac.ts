import { createHmac, hash, timingSafeEqual } from 'node:crypto';

export const algorithms = ['sha256', 'sha1', 'sha512'] as const;
export type Algorithm = (typeof algorithms)[number];

export const encodings = ['hex', 'base64'] as const;
export type Encoding = (typeof encodings)[number];

export const keyEncodings = ['utf8', 'base64', 'hex'] as const;
export type KeyEncoding = (typeof keyEncodings)[number];

/** How the bytes of a key are written. A prefix is taken off where it is there. */
export interface KeyForm {
  readonly encoding: KeyEncoding;
  readonly prefix: string;
}

export interface Signing {
  readonly algorithm: Algorithm;
  readonly encoding: Encoding;
  readonly key: KeyForm;
}

/** The key that a secret stands for; undefined when it is none. */
export function keyOf(secret: string, { encoding, prefix }: KeyForm): Buffer | undefined {
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
 * Which secret made one of the signatures. Each is tried with each, so that how long it takes says
 * nothing. Signatures are compared as they are written: there is one right way to write them.
 */
export function findSigner(
  secrets: readonly string[],
  signatures: readonly string[],
  parts: readonly (string | Buffer)[],
  { algorithm, encoding, key }: Signing,
): number | undefined {
  let found: number | undefined;
  for (const [index, secret] of secrets.entries()) {
    const bytes = keyOf(secret, key);
    if (bytes === undefined) continue;
    const expected = Buffer.from(sign(bytes, parts, { algorithm, encoding }));
    for (const signature of signatures) {
      if (isSame(expected, Buffer.from(signature))) found ??= index;
    }
  }
  return found;
}

/** The signature as it is written. */
export function sign(
  key: Buffer,
  parts: readonly (string | Buffer)[],
  { algorithm, encoding }: Pick<Signing, 'algorithm' | 'encoding'>,
): string {
  const mac = createHmac(algorithm, key);
  for (const part of parts) mac.update(part);
  return mac.digest(encoding);
}

/** Which secret is the token; the digests are compared, so that its length stays unknown too. */
export function findToken(secrets: readonly string[], token: string): number | undefined {
  const given = hash('sha256', token, 'buffer');
  let found: number | undefined;
  for (const [index, secret] of secrets.entries()) {
    const expected = hash('sha256', secret, 'buffer');
    if (isSame(expected, given) && secret !== '') found ??= index;
  }
  return found;
}

export function digestOf(parts: readonly (string | Buffer)[]): string {
  const [only] = parts;
  const all = parts.length === 1 && only !== undefined ? only : Buffer.concat(parts.map(toBytes));
  return hash('sha256', all);
}

/** Of equal length always, or the comparison would throw. */
export function isSame(expected: Buffer, given: Buffer): boolean {
  return given.length === expected.length && timingSafeEqual(expected, given);
}

function toBytes(part: string | Buffer): Buffer {
  return typeof part === 'string' ? Buffer.from(part) : part;
}
