import { hash, randomBytes } from 'node:crypto';
import { parseCredentialRef } from '../base/credential-ref.ts';
import { DuctileError } from '../base/errors.ts';
import { limits } from '../base/limits.ts';
import type { WebhookSecret } from './store.service.ts';

const SECRET_BYTES = 32;

/** Senders that create the secret themselves. */
const sendersWithOwnSecret: ReadonlySet<string> = new Set([
  'stripe',
  'slack',
  'shopify',
  'twilio',
  'svix',
]);

/** Creates a secret for the sender. Throws if senders of this mode create it themselves. */
export function makeSecret(mode: string): string {
  if (sendersWithOwnSecret.has(mode)) {
    const message = `a secret is required for auth_mode ${mode}, because the sender generates it`;
    const hint = 'Use --secret-stdin, or store it with `ductile credential set` and name that.';
    throw new DuctileError('INPUT_INVALID', message, { place: 'credential', hint });
  }
  return generateSecret(mode);
}

/** Generates a secret in the form that the mode requires. */
export function generateSecret(mode: string): string {
  const bytes = randomBytes(SECRET_BYTES);
  if (mode === 'standard-webhooks' || mode === 'svix') return `whsec_${bytes.toString('base64')}`;
  // Hexadecimal digits are valid as text, as hexadecimal and as base64.
  return bytes.toString('hex');
}

/** Creates an id that can't be guessed. The same seed, which must be secret, gives the same id. */
export function makeWebhookId(seed: string = randomBytes(SECRET_BYTES).toString('hex')): string {
  return hash('sha256', seed, 'hex').slice(0, WEBHOOK_ID_CHARS);
}

const WEBHOOK_ID_CHARS = 24;

/** Adds a new secret before the current ones, which stay valid for `keepOldMs`. */
export function rotateSecrets(
  current: readonly WebhookSecret[],
  secret: string,
  keepOldMs: number,
  nowMs: number,
): WebhookSecret[] {
  const until = nowMs + keepOldMs;
  const old = current.map((one) => ({ ...one, until_ms: Math.min(one.until_ms ?? until, until) }));
  return [{ secret }, ...old.filter((one) => one.until_ms > nowMs)];
}

/** Checks a secret that the caller has sent. Throws if it is missing, short, or a reference. */
export function checkGivenSecret(secret: string | undefined): WebhookSecret {
  if (secret === undefined) {
    const hint = 'Use `ductile webhook`, which asks for it. Directives contain no secrets.';
    throw new DuctileError('INPUT_INVALID', 'the secret is missing', { place: 'secret', hint });
  }
  if (isShortSecret(secret)) throw describeShortSecret('the secret', 'secret');
  if (parseCredentialRef(secret) === undefined) return { secret };
  const hint = 'Name the credential with --credential.';
  const message = 'the secret is the name of a credential, not a secret';
  throw new DuctileError('INPUT_INVALID', message, { place: 'secret', hint });
}

/** True if a secret is so short that it could be guessed. */
export function isShortSecret(secret: string): boolean {
  return secret.length < limits.webhookSecretCharsMin;
}

export function describeShortSecret(name: string, place: string): DuctileError {
  const message = `${name} has fewer than ${limits.webhookSecretCharsMin} characters`;
  const hint = 'Leave it out to generate one, or use one that cannot be guessed.';
  return new DuctileError('INPUT_INVALID', message, { place, hint });
}
