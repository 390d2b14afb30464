import { isObject, type Json } from '../base/json.ts';
import type { Provides } from './package.ts';

/** One thing that a package brings into a ledger, under a name that is there once. */
export interface Provision {
  readonly kind: 'plugin' | 'schedule' | 'route' | 'pipeline' | 'handler' | 'webhook';
  readonly name: string;
}

/** Everything that an installation of it brings. */
export function provisionsOf(slug: string, provides: Provides): Provision[] {
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

/**
 * The ids of webhooks are addresses, and one address leads to one webhook of all ledgers: so they say
 * whose they are.
 */
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

/** What one list has that the other has not, both ways. */
export function compareProvisions(
  before: readonly Provision[],
  after: readonly Provision[],
): { readonly added: readonly Provision[]; readonly removed: readonly Provision[] } {
  const without = (all: readonly Provision[], others: readonly Provision[]): Provision[] =>
    all.filter((one) => !others.some(({ kind, name }) => kind === one.kind && name === one.name));
  return { added: without(after, before), removed: without(before, after) };
}

/** A sentence for each kind, such as "2 plugins would be added: a, b." */
export function describeProvisions(provisions: readonly Provision[], how: string): string[] {
  return kinds.flatMap((kind) => {
    const names = provisions.filter((one) => one.kind === kind).map(({ name }) => name);
    if (names.length === 0) return [];
    const counted = `${names.length} ${kind}${names.length === 1 ? '' : 's'}`;
    return [`${counted} would be ${how}: ${names.join(', ')}.`];
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
