import { parseCredentialRef, formatCredentialRef } from '../base/credential-ref.ts';
import { messageOf, DuctileError } from '../base/errors.ts';
import type { JsonObject } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import type { Log } from '../base/log.ts';
import { parseJson } from '../base/parse-json.ts';
import type { WebhookRow } from './types.ts';
import { chooseTokens } from './verify/verify.ts';
import { webhookEntrySchema, toWebhook, type Webhook, type KnownWebhook } from './webhook.ts';
import { secretKeyOf, type AuthMode } from './auth-settings.ts';
import type { Vault } from '../access/vault.ts';
import type { WebhookStore, WebhookIntake } from './webhooks.ts';
import type { LedgerContext } from '../engine/context.ts';
import type { EndpointConfig, WebhooksConfig } from '../config/config.ts';
import { suggest } from '../base/text.ts';
import { purposes } from '../base/seal.ts';
import type { LedgerSubset } from '../ledger/ledger.ts';

/** A sealed secret. A secret that was replaced stays valid until a time. */
export interface WebhookSecret {
  readonly secret: string;
  readonly until_ms?: number;
}

/** The credential that is the token of all bearer webhooks without one of their own. */
export const GLOBAL_TOKEN = 'webhook-token';

interface LoadedWebhook {
  readonly row: WebhookRow;
  readonly webhook: Webhook;
  readonly secrets: readonly WebhookSecret[];
}

/** Caches the webhooks of a ledger for a moment, because each delivery needs one. */
export function makeWebhookStore(
  { ledger, vault }: Pick<LedgerContext, 'ledger' | 'vault'>,
  log: Log,
): WebhookStore {
  let loaded: ReadonlyMap<string, LoadedWebhook> = new Map();
  let readAt = -Infinity;
  let reading: Promise<void> | undefined;

  const open = (row: WebhookRow): LoadedWebhook[] => {
    const before = loaded.get(row.id);
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
    loaded = new Map(rows.flatMap(open).map((one) => [one.row.id, one]));
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
    // A read that is already in progress may have missed the change.
    await reading?.catch(() => undefined);
    await (reading ??= read().finally(() => (reading = undefined)));
  };

  return {
    credential,
    async find(id) {
      if (performance.now() - readAt >= limits.webhookCacheMs) {
        await (reading ??= read().finally(() => (reading = undefined)));
      }
      const found = loaded.get(id);
      if (found === undefined) return undefined;
      const { webhook } = found;
      // Read no secrets: the time that takes would show that the webhook exists.
      if (!webhook.enabled) return { webhook, secrets: [] };
      const own = (
        await Promise.all(found.secrets.filter(isValidSecret).map(({ secret }) => reveal(secret)))
      ).flat();
      const secrets = usesGlobalToken(found)
        ? chooseTokens([], await credential(GLOBAL_TOKEN))
        : own;
      return { webhook, secrets };
    },
    async references() {
      await refresh();
      return new Map([...loaded].map(([id, one]) => [id, listCredentials(one)]));
    },
    refresh,
  };
}

/**
 * True only if the webhook never had a token of its own. A reference to a missing credential must not
 * fall back to the global token.
 */
function usesGlobalToken({ webhook, secrets }: LoadedWebhook): boolean {
  return webhook.auth.kind === 'token' && secrets.length === 0;
}

function listCredentials(loaded: LoadedWebhook): string[] {
  if (usesGlobalToken(loaded)) return [GLOBAL_TOKEN];
  return loaded.secrets
    .filter(isValidSecret)
    .flatMap(({ secret }) => parseCredentialRef(secret) ?? []);
}

export function isValidSecret({ until_ms: until = Infinity }: WebhookSecret): boolean {
  return Date.now() < until;
}

function isSame(a: WebhookRow, b: WebhookRow): boolean {
  return a.settings === b.settings && a.sealed?.text === b.sealed?.text;
}

function openRow(row: WebhookRow, vault: Pick<Vault, 'open'>): LoadedWebhook {
  const secrets = openSecrets(row, vault);
  const settings = parseJson(row.settings) as JsonObject;
  const entry = toWebhookEntry(row.id, disableZeroRate(settings), toPlaceholders(secrets));
  return { row, secrets, webhook: toWebhook(webhookEntrySchema.parse(entry)).webhook };
}

/** Earlier versions stored a rate limit of 0, which accepts nothing: such a webhook is disabled. */
function disableZeroRate(settings: JsonObject): JsonObject {
  const { rate_limit_per_minute: rate, ...rest } = settings;
  return rate === 0 ? { ...rest, enabled: false } : settings;
}

export function openSecrets(
  { id, sealed }: Pick<WebhookRow, 'id' | 'sealed'>,
  vault: Pick<Vault, 'open'>,
): readonly WebhookSecret[] {
  if (sealed === null) return [];
  return parseJson(vault.open(sealed, purposes.webhook(id))) as WebhookSecret[];
}

/**
 * Replaces each secret by a placeholder. Secrets were checked when they were set, and an invalid one
 * must not make the whole webhook invalid.
 */
export function toPlaceholders(secrets: readonly WebhookSecret[]): WebhookSecret[] {
  return secrets.map(() => ({ secret: formatCredentialRef('kept') }));
}

/** Returns a webhook's entry as users write it, with its secrets under their key. */
export function toWebhookEntry(
  id: string,
  settings: Readonly<JsonObject>,
  secrets: readonly WebhookSecret[],
): JsonObject {
  const mode = (settings['auth_mode'] ?? 'bearer') as AuthMode;
  const texts = secrets.map(({ secret }) => secret);
  return { ...settings, id, ...(texts.length === 0 ? {} : { [secretKeyOf(mode)]: texts }) };
}

type Endpoints = Pick<WebhooksConfig, 'endpoints'>;

/** Finds the webhook of the configured endpoint at this path. */
export function findEndpoint({ endpoints }: Endpoints, path: string): Webhook | undefined {
  const endpoint = endpoints.find((known) => known.path === path);
  return endpoint && toEndpointWebhook(endpoint);
}

/** Reads the webhook of an endpoint with its secret. It has no secrets if there is none. */
export async function readEndpoint(
  endpoint: EndpointConfig,
  { store }: WebhookIntake,
): Promise<KnownWebhook> {
  const secret = endpoint.secret ?? (await store.credential(endpoint.secretRef)) ?? '';
  return { secrets: secret.trim() === '' ? [] : [secret], webhook: toEndpointWebhook(endpoint) };
}

/** Throws if an endpoint has no secret to verify its deliveries with. */
export async function requireSecrets(
  { endpoints }: Endpoints,
  intake: WebhookIntake,
): Promise<void> {
  for (const endpoint of endpoints) {
    if ((await readEndpoint(endpoint, intake)).secrets.length === 0)
      throw describeMissingSecret(endpoint);
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

function describeMissingSecret({ path, secretRef, place }: EndpointConfig): DuctileError {
  const message =
    `the webhook ${path} has no secret: ` +
    `no entry of tokens.yaml and no credential is named ${secretRef}`;
  const hint = `Add it to a tokens.yaml that config.yaml includes, or run \`ductile credential set ${secretRef}\`.`;
  return new DuctileError('CONFIG_INVALID', message, { place, hint });
}

/** Creates the error for an unknown id, with the most similar id as a hint. */
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
