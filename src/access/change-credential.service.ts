import type { LedgerContext } from '../engine/context.ts';
import type { WebhookIntake } from '../webhook/webhooks.ts';
import { formatCredentialRef } from '../base/credential-ref.ts';
import { formatDuration } from '../base/quantity.ts';
import { DuctileError, messageOf } from '../base/errors.ts';
import { makeId } from '../base/ids.ts';
import type { JsonObject } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import { parseJson } from '../base/parse-json.ts';
import {
  deleteCredentialType,
  setCredentialType,
  type CredentialChoice,
  type NewCredential,
} from './credential-directives.ts';
import { readUsers } from './credential-users.service.ts';
import type { DirectiveDefinition } from '../directive/define.service.ts';
import { checkWebhookSecret } from '../webhook/check-entry.service.ts';
import { guardFirstKey, isSameSecret } from './vault.service.ts';
import { purposes } from './vault.ts';

export function setCredentialDirective(
  context: LedgerContext,
  intake: WebhookIntake,
): DirectiveDefinition<NewCredential> {
  const { ledger, vault } = context;
  return {
    ...setCredentialType,
    async resolve(params, { secret, dryRun }) {
      if (secret !== undefined) {
        checkValue(secret);
        await checkForWebhooks(params.name, secret, context, intake);
      }
      if (dryRun === true) return params;
      await guardFirstKey(vault, ledger);
      const value = mustHave(secret);
      return { ...params, fingerprint: vault.fingerprint(value, purposes.credential(params.name)) };
    },
    isSameSecret: ({ name, fingerprint: print }, secret) =>
      isSameSecret(secret, purposes.credential(name), print, vault),
    async plan({ name, provider, expires_in_ms: lifeMs }) {
      const before = await ledger.credentials.find(name);
      const whose = provider === undefined ? '' : ` of ${provider}`;
      const life = lifeMs === undefined ? '' : `, good for ${formatDuration(lifeMs)}`;
      if (before === undefined) {
        return [
          `A credential ${name}${whose} would be kept${life}.`,
          ...(await describeUse(name, context, intake, 'meet the change')),
        ];
      }
      return [
        `The credential ${name}${whose} would get another value${life}.`,
        'The value that it has would be gone for good.',
        ...(await describeUse(name, context, intake, 'meet the change')),
      ];
    },
    prepare({ name, provider = null, expires_in_ms: expiresInMs }, { secret }) {
      const sealed = vault.seal(mustHave(secret), purposes.credential(name));
      const credential = { id: makeId(), name, provider, sealed, expiresInMs };
      return { work: { kind: 'credential.set', credential } };
    },
  };
}

export function deleteCredentialDirective(
  context: LedgerContext,
  intake: WebhookIntake,
): DirectiveDefinition<CredentialChoice> {
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
    prepare: ({ name }) => ({ work: { kind: 'credential.delete', name } }),
  };
}

async function describeUse(
  name: string,
  { tenant, catalog, config }: LedgerContext,
  intake: WebhookIntake,
  fate: string,
): Promise<string[]> {
  const { plugins, webhooks } = (
    await readUsers({ catalog, config, webhookIntake: intake, tenant })
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

/** Throws when webhooks that are on could never be verified with it. */
async function checkForWebhooks(
  name: string,
  value: string,
  { ledger }: LedgerContext,
  intake: WebhookIntake,
): Promise<void> {
  const credential = async (): Promise<string> => value;
  for (const [id, names] of await intake.store.references()) {
    const row = names.includes(name) ? await ledger.webhooks.find(id) : undefined;
    if (row === undefined) continue;
    const settings = parseJson(row.settings) as JsonObject;
    if (settings['enabled'] === false) continue;
    try {
      await checkWebhookSecret(
        { id, settings },
        { secret: formatCredentialRef(name) },
        { credential },
      );
    } catch (thrown) {
      const message = `the webhook ${id} is verified with it: ${messageOf(thrown)}`;
      const hint = `Give the webhook another secret first: \`ductile webhook rotate ${id}\`.`;
      throw new DuctileError('INPUT_INVALID', message, { place: 'value', hint });
    }
  }
}

/** Neither of them says anything about the value. */
function checkValue(value: string): void {
  const { credentialCharsMin: min, credentialBytesMax: max } = limits;
  const refuse = (why: string): DuctileError =>
    new DuctileError('INPUT_INVALID', `the value ${why}`, { place: 'value' });
  if (value.length < min) {
    // Shorter ones would be found, and masked, in everything that a plugin prints.
    throw refuse(`has fewer than ${min} characters`);
  }
  if (Buffer.byteLength(value) > max) throw refuse(`is larger than ${max} bytes`);
  if (value.includes('\u0000')) throw refuse('contains the character U+0000');
  if (!value.isWellFormed()) throw refuse('is not well-formed text');
  if (/^\$\{[^{}]*\}?$/.test(value)) throw refuse('is a placeholder that was not replaced');
}

function mustHave(secret: string | undefined): string {
  if (secret !== undefined) return secret;
  throw new DuctileError('INPUT_INVALID', 'the value is missing', {
    place: 'value',
    hint: 'Use `ductile credential set`, which asks for it; no directive holds one.',
  });
}
