import * as z from 'zod';
import { credentialName } from '../base/credential-ref.ts';
import { limits } from '../base/limits.ts';
import type { DirectiveType } from '../directive/directive.ts';

const name = z.string().regex(credentialName, {
  error: 'must be up to 64 letters, digits, dots, _ and -, and start with a letter or digit',
});

/** The value isn't part of the params and is only stored sealed. */
export interface NewCredential {
  readonly name: string;
  readonly provider?: string | undefined;
  readonly expires_in_ms?: number | undefined;
  /** Recognizes an equal value; only the owner of the key can compute it. */
  readonly fingerprint?: string | undefined;
}

export interface CredentialChoice {
  readonly name: string;
}

export const setCredentialType: DirectiveType<NewCredential> = {
  type: 'credential.set',
  summary: 'Keep a secret for plugins, or put another value in its place.',
  scope: 'credentials:rw',
  role: 'admin',
  isImmediate: true,
  params: z.strictObject({
    name,
    provider: z.string().min(1).max(limits.credentialProviderCharsMax).optional(),
    expires_in_ms: z.int().min(1000).max(limits.tokenLifeMsMax).optional(),
  }),
  sameness: () => 'each',
  target: (params) => params.name,
};

export const deleteCredentialType: DirectiveType<CredentialChoice> = {
  type: 'credential.delete',
  summary: 'Forget a secret; attempts that ask for it fail from then on.',
  scope: 'credentials:rw',
  role: 'admin',
  params: z.strictObject({ name }),
  sameness: () => 'each',
  target: (params) => params.name,
};

export const rotateKeyType: DirectiveType<object> = {
  type: 'credential.rotate',
  summary: 'Seal everything that is secret at rest with a new key.',
  scope: '*',
  role: 'owner',
  isForRoot: true,
  isRepeatable: true,
  isResumable: true,
  params: z.strictObject({}),
  sameness: () => 'each',
  target: () => '',
};
