import { formatCredentialRef } from '../base/credential-ref.ts';
import { DuctileError } from '../base/errors.ts';
import type { JsonObject } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import { parseJson } from '../base/parse-json.ts';
import { suggest } from '../config/nearest.ts';
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
import type { DirectiveDefinition, DirectRequest } from '../directive/define.service.ts';
import type { Directives } from '../directive/request.service.ts';
import { packageBehind } from '../package/handlers.service.ts';
import {
  checkEntry,
  checkSecret,
  checkWebhookTarget,
  isReproven,
  isRetargeted,
  readEntry,
  checkTemplate,
} from './check-entry.service.ts';
import {
  describeMissingWebhook,
  GLOBAL_TOKEN,
  isGood,
  openSecrets,
  veil,
  type KeptSecret,
} from './store.service.ts';
import type { WebhookIntake, Webhooks } from './webhooks.ts';
import { replayDeliveryDirective } from './replay-delivery.service.ts';
import {
  describeTarget,
  inventSecret,
  keepGiven,
  makeWebhookId,
  makeSecret,
  rotateSecrets,
} from './secrets.service.ts';
import { testWebhookDirective } from './test-delivery.service.ts';
import { guardFirstKey, isSameSecret, purposes } from '../access/vault.service.ts';
import type { Vault } from '../access/vault.ts';
import type { LedgerContext } from '../engine/context.ts';

export function registerWebhookDirectives(
  directives: Directives,
  context: LedgerContext,
  intake: WebhookIntake,
  webhooks: Pick<Webhooks, 'receive'>,
): void {
  const keepToken = async (secret: string, actor: string): Promise<void> => {
    const params = { name: GLOBAL_TOKEN };
    const { error } = await directives.direct({ type: 'credential.set', params, secret, actor });
    if (error !== null) throw new DuctileError('DIRECTIVE_FAILED', error);
  };
  directives.registerDirective(createDirective(context, intake, keepToken));
  directives.registerDirective(updateDirective(context, intake));
  directives.registerDirective(rotateDirective(context, intake));
  directives.registerDirective(deleteDirective(context, intake));
  directives.registerDirective(replayDeliveryDirective(context, intake));
  directives.registerDirective(testWebhookDirective(context, intake, webhooks));
}

function createDirective(
  context: LedgerContext,
  intake: WebhookIntake,
  keepToken: (secret: string, actor: string) => Promise<void>,
): DirectiveDefinition<NewWebhook> {
  const { ledger, vault, tenant } = context;
  return {
    ...createWebhookType,
    async resolve({ id: said, ...rest }, asked) {
      const { secret } = asked;
      const id =
        said === undefined
          ? await chooseId(asked, context)
          : await addressId(said, asked.dryRun === true, tenant);
      if (secret !== undefined)
        checkEntry(id, rest.settings, [keepGiven(secret)], context.generation);
      return { id, ...rest, ...(await nameSecret(id, rest.credential, asked, context)) };
    },
    isSameSecret: ({ id = '', fingerprint: print }, secret) =>
      isSameSecret(secret, purposes.webhook(id), print, vault),
    async plan({ id = '', settings, credential, fingerprint }) {
      if ((await ledger.webhooks.find(id)) !== undefined) throw describeTaken(id);
      await requireCredential(credential, intake);
      const mode = modeOf(settings);
      // One that was brought has been looked at, and is not here any more.
      const isGiven = fingerprint !== undefined;
      const kept = isGiven ? [{ secret: inventSecret(mode) }] : secretsFor(settings, credential);
      const webhook = checkEntry(id, settings, kept, context.generation);
      await checkSecret({ id, settings }, kept[0] ?? globalToken, intake.store);
      const what = describeTarget(webhook);
      return [`A webhook would be opened at /hooks/${id}, for ${what}, verified as ${mode}.`];
    },
    async prepare({ id = '', settings, credential, fingerprint }, { actor, secret }) {
      await guardFirstKey(vault, ledger);
      const isGiven = fingerprint !== undefined;
      const kept = isGiven ? [keepGiven(secret)] : secretsFor(settings, credential);
      const reveal: JsonObject = {};
      const [own] = kept;
      const isMade = credential === undefined && !isGiven;
      if (own !== undefined && isMade) reveal['secret'] = own.secret;
      if (own === undefined && (await intake.store.credential(GLOBAL_TOKEN)) === undefined) {
        const token = makeSecret('bearer');
        await keepToken(token, actor);
        reveal['global_token'] = token;
      }
      if (tenant !== undefined && !(await tenant.addKey('hook', id))) throw describeTaken(id);
      const sealed = kept.length === 0 ? null : seal(id, kept, vault);
      const webhook = { id, settings: JSON.stringify(settings), sealed };
      return { work: { kind: 'webhook.create', webhook }, reveal };
    },
    after: () => intake.store.refresh(),
  };
}

function updateDirective(
  context: LedgerContext,
  intake: WebhookIntake,
): DirectiveDefinition<WebhookEdit> {
  const { ledger, vault } = context;
  const change = async ({ id, changes }: WebhookEdit): Promise<WebhookChange> => {
    checkChanges(changes);
    const row = await mustFind(id, ledger);
    refuseProvided(row);
    const before = parseJson(row.settings) as JsonObject;
    const merged = { ...before, ...changes };
    const left = Object.entries(merged).filter(([, value]) => value !== null);
    const settings = Object.fromEntries(left);
    const webhook = readEntry(id, settings, veil(secretsOf(row, vault)));
    if (row.sealed === null) requireBearer(id, modeOf(settings));
    if (isRetargeted(before, settings)) checkWebhookTarget(webhook, context.generation);
    if (changes['prompt_template'] !== undefined) checkTemplate(webhook.target);
    const seen = isReproven(before, settings) ? secretsOf(row, vault).filter(isGood) : [];
    for (const one of seen) await checkSecret({ id, settings }, one, intake.store);
    return { id, seenAt: row.updatedAt, settings: JSON.stringify(settings) };
  };
  return {
    ...updateWebhookType,
    async plan(edit) {
      await change(edit);
      return describeEdit(edit);
    },
    prepare: async (edit) => ({ work: { kind: 'webhook.change', change: await change(edit) } }),
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

/** Of a key that is not known, null would be taken for a change that is none. */
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

/** Its id stays, and its secrets are changed otherwise. */
const fixedKeys = ['id', 'token', 'hmac_secret'];
const settingKeys = Object.keys(webhookFields).filter((key) => !fixedKeys.includes(key));

function rotateDirective(
  context: LedgerContext,
  intake: WebhookIntake,
): DirectiveDefinition<WebhookRotation> {
  const { ledger, vault } = context;
  return {
    ...rotateWebhookType,
    async resolve(params, asked) {
      const { id, credential } = params;
      const named = await nameSecret(id, credential, asked, context);
      if (asked.secret !== undefined && asked.dryRun === true) {
        // What is planned holds no secret, so it is looked at here.
        const settings = parseJson((await mustFind(id, ledger)).settings) as JsonObject;
        await checkSecret({ id, settings }, { secret: asked.secret }, intake.store);
      }
      return { ...params, ...named };
    },
    isSameSecret: ({ id, fingerprint: print }, secret) =>
      isSameSecret(secret, purposes.webhook(id), print, vault),
    async plan({ id, credential, keep_old_ms: keepMs = 0 }) {
      await requireCredential(credential, intake);
      const { settings } = await mustFind(id, ledger);
      if (credential !== undefined) {
        const webhook = { id, settings: parseJson(settings) as JsonObject };
        await checkSecret(webhook, { secret: formatCredentialRef(credential) }, intake.store);
      }
      const old = keepMs === 0 ? 'would not be good any more' : 'would stay good for a while';
      return [`The webhook ${id} would get another secret; the one of now ${old}.`];
    },
    async prepare({ id, credential, fingerprint, keep_old_ms: keepMs = 0 }, asked) {
      await guardFirstKey(vault, ledger);
      const row = await mustFind(id, ledger);
      const settings = parseJson(row.settings) as JsonObject;
      const given = fingerprint === undefined ? undefined : keepGiven(asked.secret).secret;
      const secret = given ?? refer(credential) ?? makeSecret(modeOf(settings));
      const kept = rotateSecrets(secretsOf(row, vault), secret, keepMs, Date.now());
      if (kept.length > limits.webhookSecretsMax) throw tooMany();
      await checkSecret({ id, settings }, { secret }, intake.store);
      const change = { id, seenAt: row.updatedAt, sealed: seal(id, kept, vault) };
      const isMade = credential === undefined && given === undefined;
      const reveal = isMade ? { secret } : {};
      return { work: { kind: 'webhook.change', change }, reveal };
    },
    after: () => intake.store.refresh(),
  };
}

function deleteDirective(
  context: LedgerContext,
  intake: WebhookIntake,
): DirectiveDefinition<WebhookChoice> {
  const { ledger, tenant } = context;
  return {
    ...deleteWebhookType,
    async plan({ id }) {
      refuseProvided(await mustFind(id, ledger));
      return [`The webhook ${id} would be closed; what came through it stays on record.`];
    },
    prepare: ({ id }) => ({ work: { kind: 'webhook.delete', webhookId: id } }),
    async after({ id }) {
      await intake.store.refresh();
      await tenant?.dropKey('hook', id);
    },
  };
}

export function seal(id: string, kept: readonly KeptSecret[], vault: Vault) {
  return vault.seal(JSON.stringify(kept), purposes.webhook(id));
}

/**
 * The id that a caller chose, as an address. Addresses are unique over all ledgers, so in a tenant they
 * begin with its slug: another tenant's id is never in the way, and a refusal shows none. Only the
 * operator can have one there already; then the tenant gets another address.
 */
async function addressId(
  said: string,
  isPlanned: boolean,
  tenant: LedgerContext['tenant'],
): Promise<string> {
  if (tenant === undefined) return said;
  const prefix = `${tenant.slug}-`;
  const id = said.startsWith(prefix) ? said : `${prefix}${said}`;
  if (id.length > limits.webhookIdCharsMax) {
    const left = limits.webhookIdCharsMax - prefix.length;
    const message = `id must have at most ${left} characters, because ${prefix} comes before it`;
    throw new DuctileError('INPUT_INVALID', message, { place: 'id' });
  }
  if (isPlanned || (await tenant.addKey('hook', id))) return id;
  return `${id.slice(0, limits.webhookIdCharsMax - OTHER_CHARS)}-${makeWebhookId().slice(0, OTHER_CHARS - 1)}`;
}

/** The length of a dash and the suffix that tells two addresses apart. */
const OTHER_CHARS = 13;

/** Whoever asks again with the same key asks for the same webhook. */
async function chooseId(
  { idempotencyKey: key, dryRun = false }: Pick<DirectRequest, 'idempotencyKey' | 'dryRun'>,
  { ledger, vault }: LedgerContext,
): Promise<string> {
  if (key === undefined || dryRun) return makeWebhookId();
  await guardFirstKey(vault, ledger);
  return makeWebhookId(vault.fingerprint(key, purposes.webhook('')));
}

/** What the record of a change says of a secret that was brought. */
async function nameSecret(
  id: string,
  credential: string | undefined,
  { secret, dryRun = false }: Pick<DirectRequest, 'secret' | 'dryRun'>,
  { ledger, vault }: LedgerContext,
): Promise<{ readonly fingerprint?: string }> {
  if (secret === undefined) return {};
  keepGiven(secret);
  if (credential !== undefined) {
    const message = 'secret and credential exclude each other';
    throw new DuctileError('INPUT_INVALID', message, { place: 'secret' });
  }
  if (dryRun) return { fingerprint: 'given' };
  await guardFirstKey(vault, ledger);
  return { fingerprint: vault.fingerprint(secret, purposes.webhook(id)) };
}

export function modeOf(settings: Readonly<JsonObject>): string {
  const { auth_mode: mode } = settings;
  return typeof mode === 'string' ? mode : 'bearer';
}

/** A bearer without a token of its own goes by the one of all of them. */
function secretsFor(settings: Readonly<JsonObject>, credential: string | undefined): KeptSecret[] {
  const referred = refer(credential);
  if (referred !== undefined) return [{ secret: referred }];
  const mode = modeOf(settings);
  return mode === 'bearer' ? [] : [{ secret: makeSecret(mode) }];
}

const globalToken: KeptSecret = { secret: formatCredentialRef(GLOBAL_TOKEN) };

/** What it is verified with now: without a secret of its own that is the token of all. */
function secretsOf(row: WebhookRow, vault: Vault): readonly KeptSecret[] {
  return row.sealed === null ? [globalToken] : openSecrets(row, vault);
}

export function refer(credential: string | undefined): string | undefined {
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

async function mustFind(
  id: string,
  ledger: LedgerSubset<'webhooks.find' | 'webhooks.list'>,
): Promise<WebhookRow> {
  const found = await ledger.webhooks.find(id);
  if (found !== undefined) return found;
  throw await describeMissingWebhook(id, ledger);
}

/** The token of all is for no other mode. */
function requireBearer(id: string, mode: string): void {
  if (mode === 'bearer') return;
  const message = `auth_mode ${mode} needs a secret, and the webhook ${id} goes by the global token`;
  const hint = `Run \`ductile webhook rotate ${id}\` first, with --secret-stdin for a secret that its sender made.`;
  throw new DuctileError('INPUT_INVALID', message, { place: 'auth_mode', hint });
}

/** It would be another than its package says, and come back with the next change of that. */
function refuseProvided({ id, createdBy }: WebhookRow): void {
  const slug = packageBehind(createdBy);
  if (slug === undefined) return;
  throw new DuctileError('WEBHOOK_PROVIDED', `the webhook ${id} comes from the package ${slug}`, {
    place: 'id',
    hint: `See \`ductile package upgrade|disable|uninstall ${slug}\`; only its secret is yours.`,
  });
}

export function describeTaken(id: string): DuctileError {
  return new DuctileError('WEBHOOK_EXISTS', `there is a webhook ${id} already`, { place: 'id' });
}

function tooMany(): DuctileError {
  const message = `more than ${limits.webhookSecretsMax} secrets would be good at once`;
  return new DuctileError('INPUT_INVALID', message, { place: 'keep_old' });
}
