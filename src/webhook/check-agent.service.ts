import { DuctileError } from '../base/errors.ts';
import { isObject, type Json } from '../base/json.ts';
import type { Config } from '../config/config.ts';
import { suggest } from '../config/nearest.ts';
import type { Catalog, Plugin } from '../plugin/catalog.ts';
import type { WebhookTarget } from './target.ts';
import { findBadPlaceholder } from './prompt.ts';

export interface AgentTargets {
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
export function checkAgent(target: WebhookTarget, { catalog, config }: AgentTargets): void {
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
