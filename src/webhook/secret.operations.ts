import * as z from 'zod';
import { DuctileError } from '../base/errors.ts';
import { nonBlankText } from '../base/fields.ts';
import { limits } from '../base/limits.ts';
import { secretKeyOf, type AuthMode } from './auth-settings.ts';

/** The secret in a result. */
export const newSecretField = z
  .string()
  .nullable()
  .describe('the secret that was made for it, shown this once; null when none was');
export const secretCredentialField = nonBlankText()
  .optional()
  .describe('the credential that is its secret; one is made and shown once unless told');
const givenSecret = z
  .string()
  .optional()
  .describe('the secret itself, which its sender made; it is sealed, and shown nowhere');
const givenToken = z.string().optional().describe('the same as secret, for bearer and gitlab');
const givenKey = z.string().optional().describe('the same as secret, for modes that sign');
/** The secret, with its two older names. */
export const secretFields = { secret: givenSecret, token: givenToken, hmac_secret: givenKey };
export const secretNames: readonly string[] = Object.keys(secretFields);

type SecretInput = Readonly<Partial<Record<keyof typeof secretFields, string | undefined>>>;

/** Reads the secret, which is passed beside the params because params are recorded. */
export function readWebhookSecret(
  input: SecretInput,
  mode: AuthMode = 'bearer',
): string | undefined {
  const [first, second] = keys.filter((name) => input[name] !== undefined);
  if (first === undefined) return undefined;
  if (second !== undefined) throw refuseSecret(second, `and ${first} exclude each other`);
  const expected = secretKeyOf(mode);
  if (first !== 'secret' && first !== expected) {
    throw refuseSecret(first, `is not for auth_mode ${mode}`, `Write it as ${expected}.`);
  }
  const value = input.secret ?? input.token ?? input.hmac_secret ?? '';
  if (first !== 'secret' && value.length < limits.webhookSecretCharsMin) {
    throw refuseSecret(first, `has fewer than ${limits.webhookSecretCharsMin} characters`);
  }
  return value;
}

function refuseSecret(place: string, message: string, hint?: string): DuctileError {
  const more = hint === undefined ? {} : { hint };
  return new DuctileError('INPUT_INVALID', `${place} ${message}`, { place, ...more });
}

const keys = Object.keys(secretFields) as (keyof typeof secretFields)[];
