import { parseCredentialRef } from '../base/credential-ref.ts';
import { DuctileError, toDuctileError } from '../base/errors.ts';
import type { JsonObject } from '../base/json.ts';
import { describeIssues } from '../config/issues.ts';
import { suggest } from '../config/nearest.ts';
import { findPluginCommand, type Catalog } from '../plugin/catalog.ts';
import { webhookEntrySchema, toWebhook, type Webhook } from './webhook.ts';
import type { Blueprint } from '../engine/generation.ts';
import { isShort, tooShort } from './secrets.service.ts';
import { toEntry, type KeptSecret } from './store.service.ts';
import type { WebhookStore } from './webhooks.ts';
import { findPipeline } from '../pipeline/run/start.service.ts';
import { checkAgent, checkTemplate } from './check-agent.service.ts';

/** Throws what is wrong with it, also among all that is in force. */
export function checkEntry(
  id: string,
  settings: Readonly<JsonObject>,
  kept: readonly KeptSecret[],
  inForce: Targets,
): Webhook {
  const hook = readEntry(id, settings, kept);
  checkTarget(hook, inForce);
  checkTemplate(hook.target);
  return hook;
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

export function checkTarget({ target }: Webhook, { catalog, pipelines, config }: Targets): void {
  if (target.kind === 'pipeline') findPipeline(target.pipeline, pipelines);
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
