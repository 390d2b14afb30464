import { parseCredentialRef, formatCredentialRef } from '../base/credential-ref.ts';
import { messageOf, DuctileError } from '../base/errors.ts';
import type { JsonObject } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import type { Log } from '../base/log.ts';
import { parseJson } from '../base/parse-json.ts';
import type { WebhookRow } from './types.ts';
import { chooseTokens } from './verify/scheme.ts';
import { webhookEntrySchema, toWebhook, type Webhook, type KnownWebhook } from './webhook.ts';
import { secretKeyOf, type AuthMode } from './auth-settings.ts';
import { purposes } from '../access/vault.service.ts';
import type { Vault } from '../access/vault.ts';
import type { WebhookStore, WebhookIntake } from './webhooks.ts';
import type { LedgerContext } from '../engine/context.ts';
import type { EndpointConfig, WebhooksConfig } from '../config/config.ts';
import { suggest } from '../config/nearest.ts';
import type { LedgerSubset } from '../ledger/ledger.ts';

/** A secret as it is sealed: some are only good until a moment, after another took their place. */
export interface KeptSecret {
  readonly secret: string;
  readonly until_ms?: number;
}

/** The credential that is the token of all bearer webhooks without one of their own. */
export const GLOBAL_TOKEN = 'webhook-token';

interface Opened {
  readonly row: WebhookRow;
  readonly webhook: Webhook;
  readonly kept: readonly KeptSecret[];
}

/** Read at most once in a while, however many deliveries come. */
export function makeWebhookStore(
  { ledger, vault }: Pick<LedgerContext, 'ledger' | 'vault'>,
  log: Log,
): WebhookStore {
  let known: ReadonlyMap<string, Opened> = new Map();
  let readAt = -Infinity;
  let reading: Promise<void> | undefined;

  const open = (row: WebhookRow): Opened[] => {
    const before = known.get(row.id);
    if (before !== undefined && isSame(before.row, row)) return [{ ...before, row }];
    try {
      return [openRow(row, vault)];
    } catch (error) {
      log.error('a webhook cannot be used', { hook_id: row.id, error: messageOf(error) });
      return [];
    }
  };
  const read = async (): Promise<void> => {
    const at = performance.now();
    const rows = await ledger.webhooks.list();
    known = new Map(rows.flatMap(open).map((opened) => [opened.row.id, opened]));
    readAt = at;
  };
  const credential = async (name: string): Promise<string | undefined> => {
    const found = await ledger.credentials.find(name);
    if (found === undefined || found.isExpired) return undefined;
    return vault.open(found.sealed, purposes.credential(name));
  };
  const reveal = async (secret: string): Promise<string[]> => {
    const name = parseCredentialRef(secret);
    return name === undefined ? [secret] : [(await credential(name)) ?? []].flat();
  };
  const refresh = async (): Promise<void> => {
    // One that is under way may have seen the ledger as it was before.
    await reading?.catch(() => undefined);
    await (reading ??= read().finally(() => (reading = undefined)));
  };

  return {
    credential,
    async find(id) {
      if (performance.now() - readAt >= limits.webhookCacheMs) {
        await (reading ??= read().finally(() => (reading = undefined)));
      }
      const opened = known.get(id);
      if (opened === undefined) return undefined;
      const { webhook } = opened;
      // Nobody is let in, and how long that takes must not tell that there is a webhook.
      if (!webhook.enabled) return { webhook, secrets: [] };
      const own = (
        await Promise.all(opened.kept.filter(isGood).map(({ secret }) => reveal(secret)))
      ).flat();
      const secrets = isGlobal(opened) ? chooseTokens([], await credential(GLOBAL_TOKEN)) : own;
      return { webhook, secrets };
    },
    async references() {
      await refresh();
      return new Map([...known].map(([id, opened]) => [id, referencesOf(opened)]));
    },
    refresh,
  };
}

/** Only where it never had one: a reference that leads nowhere is no reason to take another. */
function isGlobal({ webhook, kept }: Opened): boolean {
  return webhook.auth.kind === 'token' && kept.length === 0;
}

function referencesOf(opened: Opened): string[] {
  if (isGlobal(opened)) return [GLOBAL_TOKEN];
  return opened.kept.filter(isGood).flatMap(({ secret }) => parseCredentialRef(secret) ?? []);
}

export function isGood({ until_ms: until = Infinity }: KeptSecret): boolean {
  return Date.now() < until;
}

function isSame(a: WebhookRow, b: WebhookRow): boolean {
  return a.settings === b.settings && a.sealed?.text === b.sealed?.text;
}

function openRow(row: WebhookRow, vault: Pick<Vault, 'open'>): Opened {
  const kept = openSecrets(row, vault);
  const settings = parseJson(row.settings) as JsonObject;
  const entry = toEntry(row.id, closeIdle(settings), veil(kept));
  return { row, kept, webhook: toWebhook(webhookEntrySchema.parse(entry)).webhook };
}

/** Earlier versions stored a rate limit of 0, which accepts nothing: such a webhook is disabled. */
function closeIdle(settings: JsonObject): JsonObject {
  const { rate_limit_per_minute: rate, ...rest } = settings;
  return rate === 0 ? { ...rest, enabled: false } : settings;
}

export function openSecrets(
  { id, sealed }: Pick<WebhookRow, 'id' | 'sealed'>,
  vault: Pick<Vault, 'open'>,
): readonly KeptSecret[] {
  if (sealed === null) return [];
  return parseJson(vault.open(sealed, purposes.webhook(id))) as KeptSecret[];
}

/** As many, unseen: they were looked at when they came, and one that is no good spoils no other. */
export function veil(kept: readonly KeptSecret[]): KeptSecret[] {
  return kept.map(() => ({ secret: formatCredentialRef('kept') }));
}

/** An entry as it is written, with its secrets at their place. */
export function toEntry(
  id: string,
  settings: Readonly<JsonObject>,
  kept: readonly KeptSecret[],
): JsonObject {
  const mode = (settings['auth_mode'] ?? 'bearer') as AuthMode;
  const secrets = kept.map(({ secret }) => secret);
  return { ...settings, id, ...(secrets.length === 0 ? {} : { [secretKeyOf(mode)]: secrets }) };
}

type Endpoints = Pick<WebhooksConfig, 'endpoints'>;

/** The webhook that the configuration has at this path. */
export function findEndpoint({ endpoints }: Endpoints, path: string): Webhook | undefined {
  const endpoint = endpoints.find((one) => one.path === path);
  return endpoint && toEndpointWebhook(endpoint);
}

export async function knowEndpoint(
  endpoint: EndpointConfig,
  { store }: WebhookIntake,
): Promise<KnownWebhook> {
  const secret = endpoint.secret ?? (await store.credential(endpoint.secretRef)) ?? '';
  return { secrets: secret.trim() === '' ? [] : [secret], webhook: toEndpointWebhook(endpoint) };
}

/** Throws when an endpoint has no secret to be verified with. */
export async function requireSecrets(
  { endpoints }: Endpoints,
  intake: WebhookIntake,
): Promise<void> {
  for (const endpoint of endpoints) {
    if ((await knowEndpoint(endpoint, intake)).secrets.length === 0) throw unresolved(endpoint);
  }
}

function toEndpointWebhook(endpoint: EndpointConfig): Webhook {
  const { path, plugin, command, auth, eventRules, maxBodyBytes, waitMs } = endpoint;
  return {
    id: path,
    title: path,
    description: '',
    enabled: true,
    target: { kind: 'command', plugin, command },
    auth,
    replay: 'normal',
    eventRules,
    maxBodyBytes,
    ratePerMinute: limits.webhookRateMax,
    waitMs,
  };
}

function unresolved({ path, secretRef, place }: EndpointConfig): DuctileError {
  const message = `the webhook ${path} has no secret: neither tokens.yaml nor a credential is called ${secretRef}`;
  const hint = `Add it to a tokens.yaml that config.yaml includes, or run \`ductile credential set ${secretRef}\`.`;
  return new DuctileError('CONFIG_INVALID', message, { place, hint });
}

/** What to say of an id that no webhook has, with the one that may be meant. */
export async function describeMissingWebhook(
  id: string,
  ledger: LedgerSubset<'webhooks.list'>,
): Promise<DuctileError> {
  const known = (await ledger.webhooks.list()).map((row) => row.id);
  return new DuctileError('WEBHOOK_NOT_FOUND', `there is no webhook ${id}`, {
    place: 'id',
    hint: suggest(id, known, 'webhooks'),
  });
}
