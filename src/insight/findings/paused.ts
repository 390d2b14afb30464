import { fromTimestamp, type Timestamp } from '../../base/clock.ts';
import { isObject, parseStoredJson } from '../../base/json.ts';
import { limits } from '../../base/limits.ts';
import { quoteShell } from '../../base/text.ts';
import type { Ledger } from '../../ledger/ledger.ts';
import { type CheckContext, defineFinding } from '../define-finding.service.ts';
import { type FindingCategory, formatAge } from '../finding.ts';

/** The actor of a pause, and when it was completed. */
export interface DirectiveAuthor {
  readonly actor: string | null;
  readonly at: Timestamp | null;
}

/** A part that an operator paused, disabled or suspended. */
interface PausedPart {
  readonly noun: keyof typeof nouns;
  /** Empty for the service. */
  readonly name: string;
  readonly author: DirectiveAuthor | undefined;
  readonly now?: Timestamp | undefined;
}

/** An operator's choice isn't an error, but it is easily forgotten. */
export const partPaused = defineFinding<PausedPart>({
  kind: 'paused',
  condition:
    'An operator paused, disabled or suspended a part, or the whole service. After a day, it is a warning.',
  rank: { severity: 'info', category: 'service', repair: 'switch' },
  fix: 'Resume it when the reason for the pause is gone.',
  command: 'ductile system resume',
  async find(context) {
    const found = await Promise.all([
      findPausedSystem(context),
      findPausedSchedules(context),
      findDisabledPlugins(context),
      findDisabledWebhooks(context),
      context.isRoot ? findSuspendedTenants(context) : [],
    ]);
    return found.flat().map((part) => ({ ...part, now: context.now }));
  },
  describe({ noun, name, author, now }) {
    const { category, effect, command } = nouns[noun];
    const { actor = null, at: since = null } = author ?? {};
    const isAged = now !== undefined && since !== null;
    const ageMs = isAged ? fromTimestamp(now) - fromTimestamp(since) : Infinity;
    const ago = isAged ? `, ${formatAge(since, now)} ago` : '';
    const when = since === null ? '' : ` at ${since}${ago}`;
    const isAll = noun === 'system';
    return {
      key: isAll ? noun : `${noun}/${name}`,
      severity: isAll || ageMs >= limits.pausedWarningMs ? 'warning' : 'info',
      category,
      ...(isAll ? { impact: 'everything' } : {}),
      message: `The ${isAll ? 'service' : `${noun} ${name}`} is ${effect}.`,
      evidence: `${actor ?? 'no directive about it is in this ledger'}${when}`,
      commands: [command(name)],
      since: since ?? undefined,
      detail: { by: actor },
    };
  },
});

interface PausableNoun {
  readonly category: FindingCategory;
  readonly effect: string;
  readonly command: (name: string) => string;
}

const nouns = {
  system: {
    category: 'service',
    effect: 'paused: no job starts',
    command: () => 'ductile system resume',
  },
  schedule: {
    category: 'schedules',
    effect: 'paused: it starts no jobs',
    command: (name) =>
      `ductile schedule resume ${name
        .split(/\/(.*)/, 2)
        .map(quoteShell)
        .join(' ')}`,
  },
  plugin: {
    category: 'plugins',
    effect: 'disabled: its jobs wait',
    command: (name) => `ductile plugin enable ${quoteShell(name)}`,
  },
  webhook: {
    category: 'webhooks',
    effect: 'disabled: it refuses deliveries',
    command: (name) => `ductile webhook edit ${quoteShell(name)} --enabled`,
  },
  tenant: {
    category: 'tenants',
    effect: 'suspended: its work is neither accepted nor started',
    command: (name) => `ductile tenant resume ${quoteShell(name)}`,
  },
} as const satisfies Readonly<Record<string, PausableNoun>>;

async function findPausedSystem({ ledger }: CheckContext): Promise<PausedPart[]> {
  const author = await readSystemPause(ledger);
  return author === undefined ? [] : [{ noun: 'system', name: '', author }];
}

async function findPausedSchedules({ ledger }: CheckContext): Promise<PausedPart[]> {
  const rows = await ledger.schedules.list({ status: ['paused'], limit: limits.findingGroupsMax });
  return await Promise.all(
    rows.map(async ({ plugin, scheduleId }) => {
      const name = `${plugin}/${scheduleId}`;
      const author = await readDirectiveAuthor(ledger, `schedule:${name}`, 'schedule.pause');
      return { noun: 'schedule', name, author } as const;
    }),
  );
}

async function findDisabledPlugins({ ledger }: CheckContext): Promise<PausedPart[]> {
  const rows = await ledger.plugins.listDisabled();
  return rows.map(({ plugin: name, changedBy: actor, changedAt: at }) => {
    return { noun: 'plugin', name, author: { actor, at } };
  });
}

async function findDisabledWebhooks({ ledger }: CheckContext): Promise<PausedPart[]> {
  const rows = await ledger.webhooks.list();
  return rows.flatMap(({ id: name, settings, updatedBy: actor, updatedAt: at }): PausedPart[] => {
    const stored = parseStoredJson(settings);
    const isDisabled = isObject(stored) && stored['enabled'] === false;
    return isDisabled ? [{ noun: 'webhook', name, author: { actor, at } }] : [];
  });
}

async function findSuspendedTenants({ ledger }: CheckContext): Promise<PausedPart[]> {
  const rows = await ledger.tenants.list();
  const suspended = rows.filter(({ status }) => status === 'suspended');
  return await Promise.all(
    suspended.slice(0, limits.findingGroupsMax).map(async ({ slug: name, updatedAt }) => {
      const last = await readDirectiveAuthor(ledger, `tenant:${name}`, 'tenant.suspend');
      return { noun: 'tenant', name, author: last ?? { actor: null, at: updatedAt } } as const;
    }),
  );
}

/** Reads who paused the service. Undefined if it isn't paused. */
export async function readSystemPause(ledger: Ledger): Promise<DirectiveAuthor | undefined> {
  if ((await ledger.meta.read('paused')) !== '1') return undefined;
  const last = await readDirectiveAuthor(ledger, 'system:', 'system.pause');
  // A restore and an import leave their ledger paused.
  return last ?? { actor: 'a restore or an import', at: null };
}

/** Reads who paused a target, if the last directive about it was that. */
export async function readDirectiveAuthor(
  ledger: Ledger,
  target: string,
  type: string,
): Promise<DirectiveAuthor | undefined> {
  const { rows } = await ledger.directives.page({ target, status: ['completed'], limit: 1 });
  const [last] = rows;
  return last?.type === type ? { actor: last.actor, at: last.completedAt } : undefined;
}
