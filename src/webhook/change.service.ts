import { formatCredentialRef } from '../base/credential-ref.ts';
import { DuctileError } from '../base/errors.ts';
import type { JsonObject } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import { parseJson } from '../base/parse-json.ts';
import { suggest } from '../base/text.ts';
import { purposes } from '../base/seal.ts';
import {
  createWebhookType,
  deleteWebhookType,
  rotateWebhookType,
  updateWebhookType,
  type NewWebhook,
  type WebhookChoice,
  type WebhookEdit,
  type WebhookRotation,
} from './change-directives.ts';
import type { LedgerSubset } from '../ledger/ledger.ts';
import type { WebhookChange, WebhookRow } from './types.ts';
import { webhookFields } from './webhook.ts';
import { describeTarget } from './target.ts';
import type { BoundDirective, DirectiveRequest } from '../directive/define.service.ts';
import type { Directives } from '../directive/request.service.ts';
import { findActingPackage } from '../package/package.ts';
import {
  checkWebhookEntry,
  checkWebhookSecret,
  checkWebhookTarget,
  changesAuth,
  changesTarget,
  parseWebhookEntry,
  checkTemplate,
} from './check-entry.service.ts';
import {
  describeMissingWebhook,
  GLOBAL_TOKEN,
  isValidSecret,
  openSecrets,
  toPlaceholders,
  type WebhookSecret,
} from './store.service.ts';
import type { WebhookIntake, Webhooks } from './webhooks.ts';
import {
  generateSecret,
  checkGivenSecret,
  makeWebhookId,
  makeSecret,
  rotateSecrets,
} from './secrets.service.ts';
import { replayDeliveryDirective, testWebhookDirective } from './delivery.service.ts';
import { changeWebhook, createWebhook, deleteWebhook } from './webhook.sql.ts';
import { guardFirstKey, isSameSecret } from '../access/vault.service.ts';
import type { Vault } from '../access/vault.ts';
import type { LedgerContext } from '../engine/context.ts';

export function registerWebhookDirectives(
  directives: Directives,
  context: LedgerContext,
  intake: WebhookIntake,
  webhooks: Pick<Webhooks, 'receive'>,
): void {
  const setGlobalToken = async (secret: string, actor: string): Promise<void> => {
    const params = { name: GLOBAL_TOKEN };
    const { error } = await directives.direct({ type: 'credential.set', params, secret, actor });
    if (error !== null) throw new DuctileError('DIRECTIVE_FAILED', error);
  };
  directives.registerDirective(createDirective(context, intake, setGlobalToken));
  directives.registerDirective(updateDirective(context, intake));
  directives.registerDirective(rotateDirective(context, intake));
  directives.registerDirective(deleteDirective(context, intake));
  directives.registerDirective(replayDeliveryDirective(context, intake));
  directives.registerDirective(testWebhookDirective(context, intake, webhooks));
}

function createDirective(
  context: LedgerContext,
  intake: WebhookIntake,
  setGlobalToken: (secret: string, actor: string) => Promise<void>,
): BoundDirective<NewWebhook> {
  const { ledger, vault, tenant } = context;
  return {
    ...createWebhookType,
    async resolve({ id: wanted, ...rest }, request) {
      const { secret } = request;
      const id =
        wanted === undefined
          ? await createId(request, context)
          : await reserveId(wanted, request.dryRun === true, tenant);
      if (secret !== undefined)
        checkWebhookEntry(id, rest.settings, [checkGivenSecret(secret)], context.generation);
      return { id, ...rest, ...(await fingerprintGiven(id, rest.credential, request, context)) };
    },
    isSameSecret: ({ id = '', fingerprint: print }, secret) =>
      isSameSecret(secret, purposes.webhook(id), print, vault),
    async plan({ id = '', settings, credential, fingerprint }) {
      if ((await ledger.webhooks.find(id)) !== undefined) throw describeTakenId(id);
      await requireCredential(credential, intake);
      const mode = authModeOf(settings);
      // `resolve` has checked a given secret. It isn't available here, so another one stands in.
      const isGiven = fingerprint !== undefined;
      const secrets = isGiven
        ? [{ secret: generateSecret(mode) }]
        : createSecrets(settings, credential);
      const { target } = checkWebhookEntry(id, settings, secrets, context.generation);
      await checkWebhookSecret({ id, settings }, secrets[0] ?? globalToken, intake.store);
      const work = describeTarget(target);
      return [`A webhook would be opened at /hooks/${id}, for ${work}, verified as ${mode}.`];
    },
    async prepare({ id = '', settings, credential, fingerprint }, { actor, secret }) {
      await guardFirstKey(vault, ledger);
      const isGiven = fingerprint !== undefined;
      const secrets = isGiven ? [checkGivenSecret(secret)] : createSecrets(settings, credential);
      const reveal: JsonObject = {};
      const [own] = secrets;
      const isMade = credential === undefined && !isGiven;
      if (own !== undefined && isMade) reveal['secret'] = own.secret;
      if (own === undefined && (await intake.store.credential(GLOBAL_TOKEN)) === undefined) {
        const token = makeSecret('bearer');
        await setGlobalToken(token, actor);
        reveal['global_token'] = token;
      }
      if (tenant !== undefined && !(await tenant.addKey('hook', id))) throw describeTakenId(id);
      const sealed = secrets.length === 0 ? null : sealSecrets(id, secrets, vault);
      const webhook = { id, settings: JSON.stringify(settings), sealed };
      return { work: (tx, by) => createWebhook(tx, webhook, by), reveal };
    },
    after: () => intake.store.refresh(),
  };
}

function updateDirective(
  context: LedgerContext,
  intake: WebhookIntake,
): BoundDirective<WebhookEdit> {
  const { ledger, vault } = context;
  const change = async ({ id, changes }: WebhookEdit): Promise<WebhookChange> => {
    checkChanges(changes);
    const row = await requireWebhookRow(id, ledger);
    refuseProvided(row);
    const before = parseJson(row.settings) as JsonObject;
    const merged = { ...before, ...changes };
    const settings = Object.fromEntries(
      Object.entries(merged).filter(([, value]) => value !== null),
    );
    const webhook = parseWebhookEntry(id, settings, toPlaceholders(secretsOf(row, vault)));
    if (row.sealed === null) requireBearer(id, authModeOf(settings));
    if (changesTarget(before, settings)) checkWebhookTarget(webhook, context.generation);
    if (changes['prompt_template'] !== undefined) checkTemplate(webhook.target);
    const secrets = changesAuth(before, settings)
      ? secretsOf(row, vault).filter(isValidSecret)
      : [];
    for (const secret of secrets) await checkWebhookSecret({ id, settings }, secret, intake.store);
    return { id, seenAt: row.updatedAt, settings: JSON.stringify(settings) };
  };
  return {
    ...updateWebhookType,
    async plan(edit) {
      await change(edit);
      return describeEdit(edit);
    },
    async prepare(edit) {
      const planned = await change(edit);
      return { work: (tx, actor) => changeWebhook(tx, planned, actor) };
    },
    after: () => intake.store.refresh(),
  };
}

function describeEdit({ id, changes: { enabled, ...others } }: WebhookEdit): string[] {
  const keys = Object.keys(others);
  const named = [keys.slice(0, -1).join(', '), keys.at(-1)].filter(Boolean).join(' and ');
  return [
    ...(enabled === undefined
      ? []
      : [`The webhook ${id} would be switched ${enabled === false ? 'off' : 'on'}.`]),
    ...(keys.length === 0
      ? []
      : [`${named} of the webhook ${id} would be changed, for what comes from then on.`]),
  ];
}

/** Refuses unknown keys here, because removing one with null would change nothing. */
function checkChanges(changes: Readonly<JsonObject>): void {
  const keys = Object.keys(changes);
  if (keys.length === 0) {
    const hint = 'Give at least one setting of the webhook, or one to take away.';
    throw new DuctileError('INPUT_INVALID', 'there is nothing to change', { hint });
  }
  const unknown = keys.find((key) => !settingKeys.includes(key));
  if (unknown === undefined) return;
  throw new DuctileError('INPUT_INVALID', `${unknown} is not a setting of a webhook`, {
    place: unknown,
    hint: suggest(unknown, settingKeys, 'settings'),
  });
}

/** The id can't change, and secrets are changed by a rotation. */
const fixedKeys = ['id', 'token', 'hmac_secret'];
const settingKeys = Object.keys(webhookFields).filter((key) => !fixedKeys.includes(key));

function rotateDirective(
  context: LedgerContext,
  intake: WebhookIntake,
): BoundDirective<WebhookRotation> {
  const { ledger, vault } = context;
  return {
    ...rotateWebhookType,
    async resolve(params, request) {
      const { id, credential } = params;
      const named = await fingerprintGiven(id, credential, request, context);
      if (request.secret !== undefined && request.dryRun === true) {
        // `plan` gets no secret, so it is checked here.
        const settings = parseJson((await requireWebhookRow(id, ledger)).settings) as JsonObject;
        await checkWebhookSecret({ id, settings }, { secret: request.secret }, intake.store);
      }
      return { ...params, ...named };
    },
    isSameSecret: ({ id, fingerprint: print }, secret) =>
      isSameSecret(secret, purposes.webhook(id), print, vault),
    async plan({ id, credential, keep_old_ms: keepMs = 0 }) {
      await requireCredential(credential, intake);
      const { settings } = await requireWebhookRow(id, ledger);
      if (credential !== undefined) {
        const webhook = { id, settings: parseJson(settings) as JsonObject };
        await checkWebhookSecret(
          webhook,
          { secret: formatCredentialRef(credential) },
          intake.store,
        );
      }
      const old = keepMs === 0 ? 'would not be good any more' : 'would stay good for a while';
      return [`The webhook ${id} would get another secret; the one of now ${old}.`];
    },
    async prepare({ id, credential, fingerprint, keep_old_ms: keepMs = 0 }, request) {
      await guardFirstKey(vault, ledger);
      const row = await requireWebhookRow(id, ledger);
      const settings = parseJson(row.settings) as JsonObject;
      const given = fingerprint === undefined ? undefined : checkGivenSecret(request.secret).secret;
      const secret = given ?? toCredentialRef(credential) ?? makeSecret(authModeOf(settings));
      const secrets = rotateSecrets(secretsOf(row, vault), secret, keepMs, Date.now());
      if (secrets.length > limits.webhookSecretsMax) throw describeTooManySecrets();
      await checkWebhookSecret({ id, settings }, { secret }, intake.store);
      const change = { id, seenAt: row.updatedAt, sealed: sealSecrets(id, secrets, vault) };
      const isMade = credential === undefined && given === undefined;
      const reveal = isMade ? { secret } : {};
      return { work: (tx, actor) => changeWebhook(tx, change, actor), reveal };
    },
    after: () => intake.store.refresh(),
  };
}

function deleteDirective(
  context: LedgerContext,
  intake: WebhookIntake,
): BoundDirective<WebhookChoice> {
  const { ledger, tenant } = context;
  return {
    ...deleteWebhookType,
    async plan({ id }) {
      refuseProvided(await requireWebhookRow(id, ledger));
      return [`The webhook ${id} would be closed; what came through it stays on record.`];
    },
    prepare: ({ id }) => ({ work: (tx) => deleteWebhook(tx, id) }),
    async after({ id }) {
      await intake.store.refresh();
      await tenant?.dropKey('hook', id);
    },
  };
}

export function sealSecrets(id: string, secrets: readonly WebhookSecret[], vault: Vault) {
  return vault.seal(JSON.stringify(secrets), purposes.webhook(id));
}

/**
 * Reserves the id that a caller wants. Ids are unique over all ledgers, so those of a tenant begin with
 * its slug. So two tenants never want the same id, and a refusal can't show another tenant's id. Only
 * the root ledger can already have such an id; then the tenant's id gets a random suffix.
 */
async function reserveId(
  wanted: string,
  isPlanned: boolean,
  tenant: LedgerContext['tenant'],
): Promise<string> {
  if (tenant === undefined) return wanted;
  const prefix = `${tenant.slug}-`;
  const id = wanted.startsWith(prefix) ? wanted : `${prefix}${wanted}`;
  if (id.length > limits.webhookIdCharsMax) {
    const left = limits.webhookIdCharsMax - prefix.length;
    const message = `id must have at most ${left} characters, because ${prefix} comes before it`;
    throw new DuctileError('INPUT_INVALID', message, { place: 'id' });
  }
  if (isPlanned || (await tenant.addKey('hook', id))) return id;
  const start = id.slice(0, limits.webhookIdCharsMax - SUFFIX_CHARS);
  return `${start}-${makeWebhookId().slice(0, SUFFIX_CHARS - 1)}`;
}

/** The length of the random suffix, with its dash. */
const SUFFIX_CHARS = 13;

/** Creates an id. A repeated request with the same idempotency key gets the same id. */
async function createId(
  { idempotencyKey: key, dryRun = false }: Pick<DirectiveRequest, 'idempotencyKey' | 'dryRun'>,
  { ledger, vault }: LedgerContext,
): Promise<string> {
  if (key === undefined || dryRun) return makeWebhookId();
  await guardFirstKey(vault, ledger);
  return makeWebhookId(vault.fingerprint(key, purposes.webhook('')));
}

/** Returns the fingerprint of a given secret, which is recorded instead of the secret. */
async function fingerprintGiven(
  id: string,
  credential: string | undefined,
  { secret, dryRun = false }: Pick<DirectiveRequest, 'secret' | 'dryRun'>,
  { ledger, vault }: LedgerContext,
): Promise<{ readonly fingerprint?: string }> {
  if (secret === undefined) return {};
  checkGivenSecret(secret);
  if (credential !== undefined) {
    const message = 'secret and credential exclude each other';
    throw new DuctileError('INPUT_INVALID', message, { place: 'secret' });
  }
  if (dryRun) return { fingerprint: 'given' };
  await guardFirstKey(vault, ledger);
  return { fingerprint: vault.fingerprint(secret, purposes.webhook(id)) };
}

export function authModeOf(settings: Readonly<JsonObject>): string {
  const { auth_mode: mode } = settings;
  return typeof mode === 'string' ? mode : 'bearer';
}

/** Creates the secrets of a new webhook. A bearer webhook without a credential uses the global token. */
function createSecrets(
  settings: Readonly<JsonObject>,
  credential: string | undefined,
): WebhookSecret[] {
  const reference = toCredentialRef(credential);
  if (reference !== undefined) return [{ secret: reference }];
  const mode = authModeOf(settings);
  return mode === 'bearer' ? [] : [{ secret: makeSecret(mode) }];
}

const globalToken: WebhookSecret = { secret: formatCredentialRef(GLOBAL_TOKEN) };

/** Returns the current secrets of a webhook. Without its own, that is the global token. */
function secretsOf(row: WebhookRow, vault: Vault): readonly WebhookSecret[] {
  return row.sealed === null ? [globalToken] : openSecrets(row, vault);
}

export function toCredentialRef(credential: string | undefined): string | undefined {
  return credential === undefined ? undefined : formatCredentialRef(credential);
}

export async function requireCredential(
  name: string | undefined,
  { store }: WebhookIntake,
): Promise<void> {
  if (name === undefined || (await store.credential(name)) !== undefined) return;
  const message = `there is no credential ${name}`;
  throw new DuctileError('CREDENTIAL_NOT_FOUND', message, { place: 'credential' });
}

async function requireWebhookRow(
  id: string,
  ledger: LedgerSubset<'webhooks.find' | 'webhooks.list'>,
): Promise<WebhookRow> {
  const found = await ledger.webhooks.find(id);
  if (found !== undefined) return found;
  throw await describeMissingWebhook(id, ledger);
}

/** Throws for other modes: only bearer webhooks can use the global token. */
function requireBearer(id: string, mode: string): void {
  if (mode === 'bearer') return;
  const message = `auth_mode ${mode} needs a secret, and the webhook ${id} goes by the global token`;
  const hint = `Run \`ductile webhook rotate ${id}\` first, with --secret-stdin for a secret that its sender made.`;
  throw new DuctileError('INPUT_INVALID', message, { place: 'auth_mode', hint });
}

/** Refuses to change a webhook of a package: the next upgrade would restore it. */
function refuseProvided({ id, createdBy }: WebhookRow): void {
  const slug = findActingPackage(createdBy);
  if (slug === undefined) return;
  throw new DuctileError('WEBHOOK_PROVIDED', `the webhook ${id} comes from the package ${slug}`, {
    place: 'id',
    hint: `See \`ductile package upgrade|disable|uninstall ${slug}\`; only its secret is yours.`,
  });
}

export function describeTakenId(id: string): DuctileError {
  return new DuctileError('WEBHOOK_EXISTS', `there is a webhook ${id} already`, { place: 'id' });
}

function describeTooManySecrets(): DuctileError {
  const message = `more than ${limits.webhookSecretsMax} secrets would be good at once`;
  return new DuctileError('INPUT_INVALID', message, { place: 'keep_old' });
}
