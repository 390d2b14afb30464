import { createCipheriv, createDecipheriv, createHmac, hkdfSync, randomBytes } from 'node:crypto';

/** A text encrypted with AES-256-GCM under a key of its own, which is wrapped with the master key. */
export interface SealedText {
  /** The id of the master key. */
  readonly keyId: string;
  /** Scheme, wrapped key, nonce, tag and ciphertext as one text. */
  readonly text: string;
}

export const KEY_BYTES = 32;

/** The environment variables for one key or several, the newest first, each as base64 or hex. */
export const KEY_VARIABLES = ['DUCTILE_CREDENTIAL_KEY', 'DUCTILE_CREDENTIAL_KEYS'] as const;

/** A key of this installation. Its id reveals nothing about it. */
export interface MasterKey {
  readonly id: string;
  readonly wrapping: Buffer;
  readonly printing: Buffer;
}

/** Derives a separate key for each purpose, so that none of them reveals another. */
export function makeMasterKey(secret: Uint8Array): MasterKey {
  if (secret.length !== KEY_BYTES) throw new Error(`a key must have ${KEY_BYTES} bytes`);
  const derive = (purpose: string, bytes: number): Buffer =>
    Buffer.from(hkdfSync('sha256', secret, '', `ductile ${purpose}`, bytes));
  return {
    id: derive('key id', 6).toString('hex'),
    wrapping: derive('key wrapping', KEY_BYTES),
    printing: derive('fingerprint', KEY_BYTES),
  };
}

interface SealPurpose {
  /** The ledger that stores it. The text can't be unsealed in another one. */
  readonly ledger: string;
  /** The row that stores it, such as `credential mail`. */
  readonly row: string;
}

/** Names of the rows that hold sealed texts. */
export const purposes = {
  credential: (name: string) => `credential ${name}`,
  payload: (signalId: string) => `signal ${signalId}`,
  webhook: (webhookId: string) => `webhook ${webhookId}`,
} as const;

/** Seals a text for one row of one ledger. The purpose is authenticated, so another row can't unseal it. */
export function sealText(clear: string, purpose: SealPurpose, key: MasterKey): SealedText {
  const own = randomBytes(KEY_BYTES);
  const about = describePurpose(purpose);
  const wrapped = encrypt(own, key.wrapping, `key ${about}`);
  const text = encrypt(Buffer.from(clear), own, `text ${about}`);
  return { keyId: key.id, text: [SCHEME, wrapped, text].join('.') };
}

/** Unseals a text. Throws if it was changed, or sealed for another purpose or with another key. */
export function unsealText({ text }: SealedText, purpose: SealPurpose, key: MasterKey): string {
  const [scheme, wrapped = '', sealed = ''] = text.split('.');
  if (scheme !== SCHEME && scheme !== UNBOUND) {
    throw new Error('the format of the sealed value is unknown');
  }
  const about = scheme === UNBOUND ? purpose.row : describePurpose(purpose);
  const own = decrypt(wrapped, key.wrapping, `key ${about}`);
  return decrypt(sealed, own, `text ${about}`).toString();
}

/** Checks for the first scheme, which doesn't authenticate the ledger: any ledger with the key unseals it. */
export function isSealedUnbound({ text }: SealedText): boolean {
  return text.startsWith(`${UNBOUND}.`);
}

/** Formats as JSON, so that two different purposes never have the same text. */
function describePurpose({ ledger, row }: SealPurpose): string {
  return JSON.stringify([ledger, row]);
}

/** Returns the same fingerprint for equal values. Without the key, the value can't be found by trying. */
export function fingerprintSecret(value: string, purpose: string, key: MasterKey): string {
  const mac = createHmac('sha256', key.printing).update(`${purpose}\n`).update(value);
  return `${key.id}:${mac.digest('base64url').slice(0, FINGERPRINT_CHARS)}`;
}

const SCHEME = 'v2';
/** The first scheme, which doesn't authenticate the ledger. */
const UNBOUND = 'v1';
const FINGERPRINT_CHARS = 22;
const CIPHER = 'aes-256-gcm';
const NONCE_BYTES = 12;
const TAG_BYTES = 16;

/** Returns nonce, tag and ciphertext. */
function encrypt(clear: Buffer, key: Buffer, purpose: string): string {
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv(CIPHER, key, nonce, { authTagLength: TAG_BYTES });
  cipher.setAAD(Buffer.from(purpose));
  const body = Buffer.concat([cipher.update(clear), cipher.final()]);
  return Buffer.concat([nonce, cipher.getAuthTag(), body]).toString('base64url');
}

function decrypt(sealed: string, key: Buffer, purpose: string): Buffer {
  const bytes = Buffer.from(sealed, 'base64url');
  const nonce = bytes.subarray(0, NONCE_BYTES);
  const decipher = createDecipheriv(CIPHER, key, nonce, { authTagLength: TAG_BYTES });
  decipher.setAAD(Buffer.from(purpose));
  decipher.setAuthTag(bytes.subarray(NONCE_BYTES, NONCE_BYTES + TAG_BYTES));
  return Buffer.concat([
    decipher.update(bytes.subarray(NONCE_BYTES + TAG_BYTES)),
    decipher.final(),
  ]);
}
