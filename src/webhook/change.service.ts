import { formatCredentialRef } from '../base/credential-ref.ts';
import { DuctileError } from '../base/errors.ts';
import type { StartedCommand } from '../access/scopes.ts';
import type { JsonObject } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import { purposes } from '../base/seal.ts';
import type { LedgerSubset } from '../ledger/ledger.ts';
import type { WebhookRow } from './types.ts';
import type { DirectiveRequest } from '../directive/define.service.ts';
import { findActingPackage } from '../package/package.ts';
import {
  describeMissingWebhook,
  findEndpoint,
  GLOBAL_TOKEN,
  openSecrets,
  type WebhookSecret,
} from './store.service.ts';
import type { WebhookIntake } from './webhooks.ts';
import { checkGivenSecret, makeWebhookId, makeSecret } from './secrets.service.ts';
import { guardFirstKey } from '../access/vault.service.ts';
import type { Vault } from '../access/vault.ts';
import type { LedgerContext } from '../engine/context.ts';
import type { Config } from '../config/config.ts';
import type { Generation } from '../engine/generation.ts';
import { parseJson } from '../base/parse-json.ts';
import { resolveTarget } from '../pipeline/check-routes.service.ts';
import { listPipelineCommands } from '../pipeline/language/graph.ts';
import { ANY_EVENT, isPipelineFor, matchRoutes } from '../pipeline/language/pipeline.ts';
import { DELIVERY_SIGNAL, webhookSource } from '../signal/signal.ts';
import { webhookDefaults } from './target.ts';

export function sealSecrets(id: string, secrets: readonly WebhookSecret[], vault: Vault) {
  return vault.seal(JSON.stringify(secrets), purposes.webhook(id));
}

/**
 * Reserves the id that a caller wants. Ids are unique over all ledgers, so those of a tenant begin with
 * its slug. So two tenants never want the same id, and a refusal can't show another tenant's id. Only
 * the root ledger can already have such an id; then the tenant's id gets a random suffix.
 */
export async function reserveId(
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
export async function createId(
  { idempotencyKey: key, dryRun = false }: Pick<DirectiveRequest, 'idempotencyKey' | 'dryRun'>,
  { ledger, vault }: LedgerContext,
): Promise<string> {
  if (key === undefined || dryRun) return makeWebhookId();
  await guardFirstKey(vault, ledger);
  return makeWebhookId(vault.fingerprint(key, purposes.webhook('')));
}

/** Returns the fingerprint of a given secret, which is recorded instead of the secret. */
export async function fingerprintGiven(
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
export function createSecrets(
  settings: Readonly<JsonObject>,
  credential: string | undefined,
): WebhookSecret[] {
  const reference = toCredentialRef(credential);
  if (reference !== undefined) return [{ secret: reference }];
  const mode = authModeOf(settings);
  return mode === 'bearer' ? [] : [{ secret: makeSecret(mode) }];
}

export const globalToken: WebhookSecret = { secret: formatCredentialRef(GLOBAL_TOKEN) };

/** Returns the current secrets of a webhook. Without its own, that is the global token. */
export function listCurrentSecrets(row: WebhookRow, vault: Vault): readonly WebhookSecret[] {
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

export async function requireWebhookRow(
  id: string,
  ledger: LedgerSubset<'webhooks.find' | 'webhooks.list'>,
): Promise<WebhookRow> {
  const found = await ledger.webhooks.find(id);
  if (found !== undefined) return found;
  throw await describeMissingWebhook(id, ledger);
}

/** Throws for other modes: only bearer webhooks can use the global token. */
export function requireBearer(id: string, mode: string): void {
  if (mode === 'bearer') return;
  const message = `auth_mode ${mode} needs a secret, but the webhook ${id} uses the global token`;
  const hint = `Run \`ductile webhook rotate ${id}\` first, with --secret-stdin for the sender's.`;
  throw new DuctileError('INPUT_INVALID', message, { place: 'auth_mode', hint });
}

/** Refuses to change a webhook of a package: the next upgrade would restore it. */
export function refuseProvided({ id, createdBy }: WebhookRow): void {
  const slug = findActingPackage(createdBy);
  if (slug === undefined) return;
  throw new DuctileError('WEBHOOK_PROVIDED', `the webhook ${id} comes from the package ${slug}`, {
    place: 'id',
    hint: `Run \`ductile package upgrade|disable|uninstall ${slug}\`, or change only its secret.`,
  });
}

export function describeTakenId(id: string): DuctileError {
  return new DuctileError('WEBHOOK_EXISTS', `the webhook ${id} already exists`, { place: 'id' });
}

export function describeTooManySecrets(): DuctileError {
  const message = `more than ${limits.webhookSecretsMax} secrets would be valid at once`;
  return new DuctileError('INPUT_INVALID', message, { place: 'keep_old' });
}

/** Finds the commands that deliveries to a webhook would start after a change of its settings. */
export async function findWebhookCommands(
  { ledger, config, generation }: LedgerContext,
  id = '',
  changes: Readonly<JsonObject> = {},
): Promise<StartedCommand[]> {
  const row = await ledger.webhooks.find(id);
  const current =
    row === undefined ? readEndpoint(config, id) : (parseJson(row.settings) as JsonObject);
  return listDeliveryCommands(id, { ...current, ...changes }, generation);
}

function readEndpoint({ webhooks }: Config, path: string): JsonObject {
  const target = findEndpoint(webhooks, path)?.target;
  return target?.kind === 'command' ? { plugin: target.plugin, command: target.command } : {};
}

function listDeliveryCommands(
  id: string,
  { plugin, command, pipeline, signal, mode }: JsonObject,
  { config, catalog, pipelines }: Generation,
): StartedCommand[] {
  const event = {
    source: webhookSource(id),
    type: typeof signal === 'string' ? signal : DELIVERY_SIGNAL,
    event: ANY_EVENT,
  } as const;
  const handle = typeof command === 'string' ? command : webhookDefaults.command;
  const routed = matchRoutes(config.routes, event).map((route) => resolveTarget(route, catalog));
  const jobs = [
    ...(typeof plugin === 'string' ? [{ plugin, command: handle }] : []),
    ...(typeof mode === 'string' ? [toAgentCommand(mode, config)] : []),
    ...routed.flatMap((target) => ('plugin' in target ? [target] : [])),
  ];
  const runs = pipelines.filter((one) => one.name === pipeline || isPipelineFor(one, event));
  return [
    ...jobs.map((job) => ({ ...job, as: 'which the webhook starts' })),
    ...runs.flatMap(listPipelineCommands),
  ];
}

function toAgentCommand(mode: string, { webhooks }: Config): { plugin: string; command: string } {
  return { plugin: webhooks.agent, command: mode === 'wake' ? 'turn' : 'task' };
}
