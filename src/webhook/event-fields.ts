import * as z from 'zod';
import { text } from '../base/fields.ts';
import { limits } from '../base/limits.ts';
import { isSecretName } from '../base/secret-names.ts';
import { headerName } from './auth-settings.ts';
import type { Report } from './target.ts';
import { proofHeadersOf } from './verify/proof-headers.ts';
import type { Scheme } from './verify/scheme.ts';

/** The keys that say what of a delivery's headers reaches the work; of webhooks and of endpoints. */
export const eventFields = {
  event_header: headerName.optional(),
  event_field: text()
    .max(limits.hookEventTypeChars)
    .regex(/^[^\s.]+(\.[^\s.]+)*$/, 'must be the name of a field, or names with dots between them')
    .optional(),
  headers: z.array(headerName).max(limits.hookHeadersMax).optional(),
};

type EventFields = z.output<z.ZodObject<typeof eventFields>>;

/** Headers that are passed on are stored and shown, so they must not be able to prove a delivery. */
export function checkEventFields(
  { event_header: header, event_field: field, headers = [] }: EventFields,
  scheme: Scheme,
  report: Report,
): void {
  if (header !== undefined && field !== undefined) {
    report('event_field', 'and event_header exclude each other', 'Keep one of them.');
  }
  const proof = proofHeadersOf(scheme);
  const isProof = (name: string): boolean =>
    proof.has(name) || PROOF.test(name) || isSecretName(name);
  const hint = 'Name headers that hold no secret and no signature.';
  if (header !== undefined && isProof(header)) {
    report('event_header', `is ${header}, which proves who sends`, hint);
  }
  const secret = headers.find(isProof);
  if (secret !== undefined) report('headers', `has ${secret}, which proves who sends`, hint);
}

const PROOF = /auth|cookie|signature|hmac|token|secret/;
