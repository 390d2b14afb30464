import { isObject } from '../base/json.ts';
import type { Config } from '../config/config.ts';
import type { Blueprint } from './generation.ts';

/**
 * Lists changed keys that a running process can't change: they are open files, sockets and
 * processes.
 */
export function findFixed(before: Config, after: Config): string[] {
  return fixedKeys
    .filter(([, valueOf]) => differ(valueOf(before), valueOf(after)))
    .map(([key]) => key);
}

const fixedKeys: readonly (readonly [key: string, valueOf: (config: Config) => unknown])[] = [
  ['state', ({ state }) => state],
  ['api.enabled', ({ api }) => api.enabled],
  ['api.listen', ({ api }) => [api.host, api.port]],
  ['webhooks.enabled', ({ webhooks }) => webhooks.enabled],
  ['webhooks.listen', ({ webhooks }) => [webhooks.host, webhooks.port]],
  ['service.spawner', ({ service }) => service.spawner],
  ['service.log_format', ({ service }) => service.logFormat],
];

/** Describes the differences in sentences. Secrets are compared and not shown. */
export function describeChanges(before: Blueprint, after: Blueprint): string[] {
  const plugins = describePlugins(before, after);
  const settings = describeSettings(before.config, after.config);
  const changes = [...plugins, ...settings];
  const isHidden = changes.length === 0 && before.config.fingerprint !== after.config.fingerprint;
  return isHidden ? ['A value changes that is not shown here, such as a secret.'] : changes;
}

/**
 * Lists the plugins that a user removed or disabled. A plugin with broken files isn't among them:
 * it may be fixed.
 */
export function findRemovedPlugins(old: Blueprint, now: Blueprint): string[] {
  const isMeant = (name: string): boolean =>
    now.catalog.disabled.has(name) || now.config.plugins[name] === undefined;
  const isGone = (name: string): boolean => !now.catalog.plugins.has(name) && isMeant(name);
  return [...old.catalog.plugins.keys()].filter(isGone);
}

function describePlugins(old: Blueprint, now: Blueprint): string[] {
  const names = [...new Set([...old.catalog.plugins.keys(), ...now.catalog.plugins.keys()])].sort();
  return names.flatMap((name) => {
    const before = old.catalog.plugins.get(name);
    const after = now.catalog.plugins.get(name);
    const isSame = before?.identity === after?.identity;
    if (isSame && !differ(settingsOf(old, name), settingsOf(now, name))) return [];
    if (before === undefined) return [`The plugin ${name} is added.`];
    if (after !== undefined) return [`The plugin ${name} has new settings or files.`];
    const how = now.catalog.disabled.has(name) ? 'disabled' : 'removed';
    return [
      `The plugin ${name} is ${how}. Its queued jobs become \`dead\` unless another host has it.`,
    ];
  });
}

/** Returns the settings of a plugin without their location in a file, which doesn't change their meaning. */
function settingsOf({ config }: Blueprint, name: string): unknown {
  return { ...(config.plugins[name] ?? config.pluginDefaults), place: '' };
}

/** Compares leaf by leaf, as written. Plugins are described separately. */
function describeSettings(before: Config, after: Config): string[] {
  const old = flatten(before.redacted);
  const now = flatten(after.redacted);
  const keys = [...new Set([...old.keys(), ...now.keys()])].sort();
  return keys
    .filter((key) => !key.startsWith('plugins.') && old.get(key) !== now.get(key))
    .map((key) => `${key}: ${old.get(key) ?? 'not set'} → ${now.get(key) ?? 'not set'}`);
}

function flatten(value: unknown, path = '', leaves = new Map<string, string>()) {
  const inner = isObject(value) || Array.isArray(value) ? Object.entries(value) : undefined;
  if (inner === undefined) leaves.set(path, JSON.stringify(value));
  else for (const [key, part] of inner) flatten(part, path === '' ? key : `${path}.${key}`, leaves);
  return leaves;
}

function differ(one: unknown, two: unknown): boolean {
  return JSON.stringify(one) !== JSON.stringify(two);
}
