import { parseCredentialRef, formatCredentialRef } from '../base/credential-ref.ts';
import { DuctileError, toDuctileError, messageOf } from '../base/errors.ts';
import { isObject, type JsonObject, type Json } from '../base/json.ts';
import { describeIssues } from '../config/issues.ts';
import { suggest } from '../config/nearest.ts';
import { findPluginCommand, type Catalog, type Plugin } from '../plugin/catalog.ts';
import { webhookEntrySchema, toWebhook, type Webhook } from './webhook.ts';
import type { Blueprint } from '../engine/generation.ts';
import { isShort, tooShort } from './secrets.service.ts';
import { toEntry, type KeptSecret } from './store.service.ts';
import type { WebhookStore } from './webhooks.ts';
import { requirePipeline } from '../pipeline/run/start.service.ts';
import type { Config } from '../config/config.ts';
import type { WebhookTarget } from './target.ts';
import { findBadPlaceholder } from './prompt.ts';
import { parseJson } from '../base/parse-json.ts';
import type { LedgerSubset } from '../ledger/ledger.ts';
import type { WebhookRow } from './types.ts';

/** Throws what is wrong with it, also among all that is in force. */
export function checkEntry(
  id: string,
  settings: Readonly<JsonObject>,
  kept: readonly KeptSecret[],
  inForce: Targets,
): Webhook {
  const webhook = readEntry(id, settings, kept);
  checkWebhookTarget(webhook, inForce);
  checkTemplate(webhook.target);
  return webhook;
}

/** Throws what is wrong with it in itself, in the words of its keys. */
export function readEntry(
  id: string,
  settings: Readonly<JsonObject>,
  kept: readonly KeptSecret[],
): Webhook {
  const read = webhookEntrySchema.safeParse(toEntry(id, settings, kept));
  if (!read.success) {
    // Without its secrets: a message shows what was given.
    const written = { value: { ...settings, id }, problems: [], placeOf: () => '' };
    const [problem] = describeIssues(read.error.issues, webhookEntrySchema, written);
    const { key: place = '', message = 'is wrong', hint } = problem ?? {};
    throw new DuctileError('INPUT_INVALID', `${place} ${message}`.trim(), {
      place,
      ...(hint === undefined ? {} : { hint }),
    });
  }
  return toWebhook(read.data).webhook;
}

/** Throws what is wrong with a secret, or with the value of the credential that it stands for. */
export async function checkSecret(
  { id, settings }: { readonly id: string; readonly settings: Readonly<JsonObject> },
  { secret }: KeptSecret,
  { credential }: Pick<WebhookStore, 'credential'>,
): Promise<void> {
  const name = parseCredentialRef(secret);
  const value = name === undefined ? secret : await credential(name);
  if (value === undefined) return;
  if (name !== undefined && isShort(value)) throw tooShort(`the credential ${name}`, 'credential');
  try {
    readEntry(id, settings, [{ secret: value }]);
  } catch (thrown) {
    const { place = '', message, hint } = toDuctileError(thrown);
    if (name === undefined || !/^(?:token|hmac_secret)\b/.test(place)) throw thrown;
    const words = `the credential ${name} ${message.slice(place.length).trim()}`;
    const more = hint === undefined ? {} : { hint };
    throw new DuctileError('INPUT_INVALID', words, { place: 'credential', ...more });
  }
}

const targetKeys = ['plugin', 'command', 'pipeline', 'signal', 'mode', 'provider'];

/** Whether a change is about what is started; whoever switches a webhook off need not mend it. */
export function isRetargeted(before: Readonly<JsonObject>, after: Readonly<JsonObject>): boolean {
  return isSwitchedOn(before, after) || targetKeys.some((key) => before[key] !== after[key]);
}

/** Whether a change is about how deliveries are proven. */
export function isReproven(before: Readonly<JsonObject>, after: Readonly<JsonObject>): boolean {
  const isOther = (key: string): boolean =>
    JSON.stringify(before[key]) !== JSON.stringify(after[key]);
  return isSwitchedOn(before, after) || isOther('auth_mode') || isOther('signed');
}

function isSwitchedOn(before: Readonly<JsonObject>, after: Readonly<JsonObject>): boolean {
  return isOff(before) && !isOff(after);
}

function isOff({ enabled = true }: Readonly<JsonObject>): boolean {
  return enabled === false || enabled === 'false';
}

/** What a target is looked for in. */
export type Targets = Pick<Blueprint, 'catalog' | 'pipelines' | 'config'>;

export function checkWebhookTarget(
  { target }: Webhook,
  { catalog, pipelines, config }: Targets,
): void {
  if (target.kind === 'pipeline') requirePipeline(target.pipeline, pipelines);
  if (target.kind === 'command') checkCommand(target.plugin, target.command, catalog);
  if (target.kind !== 'agent') return;
  const hint = 'Set it up under plugins, or name another one with webhooks.agent.';
  checkCommand(config.webhooks.agent, target.mode === 'wake' ? 'turn' : 'task', catalog, hint);
  checkAgent(target, { catalog, config });
}

function checkCommand(name: string, command: string, catalog: Catalog, hint?: string): void {
  const plugin = catalog.plugins.get(name);
  if (plugin === undefined && catalog.disabled.has(name)) {
    throw new DuctileError('PLUGIN_NOT_FOUND', `the plugin ${name} is disabled`, {
      hint: `Set plugins.${name}.enabled to true, then run \`ductile system reload\`.`,
    });
  }
  if (plugin === undefined) {
    throw new DuctileError('PLUGIN_NOT_FOUND', `there is no plugin ${name}`, {
      hint: hint ?? suggest(name, [...catalog.plugins.keys()], 'plugins'),
    });
  }
  if (findPluginCommand(plugin, command) !== undefined) return;
  const known = Object.keys(plugin.manifest.commands);
  throw new DuctileError('COMMAND_NOT_FOUND', `the plugin ${name} has no command ${command}`, {
    hint: hint ?? suggest(command, known, 'commands'),
  });
}

interface AgentTargets {
  readonly catalog: Pick<Catalog, 'plugins'>;
  readonly config: Pick<Config, 'webhooks'>;
}

/** The users that an agent talks with, in the order of its configuration. */
export function usersOf({ config: { allowed_users: users } }: Plugin): string[] {
  const given = Array.isArray(users) ? users : [];
  const names = given.filter((user) => typeof user === 'string' || typeof user === 'number');
  return [...new Set(names.map(String))].filter((user) => user !== '');
}

/** Throws if the agent of a webhook could never do what the webhook asks for. */
function checkAgent(target: WebhookTarget, { catalog, config }: AgentTargets): void {
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
  throw new DuctileError('INPUT_INVALID', `prompt_template has ${bad}, which names no field`, {
    place: 'prompt_template',
    hint: 'Write {{field}}, {{a-b}}, {{issue.title}} or {{webhook.event}}.',
  });
}

function requireUsers(name: string, plugin: Plugin): void {
  if (usersOf(plugin).length > 0) return;
  const message = `mode wake needs someone to talk to: plugins.${name}.config.allowed_users is empty`;
  const hint = 'Set it, then run `ductile system reload`; or use mode cron_task.';
  throw new DuctileError('INPUT_INVALID', message, { place: 'mode', hint });
}

/**
 * The providers that a plugin declares as examples in the input schema of `task`, and those of its
 * configuration. Undefined if it has no setting for them: then every name may be right.
 */
function listProviders({ manifest, config }: Plugin): string[] | undefined {
  const { required, optional } = manifest.configKeys;
  if (![...required, ...optional].includes('providers')) return undefined;
  const schema = manifest.commands['task']?.inputSchema;
  const declared = memberOf(memberOf(memberOf(schema, 'properties'), 'provider'), 'examples');
  const named = Array.isArray(declared) ? declared.filter((one) => typeof one === 'string') : [];
  const configured = config['providers'];
  return [...new Set([...named, ...(isObject(configured) ? Object.keys(configured) : [])])];
}

function memberOf(value: Json | undefined, key: string): Json | undefined {
  return isObject(value) ? value[key] : undefined;
}

/** The webhooks that are on and have nothing to start, by their ids, and why. */
export function findStranded(
  rows: readonly WebhookRow[],
  inForce: Targets,
): ReadonlyMap<string, string> {
  return new Map(
    rows.flatMap((row) => {
      const fault = faultOf(row, inForce);
      return fault === undefined ? [] : [[row.id, fault]];
    }),
  );
}

/** Settings of enabled webhooks that could never work, by their ids, whatever else is there. */
export function findWebhookFaults(
  rows: readonly WebhookRow[],
  agents: AgentTargets,
): ReadonlyMap<string, DuctileError> {
  return new Map(
    rows.flatMap((row) => {
      try {
        const settings = parseJson(row.settings) as JsonObject;
        const { target, enabled } = readEntry(row.id, settings, [
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

/** Those that one configuration leaves without what another one had, in sentences. */
export async function describeStranded(
  before: Targets,
  after: Targets,
  ledger: LedgerSubset<'webhooks.list'>,
): Promise<string[]> {
  const rows = await ledger.webhooks.list();
  const known = findStranded(rows, before);
  return [...findStranded(rows, after)]
    .filter(([id]) => !known.has(id))
    .map(([id, fault]) => `The webhook ${id} takes nothing any more: ${fault}.`);
}

function faultOf({ id, settings }: WebhookRow, inForce: Targets): string | undefined {
  try {
    const webhook = readEntry(id, parseJson(settings) as JsonObject, [
      { secret: formatCredentialRef('kept') },
    ]);
    if (webhook.enabled) checkWebhookTarget(webhook, inForce);
    return undefined;
  } catch (thrown) {
    return messageOf(thrown);
  }
}
