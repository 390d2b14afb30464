import * as z from 'zod';
import { keyErrors } from '../access/credential.operations.ts';
import { guardFirstKey, isSameSecret } from '../access/vault.service.ts';
import { purposes } from '../base/seal.ts';
import { formatCredentialRef } from '../base/credential-ref.ts';
import { duration } from '../base/fields.ts';
import { compact, type JsonObject } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import { parseJson } from '../base/parse-json.ts';
import { formatDuration } from '../base/quantity.ts';
import { defineDirective, directiveIdField } from '../operation/define-directive.ts';
import { authModes } from './auth-settings.ts';
import {
  authModeOf,
  describeTooManySecrets,
  findWebhookCommands,
  fingerprintGiven,
  requireCredential,
  requireWebhookRow,
  sealSecrets,
  listCurrentSecrets,
  toCredentialRef,
} from './change.service.ts';
import { checkWebhookSecret } from './check-entry.service.ts';
import {
  newSecretField,
  readWebhookSecret,
  secretCredential,
  secretCredentialField,
  secretFields,
  secretFingerprint,
  secretNames,
  webhookIdParam,
  webhookTargetErrors,
} from './webhook.directives.ts';
import { checkGivenSecret, makeSecret, rotateSecrets } from './secrets.service.ts';
import { formatWebhookUrl, webhookIdField, webhookUrlField } from './shapes.operations.ts';
import { changeWebhook } from './webhook.sql.ts';

export const rotateWebhookDirective = defineDirective({
  type: 'webhook.rotate',
  summary: 'Replace the secret of a webhook.',
  scope: 'webhooks:rw',
  role: 'admin',
  isImmediate: true,
  params: z.strictObject({
    id: webhookIdParam,
    credential: secretCredential,
    fingerprint: secretFingerprint,
    keep_old_ms: z.int().min(0).max(limits.webhookOldSecretMsMax).optional(),
  }),
  sameness: () => 'each',
  target: ({ id }) => id,
  findStarted: (context, { id }) => findWebhookCommands(context, id),
  async resolve(context, params, request) {
    const { ledger, services } = context;
    const { id, credential } = params;
    const named = await fingerprintGiven(id, credential, request, context);
    if (request.secret !== undefined && request.dryRun === true) {
      // `plan` gets no secret, so it is checked here.
      const settings = parseJson((await requireWebhookRow(id, ledger)).settings) as JsonObject;
      await checkWebhookSecret(
        { id, settings },
        { secret: request.secret },
        services.webhookIntake.store,
      );
    }
    return { ...params, ...named };
  },
  isSameSecret: ({ vault }, { id, fingerprint: print }, secret) =>
    isSameSecret(secret, purposes.webhook(id), print, vault),
  async plan({ ledger, services }, { id, credential, keep_old_ms: keepMs = 0 }) {
    const { webhookIntake: intake } = services;
    await requireCredential(credential, intake);
    const { settings } = await requireWebhookRow(id, ledger);
    if (credential !== undefined) {
      const webhook = { id, settings: parseJson(settings) as JsonObject };
      await checkWebhookSecret(webhook, { secret: formatCredentialRef(credential) }, intake.store);
    }
    const old =
      keepMs === 0 ? 'stops working immediately' : `stays valid for ${formatDuration(keepMs)}`;
    return [`Webhook ${id} will get a new secret. The current one ${old}.`];
  },
  async prepare(
    { ledger, vault, services: { webhookIntake: intake } },
    { id, credential, fingerprint, keep_old_ms: keepMs = 0 },
    request,
  ) {
    await guardFirstKey(vault, ledger);
    const row = await requireWebhookRow(id, ledger);
    const settings = parseJson(row.settings) as JsonObject;
    const given = fingerprint === undefined ? undefined : checkGivenSecret(request.secret).secret;
    const secret = given ?? toCredentialRef(credential) ?? makeSecret(authModeOf(settings));
    const secrets = rotateSecrets(listCurrentSecrets(row, vault), secret, keepMs, Date.now());
    if (secrets.length > limits.webhookSecretsMax) throw describeTooManySecrets();
    await checkWebhookSecret({ id, settings }, { secret }, intake.store);
    const change = { id, seenAt: row.updatedAt, sealed: sealSecrets(id, secrets, vault) };
    const isMade = credential === undefined && given === undefined;
    const reveal = isMade ? { secret } : {};
    return { work: (tx, actor) => changeWebhook(tx, change, actor), reveal };
  },
  after: ({ services: { webhookIntake } }) => webhookIntake.store.refresh(),
  operation: {
    effect: 'write',
    input: z.strictObject({
      id: webhookIdField,
      credential: secretCredentialField,
      ...secretFields,
      keep_old: duration({ minMs: 1000, maxMs: limits.webhookOldSecretMsMax })
        .optional()
        .describe('how long the current secret stays valid (default: it stops immediately)'),
    }),
    secrets: secretNames,
    output: z.object({
      id: z.string(),
      url: webhookUrlField,
      secret: newSecretField,
      directive_id: directiveIdField,
    }),
    errors: [
      'INPUT_INVALID',
      'LEDGER_UNAVAILABLE',
      ...keyErrors,
      ...webhookTargetErrors,
      'CREDENTIAL_NOT_FOUND',
      'WEBHOOK_NOT_FOUND',
    ],
    http: { method: 'POST', path: '/webhooks/:id/rotate', isSecret: true },
    cli: {
      positionals: ['id'],
      examples: ['ductile webhook rotate deploys --keep-old 1d'],
    },
    toParams: (_context, { id, credential, keep_old: keepMs }) => ({
      id,
      ...compact({ credential, keep_old_ms: keepMs }),
    }),
    async toSecret({ engine: { ledger } }, input) {
      const row = await ledger.webhooks.find(input.id);
      const settings = row === undefined ? {} : (parseJson(row.settings) as JsonObject);
      return readWebhookSecret(
        input,
        authModes.find((mode) => mode === settings['auth_mode']),
      );
    },
    toOutput: ({ engine }, { input: { id }, result: { secret } }) => ({
      id,
      url: formatWebhookUrl(engine, id),
      secret: typeof secret === 'string' ? secret : null,
    }),
  },
});
