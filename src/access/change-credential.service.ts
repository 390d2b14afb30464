import type { Config } from '../config/config.ts';
import type { Catalog } from '../plugin/catalog.ts';
import type { LedgerContext } from '../engine/context.ts';
import type { WebhookIntake } from '../webhook/webhooks.ts';
import { formatDuration } from '../base/quantity.ts';
import { DuctileError } from '../base/errors.ts';
import { makeId } from '../base/ids.ts';
import { limits } from '../base/limits.ts';
import * as z from 'zod';
import { credentialName, findCredentials } from '../base/credential-ref.ts';
import type { DirectiveType } from '../directive/directive.ts';
import type { BoundDirective } from '../directive/define.service.ts';
import { deleteCredential, setCredential } from './credential.sql.ts';
import { guardFirstKey, isSameSecret } from './vault.service.ts';
import { purposes } from './vault.ts';

const nameField = z.string().regex(credentialName, {
  error: 'must be up to 64 letters, digits, dots, _ and -, and start with a letter or digit',
});

/** The params of `credential.set`. The value isn't one of them: it is only stored sealed. */
interface CredentialParams {
  readonly name: string;
  readonly provider?: string | undefined;
  readonly expires_in_ms?: number | undefined;
  /** Recognizes an equal value; only the owner of the key can compute it. */
  readonly fingerprint?: string | undefined;
}

interface CredentialChoice {
  readonly name: string;
}

export const setCredentialType: DirectiveType<CredentialParams> = {
  type: 'credential.set',
  summary: 'Keep a secret for plugins, or put another value in its place.',
  scope: 'credentials:rw',
  role: 'admin',
  isImmediate: true,
  params: z.strictObject({
    name: nameField,
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
  params: z.strictObject({ name: nameField }),
  sameness: () => 'each',
  target: (params) => params.name,
};

export function setCredentialDirective(
  context: LedgerContext,
  intake: WebhookIntake,
  checkForWebhooks: (name: string, value: string) => Promise<void>,
): BoundDirective<CredentialParams> {
  const { ledger, vault } = context;
  return {
    ...setCredentialType,
    async resolve(params, { secret, dryRun }) {
      if (secret !== undefined) {
        checkValue(secret);
        await checkForWebhooks(params.name, secret);
      }
      if (dryRun === true) return params;
      await guardFirstKey(vault, ledger);
      const value = requireValue(secret);
      return { ...params, fingerprint: vault.fingerprint(value, purposes.credential(params.name)) };
    },
    isSameSecret: ({ name, fingerprint: print }, secret) =>
      isSameSecret(secret, purposes.credential(name), print, vault),
    async plan({ name, provider, expires_in_ms: lifeMs }) {
      const before = await ledger.credentials.find(name);
      const owner = provider === undefined ? '' : ` of ${provider}`;
      const life = lifeMs === undefined ? '' : `, good for ${formatDuration(lifeMs)}`;
      if (before === undefined) {
        return [
          `A credential ${name}${owner} would be kept${life}.`,
          ...(await describeUse(name, context, intake, 'meet the change')),
        ];
      }
      return [
        `The credential ${name}${owner} would get another value${life}.`,
        'The value that it has would be gone for good.',
        ...(await describeUse(name, context, intake, 'meet the change')),
      ];
    },
    prepare({ name, provider = null, expires_in_ms: expiresInMs }, { secret }) {
      const sealed = vault.seal(requireValue(secret), purposes.credential(name));
      const credential = { id: makeId(), name, provider, sealed, expiresInMs };
      return { work: (tx, actor) => setCredential(tx, credential, actor) };
    },
  };
}

export function deleteCredentialDirective(
  context: LedgerContext,
  intake: WebhookIntake,
): BoundDirective<CredentialChoice> {
  const { ledger } = context;
  return {
    ...deleteCredentialType,
    async plan({ name }) {
      if ((await ledger.credentials.find(name)) === undefined) {
        const message = `there is no credential ${name}`;
        throw new DuctileError('CREDENTIAL_NOT_FOUND', message, { place: 'name' });
      }
      return [
        `The credential ${name} would be gone, and its value with it; this cannot be undone.`,
        ...(await describeUse(name, context, intake, 'would be refused')),
      ];
    },
    prepare: ({ name }) => ({ work: (tx) => deleteCredential(tx, name) }),
  };
}

async function describeUse(
  name: string,
  { tenant, catalog, config }: LedgerContext,
  intake: WebhookIntake,
  fate: string,
): Promise<string[]> {
  const { plugins, webhooks } = (
    await readCredentialUsers({ catalog, config, webhookIntake: intake, tenant })
  )(name);
  if (plugins.length + webhooks.length === 0) return ['No plugin and no webhook asks for it now.'];
  return [
    ...(plugins.length === 0
      ? []
      : [`It is asked for by ${plugins.join(', ')}; their next attempts meet the change.`]),
    ...(webhooks.length === 0
      ? []
      : [`Webhooks are verified with it: ${webhooks.join(', ')}; their next deliveries ${fate}.`]),
  ];
}

/** Refuses unusable values. The messages never contain the value. */
function checkValue(value: string): void {
  const { credentialCharsMin: min, credentialBytesMax: max } = limits;
  const createError = (why: string): DuctileError =>
    new DuctileError('INPUT_INVALID', `the value ${why}`, { place: 'value' });
  if (value.length < min) {
    // A shorter value would occur by chance, and be masked, in the output of plugins.
    throw createError(`has fewer than ${min} characters`);
  }
  if (Buffer.byteLength(value) > max) throw createError(`is larger than ${max} bytes`);
  if (value.includes('\u0000')) throw createError('contains the character U+0000');
  if (!value.isWellFormed()) throw createError('is not well-formed text');
  if (/^\$\{[^{}]*\}?$/.test(value)) throw createError('is a placeholder that was not replaced');
}

function requireValue(secret: string | undefined): string {
  if (secret !== undefined) return secret;
  throw new DuctileError('INPUT_INVALID', 'the value is missing', {
    place: 'value',
    hint: 'Use `ductile credential set`, which asks for it; no directive holds one.',
  });
}

/** The users of a credential. */
export interface CredentialUsers {
  /** The plugins whose configuration refers to it. */
  readonly plugins: readonly string[];
  /** The ids of the webhooks that are verified with it, and the paths of endpoints. */
  readonly webhooks: readonly string[];
}

interface CredentialSources {
  readonly catalog: Catalog;
  readonly config: Pick<Config, 'webhooks'>;
  readonly webhookIntake: Pick<WebhookIntake, 'store'>;
  /** Undefined for the root ledger, whose credentials verify the endpoints of the configuration. */
  readonly tenant: unknown;
}

/** Reads all references once, and returns a function that finds the users of one credential. */
export async function readCredentialUsers({
  catalog,
  config,
  webhookIntake,
  tenant,
}: CredentialSources): Promise<(name: string) => CredentialUsers> {
  const references = [...(await webhookIntake.store.references())];
  const endpoints = tenant === undefined ? config.webhooks.endpoints : [];
  return (name) => ({
    plugins: [...catalog.plugins.values()]
      .filter((plugin) => findCredentials(plugin.config).some((use) => use.name === name))
      .map((plugin) => plugin.name),
    webhooks: [
      ...references.flatMap(([id, names]) => (names.includes(name) ? [id] : [])),
      ...endpoints
        .filter(({ secret, secretRef }) => secret === undefined && secretRef === name)
        .map(({ path }) => path),
    ],
  });
}
