import { hash, randomBytes } from 'node:crypto';
import { parseCredentialRef } from '../base/credential-ref.ts';
import { DuctileError } from '../base/errors.ts';
import { limits } from '../base/limits.ts';
import type { Webhook } from './webhook.ts';
import type { KeptSecret } from './store.service.ts';

const SECRET_BYTES = 32;

/** Providers that say themselves what they sign with. */
const given: ReadonlySet<string> = new Set(['stripe', 'slack', 'shopify', 'twilio', 'svix']);

/** A secret for whoever is to sign, in the form in which they take it. */
export function makeSecret(mode: string): string {
  if (given.has(mode)) {
    const message = `a secret is required for auth_mode ${mode}, whose sender makes it`;
    const hint = 'Give it with --secret-stdin, or keep it with `credential set` and name that.';
    throw new DuctileError('INPUT_INVALID', message, { place: 'credential', hint });
  }
  return inventSecret(mode);
}

/** One in the form of the mode, whoever it is that makes them. */
export function inventSecret(mode: string): string {
  const bytes = randomBytes(SECRET_BYTES);
  if (mode === 'standard-webhooks' || mode === 'svix') return `whsec_${bytes.toString('base64')}`;
  // Hexadecimal is good as text, as hexadecimal and as base64.
  return bytes.toString('hex');
}

/** An id that nobody guesses. With a seed, which is no less secret, it is the same each time. */
export function makeWebhookId(seed: string = randomBytes(SECRET_BYTES).toString('hex')): string {
  return hash('sha256', seed, 'hex').slice(0, WEBHOOK_ID_CHARS);
}

const WEBHOOK_ID_CHARS = 24;

/** The new one before those of now, which are good for a while longer. */
export function rotateSecrets(
  old: readonly KeptSecret[],
  secret: string,
  keepOldMs: number,
  nowMs: number,
): KeptSecret[] {
  const until = nowMs + keepOldMs;
  const kept = old.map((one) => ({ ...one, until_ms: Math.min(one.until_ms ?? until, until) }));
  return [{ secret }, ...kept.filter((one) => one.until_ms > nowMs)];
}

/** What its deliveries start, in words. */
export function describeTarget({ target }: Webhook): string {
  if (target.kind === 'command') return `a job of ${target.plugin}.${target.command}`;
  if (target.kind === 'pipeline') return `a run of ${target.pipeline}`;
  if (target.kind === 'signal') return `a signal ${target.type}`;
  if (target.mode === 'wake') return 'a turn of an agent with each allowed user';
  return `a task of an agent in ${target.taskFolder}`;
}

/** A secret that the caller brought, as it is kept. */
export function keepGiven(secret: string | undefined): KeptSecret {
  if (secret === undefined) {
    const hint = 'Use `ductile webhook`, which asks for it; no directive holds one.';
    throw new DuctileError('INPUT_INVALID', 'the secret is missing', { place: 'secret', hint });
  }
  if (isShort(secret)) throw tooShort('the secret', 'secret');
  if (parseCredentialRef(secret) === undefined) return { secret };
  const hint = 'Name the credential with --credential.';
  const message = 'the secret is the name of a credential, not a secret';
  throw new DuctileError('INPUT_INVALID', message, { place: 'secret', hint });
}

/** So short that it could be found by trying. */
export function isShort(secret: string): boolean {
  return secret.length < limits.webhookSecretCharsMin;
}

export function tooShort(what: string, place: string): DuctileError {
  const message = `${what} has fewer than ${limits.webhookSecretCharsMin} characters`;
  const hint = 'Leave it out to have one made, or use one that nobody can guess.';
  return new DuctileError('INPUT_INVALID', message, { place, hint });
}
