import * as z from 'zod';
import { credentialIn, credentialName } from '../base/credential-ref.ts';
import { section } from '../base/fields.ts';
import { secretKeyOf } from './auth-settings.ts';
import { checkHook, hookFields } from './webhook.ts';

/** The keys under which an entry would hold its secret, which nobody may read in a package. */
export const secretKeys: readonly string[] = ['token', 'hmac_secret'];

const fields = Object.fromEntries(
  Object.entries(hookFields).filter(([key]) => !secretKeys.includes(key)),
) as Omit<typeof hookFields, 'token' | 'hmac_secret'>;

/** As everywhere in the configuration of an installation, it may be written `credential:NAME`. */
export function nameCredential(value: string): string {
  return credentialIn(value) ?? value;
}

/** Stands where the secret will be, so that the rest can be checked. */
const PLACEHOLDER = 'credential:secret';

/** A webhook as a package brings it: its secret is made, or is the credential that it names. */
export const packagedHook = section({
  ...fields,
  credential: z
    .string()
    .refine((value) => credentialName.test(nameCredential(value)), 'must name a credential')
    .optional(),
}).superRefine(
  (entry, context) => {
    checkHook({ ...entry, [secretKeyOf(entry.auth_mode)]: [PLACEHOLDER] }, context);
  },
  { when: ({ issues }) => issues.length === 0 },
);
