import { isObject, type Json, type JsonObject } from '../base/json.ts';
import type { Provides } from './package.ts';

/** An object that a package adds to a ledger. Its kind and name are unique there. */
export interface Provision {
  readonly kind: 'plugin' | 'schedule' | 'route' | 'pipeline' | 'handler' | 'webhook';
  readonly name: string;
}

/** Lists everything that an installation adds. */
export function listProvisions(slug: string, provides: Provides): Provision[] {
  const { plugins, routes, pipelines, handlers, webhooks } = provides;
  return [
    ...Object.entries(plugins).flatMap(([name, plugin]) => [
      { kind: 'plugin', name } as const,
      ...schedulesOf(plugin).map((id) => ({ kind: 'schedule', name: `${name}/${id}` }) as const),
    ]),
    ...routes.map((route, index) => ({
      kind: 'route' as const,
      name: `${slug}/${index + 1} ${textOf(route['event_type'])} → ${textOf(route['to'])}`,
    })),
    ...pipelines.map((pipeline) => ({ kind: 'pipeline' as const, name: textOf(pipeline['name']) })),
    ...handlers.map((handler, index) => ({
      kind: 'handler' as const,
      name: `${slug}/${index + 1} ${textOf(handler['on'])} → ${textOf(handler['directive'])}`,
    })),
    ...webhooks.map((webhook) => ({ kind: 'webhook' as const, name: textOf(webhook['id']) })),
  ];
}

/** Adds the tenant and the package to the ids of webhooks, which are addresses in all ledgers. */
export function addressWebhooks(
  provides: Provides,
  owner: { readonly slug: string; readonly tenant: string | undefined },
): Provides {
  const prefix = [owner.tenant ?? [], owner.slug].flat().join('-');
  const webhooks = provides.webhooks.map((webhook) => {
    const { id } = webhook;
    return typeof id === 'string' ? { ...webhook, id: `${prefix}-${id}` } : webhook;
  });
  return { ...provides, webhooks };
}

function schedulesOf(plugin: Json): string[] {
  const schedules = isObject(plugin) ? plugin['schedules'] : undefined;
  if (!Array.isArray(schedules)) return [];
  return schedules.map((schedule) =>
    isObject(schedule) ? textOf(schedule['id'] ?? 'default') : '',
  );
}

function textOf(value: Json | undefined): string {
  return typeof value === 'string' ? value : '';
}

/** Compares two lists of provisions. */
export function compareProvisions(
  before: readonly Provision[],
  after: readonly Provision[],
): { readonly added: readonly Provision[]; readonly removed: readonly Provision[] } {
  const without = (all: readonly Provision[], others: readonly Provision[]): Provision[] =>
    all.filter((one) => !others.some(({ kind, name }) => kind === one.kind && name === one.name));
  return { added: without(after, before), removed: without(before, after) };
}

/** Writes a sentence for each kind, such as "2 plugins will be added: a, b." */
export function describeProvisions(provisions: readonly Provision[], how: string): string[] {
  return kinds.flatMap((kind) => {
    const names = provisions.filter((one) => one.kind === kind).map(({ name }) => name);
    if (names.length === 0) return [];
    const counted = `${names.length} ${kind}${names.length === 1 ? '' : 's'}`;
    return [`${counted} will be ${how}: ${names.join(', ')}.`];
  });
}

const kinds: readonly Provision['kind'][] = [
  'plugin',
  'schedule',
  'route',
  'pipeline',
  'handler',
  'webhook',
];

/** A wrong placeholder. */
interface FillFault {
  /** The path below `provides`. */
  readonly at: readonly (string | number)[];
  readonly message: string;
}

interface FillResult {
  readonly provides: Provides;
  readonly faults: readonly FillFault[];
}

/**
 * Replaces `${config.x}` with the installer's values. A text that is nothing else becomes the value
 * with its type; a missing value is left out. `$${` is the literal text `${`.
 */
export function fillProvides(provides: Provides, config: JsonObject): FillResult {
  const faults: FillFault[] = [];
  const filled = fillValue(provides as unknown as Json, { config, faults }, []);
  return { provides: filled as unknown as Provides, faults };
}

/** True if all parts of a value come from the installer. */
export function isFromInstaller(value: Json): boolean {
  if (Array.isArray(value)) return value.every(isFromInstaller);
  if (isObject(value)) return Object.values(value).every(isFromInstaller);
  return typeof value === 'string' && placeholderPattern.test(value);
}

interface FillState {
  readonly config: JsonObject;
  readonly faults: FillFault[];
}

function fillValue(value: Json, state: FillState, at: FillFault['at']): Json | undefined {
  if (typeof value === 'string') return fillText(value, state, at);
  if (Array.isArray(value)) {
    const items = value.map((item, index) => fillValue(item, state, [...at, index]));
    return items.filter((item) => item !== undefined);
  }
  if (!isObject(value)) return value;
  const entries = Object.entries(value).flatMap(([key, inner]) => {
    if (key.includes('${')) {
      const message = 'is a name, and placeholders are not replaced in names';
      state.faults.push({ at: [...at, key], message });
    }
    const filled = fillValue(inner, state, [...at, key]);
    return filled === undefined ? [] : [[key, filled] as const];
  });
  return Object.fromEntries(entries);
}

const tokenPattern = /\$\$\{|\$\{[^}]*\}?|[^$]+|\$/g;
const placeholderPattern = /^\$\{\s*config((?:\.[A-Za-z_][A-Za-z0-9_-]*)+)\s*\}$/;

function splitText(text: string): string[] | undefined {
  return text.includes('${') ? [...text.matchAll(tokenPattern)].map(([part]) => part) : undefined;
}

function fillText(
  text: string,
  { config, faults }: FillState,
  at: FillFault['at'],
): Json | undefined {
  const parts = splitText(text);
  if (parts === undefined) return text;
  const addFault = (message: string): string => {
    faults.push({ at, message });
    return '';
  };
  const values = parts.map((part): Json | undefined => {
    if (part === '$${') return '${';
    if (!part.startsWith('${')) return part;
    const path = placeholderPattern.exec(part)?.[1];
    if (path === undefined) {
      return addFault(
        `has ${part}; only \${config.…} is replaced here, and $\${ is the text itself`,
      );
    }
    const found = unescape(readPath(config, path.slice(1).split('.')));
    if (found !== undefined || parts.length === 1) return found;
    return addFault(
      `has ${part}, and the configuration of the installation has no ${path.slice(1)}`,
    );
  });
  return values.length === 1 ? values[0] : values.map(toText).join('');
}

function readPath(config: JsonObject, path: readonly string[]): Json | undefined {
  let value: Json | undefined = config;
  for (const key of path)
    value = isObject(value) && Object.hasOwn(value, key) ? value[key] : undefined;
  return value;
}

/** `$${` is the literal text `${` in the installer's values, too. */
function unescape<Value extends Json | undefined>(value: Value): Value | Json {
  if (typeof value === 'string') return value.replaceAll('$${', () => '${');
  if (Array.isArray(value)) return value.map((item) => unescape<Json>(item));
  if (!isObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => [key, unescape<Json>(inner)]),
  );
}

function toText(value: Json | undefined): string {
  if (value === undefined || value === null) return '';
  return typeof value === 'string' ? value : JSON.stringify(value);
}

/** Fills in the defaults that the schema declares. */
export function withDefaults(schema: JsonObject | undefined, config: JsonObject): JsonObject {
  const properties = schema?.['properties'];
  if (!isObject(properties)) return config;
  const filled: JsonObject = { ...config };
  for (const [key, property] of Object.entries(properties)) {
    if (!isObject(property)) continue;
    const given = filled[key];
    if (given === undefined && property['default'] !== undefined) filled[key] = property['default'];
    else if (isObject(given)) filled[key] = withDefaults(property, given);
  }
  return filled;
}
