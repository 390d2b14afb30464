import { randomBytes } from 'node:crypto';
import { DuctileError } from '../base/errors.ts';
import type { Hook } from '../webhook/hook.ts';
import type { KeptSecret } from './hook-store.ts';

const SECRET_BYTES = 32;

/** Providers that say themselves what they sign with. */
const given: ReadonlySet<string> = new Set(['stripe', 'slack', 'shopify', 'twilio', 'svix']);

/** A secret for whoever is to sign, in the form in which they take it. */
export function makeSecret(mode: string): string {
  if (given.has(mode)) {
    const message = `credential is required for auth_mode ${mode}, whose sender makes the secret`;
    const hint = 'Keep it with `ductile credential set <name>`, and name that credential.';
    throw new DuctileError('INPUT_INVALID', message, { place: 'credential', hint });
  }
  const bytes = randomBytes(SECRET_BYTES);
  if (mode === 'standard-webhooks') return `whsec_${bytes.toString('base64')}`;
  // Hexadecimal is good as text, as hexadecimal and as base64.
  return bytes.toString('hex');
}

/** An id that nobody guesses. */
export function makeHookId(): string {
  return randomBytes(12).toString('hex');
}

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
export function describeTarget({ target }: Hook): string {
  if (target.kind === 'command') return `a job of ${target.plugin}.${target.command}`;
  if (target.kind === 'pipeline') return `a run of ${target.pipeline}`;
  if (target.kind === 'signal') return `a signal ${target.type}`;
  return 'an agent';
}
