import { parseCredentialRef, formatCredentialRef } from '../base/credential-ref.ts';
import { DuctileError, toDuctileError, messageOf } from '../base/errors.ts';
import { compact, isObject, type JsonObject, type Json } from '../base/json.ts';
import { describeIssues } from '../config/issues.ts';
import { suggest } from '../base/text.ts';
import {
  requireCommand,
  requireLoadedPlugin,
  type Catalog,
  type Plugin,
} from '../plugin/catalog.ts';
import { webhookEntrySchema, toWebhook, type Webhook } from './webhook.ts';
import type { Blueprint } from '../engine/generation.ts';
import { isShortSecret, describeShortSecret } from './secrets.service.ts';
import { toWebhookEntry, type WebhookSecret } from './store.service.ts';
import type { WebhookStore } from './webhooks.ts';
import { requirePipeline } from '../pipeline/run/start.service.ts';
import type { Config } from '../config/config.ts';
import type { WebhookTarget } from './target.ts';
import { findBadPlaceholder } from './prompt.ts';
import { parseJson } from '../base/parse-json.ts';
import type { LedgerSubset } from '../ledger/ledger.ts';
import type { WebhookRow } from './types.ts';

/** Parses a webhook's settings. Throws if they are invalid, or if its target doesn't exist. */
export function checkWebhookEntry(
  id: string,
  settings: Readonly<JsonObject>,
  secrets: readonly WebhookSecret[],
  available: AvailableTargets,
): Webhook {
  const webhook = parseWebhookEntry(id, settings, secrets);
  checkWebhookTarget(webhook, available);
  checkTemplate(webhook.target);
  return webhook;
}

/** Parses a webhook's settings without looking for its target. An error names the invalid key. */
export function parseWebhookEntry(
  id: string,
  settings: Readonly<JsonObject>,
  secrets: readonly WebhookSecret[],
): Webhook {
  const read = webhookEntrySchema.safeParse(toWebhookEntry(id, settings, secrets));
  if (!read.success) {
    // Leave out the secrets: the message can quote a value.
    const written = { value: { ...settings, id }, problems: [], placeOf: () => '' };
    const [problem] = describeIssues(read.error.issues, webhookEntrySchema, written);
    const { key: place = '', message = 'is wrong', hint } = problem ?? {};
    throw new DuctileError('INPUT_INVALID', `${place} ${message}`.trim(), {
      place,
      ...compact({ hint }),
    });
  }
  return toWebhook(read.data).webhook;
}

/** Throws if a secret doesn't fit the settings. For a credential, its current value is checked. */
export async function checkWebhookSecret(
  { id, settings }: { readonly id: string; readonly settings: Readonly<JsonObject> },
  { secret }: WebhookSecret,
  { credential }: Pick<WebhookStore, 'credential'>,
): Promise<void> {
  const name = parseCredentialRef(secret);
  const value = name === undefined ? secret : await credential(name);
  if (value === undefined) return;
  if (name !== undefined && isShortSecret(value))
    throw describeShortSecret(`the credential ${name}`, 'credential');
  try {
    parseWebhookEntry(id, settings, [{ secret: value }]);
  } catch (thrown) {
    const { place = '', message, hint } = toDuctileError(thrown);
    if (name === undefined || !/^(?:token|hmac_secret)\b/.test(place)) throw thrown;
    const words = `the credential ${name} ${message.slice(place.length).trim()}`;
    const more = compact({ hint });
    throw new DuctileError('INPUT_INVALID', words, { place: 'credential', ...more });
  }
}

/** Refuses a new value of a credential with which an enabled webhook could never be verified. */
export async function checkCredential(
  name: string,
  value: string,
  ledger: LedgerSubset<'webhooks.find'>,
  store: Pick<WebhookStore, 'references'>,
): Promise<void> {
  const credential = async (): Promise<string> => value;
  for (const [id, names] of await store.references()) {
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
      const message = `the webhook ${id} uses this credential: ${messageOf(thrown)}`;
      const hint = `Give the webhook another secret first: \`ductile webhook rotate ${id}\`.`;
      throw new DuctileError('INPUT_INVALID', message, { place: 'value', hint });
    }
  }
}

const targetKeys = ['plugin', 'command', 'pipeline', 'signal', 'mode', 'provider'];

/** Returns whether the target must be checked. A webhook can be disabled even if its target is gone. */
export function changesTarget(before: Readonly<JsonObject>, after: Readonly<JsonObject>): boolean {
  return enablesWebhook(before, after) || targetKeys.some((key) => before[key] !== after[key]);
}

/** Returns whether a change affects how deliveries are verified. */
export function changesAuth(before: Readonly<JsonObject>, after: Readonly<JsonObject>): boolean {
  const isOther = (key: string): boolean =>
    JSON.stringify(before[key]) !== JSON.stringify(after[key]);
  return enablesWebhook(before, after) || isOther('auth_mode') || isOther('signed');
}

function enablesWebhook(before: Readonly<JsonObject>, after: Readonly<JsonObject>): boolean {
  return isDisabled(before) && !isDisabled(after);
}

function isDisabled({ enabled = true }: Readonly<JsonObject>): boolean {
  return enabled === false || enabled === 'false';
}

/** The configuration in which a webhook's target must exist. */
export type AvailableTargets = Pick<Blueprint, 'catalog' | 'pipelines' | 'config'>;

export function checkWebhookTarget(
  { target }: Webhook,
  { catalog, pipelines, config }: AvailableTargets,
): void {
  if (target.kind === 'pipeline') requirePipeline(target.pipeline, pipelines);
  if (target.kind === 'command') {
    requireCommand(requireLoadedPlugin(catalog, target.plugin), target.command);
  }
  if (target.kind !== 'agent') return;
  const hint = 'Configure it under plugins, or name another plugin in webhooks.agent.';
  const agent = requireLoadedPlugin(catalog, config.webhooks.agent, hint);
  requireCommand(agent, target.mode === 'wake' ? 'turn' : 'task', hint);
  checkAgent(target, { catalog, config });
}

interface AvailableAgents {
  readonly catalog: Pick<Catalog, 'plugins'>;
  readonly config: Pick<Config, 'webhooks'>;
}

/** Lists the users that an agent may talk to, in the order of its configuration. */
export function listAllowedUsers({ config: { allowed_users: users } }: Plugin): string[] {
  const listed = Array.isArray(users) ? users : [];
  const names = listed.filter((user) => typeof user === 'string' || typeof user === 'number');
  return [...new Set(names.map(String))].filter((user) => user !== '');
}

/** Throws if the agent of a webhook could never do what the webhook asks for. */
function checkAgent(target: WebhookTarget, { catalog, config }: AvailableAgents): void {
  const name = config.webhooks.agent;
  const plugin = catalog.plugins.get(name);
  if (target.kind !== 'agent' || plugin === undefined) return;
  if (target.mode === 'wake') return requireUsers(name, plugin);
  const { provider } = target.overrides;
  const known = listProviders(plugin);
  if (provider === undefined || known === undefined || known.includes(provider)) return;
  throw new DuctileError('INPUT_INVALID', `provider ${provider} is not known to ${name}`, {
    place: 'provider',
    hint: `${suggest(provider, known, 'providers')} Add others to plugins.${name}.config.providers.`,
  });
}

/** Throws if a template has double braces around something that isn't a placeholder. */
export function checkTemplate(target: WebhookTarget): void {
  const bad = target.kind === 'agent' ? findBadPlaceholder(target.promptTemplate) : undefined;
  if (bad === undefined) return;
  throw new DuctileError('INPUT_INVALID', `prompt_template has ${bad}, which is not a field`, {
    place: 'prompt_template',
    hint: 'Write {{field}}, {{a-b}}, {{issue.title}} or {{webhook.event}}.',
  });
}

function requireUsers(name: string, plugin: Plugin): void {
  if (listAllowedUsers(plugin).length > 0) return;
  const message = `mode wake needs an allowed user: plugins.${name}.config.allowed_users is empty`;
  const hint = 'Set it, then run `ductile system reload`; or use mode cron_task.';
  throw new DuctileError('INPUT_INVALID', message, { place: 'mode', hint });
}

/**
 * Lists the providers that a plugin declares as examples in the input schema of `task`, and those of
 * its configuration. Undefined if it has no setting for them: then any name can be valid.
 */
function listProviders({ manifest, config }: Plugin): string[] | undefined {
  const { required, optional } = manifest.configKeys;
  if (![...required, ...optional].includes('providers')) return undefined;
  const schema = manifest.commands['task']?.inputSchema;
  const declared = memberOf(memberOf(memberOf(schema, 'properties'), 'provider'), 'examples');
  const named = Array.isArray(declared) ? declared.filter((name) => typeof name === 'string') : [];
  const configured = config['providers'];
  return [...new Set([...named, ...(isObject(configured) ? Object.keys(configured) : [])])];
}

function memberOf(value: Json | undefined, key: string): Json | undefined {
  return isObject(value) ? value[key] : undefined;
}

/** Finds the enabled webhooks whose target doesn't exist. Returns the reasons by webhook id. */
export function findMissingTargets(
  rows: readonly WebhookRow[],
  available: AvailableTargets,
): ReadonlyMap<string, string> {
  return new Map(
    rows.flatMap((row) => {
      const fault = findTargetFault(row, available);
      return fault === undefined ? [] : [[row.id, fault]];
    }),
  );
}

/** Finds enabled webhooks with invalid settings or an unusable agent. Returns the errors by id. */
export function findWebhookFaults(
  rows: readonly WebhookRow[],
  agents: AvailableAgents,
): ReadonlyMap<string, DuctileError> {
  return new Map(
    rows.flatMap((row) => {
      try {
        const settings = parseJson(row.settings) as JsonObject;
        const { target, enabled } = parseWebhookEntry(row.id, settings, [
          { secret: formatCredentialRef('kept') },
        ]);
        if (!enabled) return [];
        checkTemplate(target);
        checkAgent(target, agents);
        return [];
      } catch (thrown) {
        return [[row.id, toDuctileError(thrown)] as const];
      }
    }),
  );
}

/** Describes the webhooks whose target exists in one configuration and not in the next. */
export async function describeLostTargets(
  before: AvailableTargets,
  after: AvailableTargets,
  ledger: LedgerSubset<'webhooks.list'>,
): Promise<string[]> {
  const rows = await ledger.webhooks.list();
  const known = findMissingTargets(rows, before);
  return [...findMissingTargets(rows, after)]
    .filter(([id]) => !known.has(id))
    .map(([id, fault]) => `Webhook ${id} will refuse every delivery: ${fault}.`);
}

function findTargetFault(
  { id, settings }: WebhookRow,
  available: AvailableTargets,
): string | undefined {
  try {
    const webhook = parseWebhookEntry(id, parseJson(settings) as JsonObject, [
      { secret: formatCredentialRef('kept') },
    ]);
    if (webhook.enabled) checkWebhookTarget(webhook, available);
    return undefined;
  } catch (thrown) {
    return messageOf(thrown);
  }
}
