import { fromTimestamp, type Timestamp } from '../../base/clock.ts';
import { isObject, parseStoredJson } from '../../base/json.ts';
import { limits } from '../../base/limits.ts';
import type { Check, CheckContext } from '../check.service.ts';
import { type Impact, type LiveFinding, formatAge, type FindingCategory } from '../finding.ts';

/** A part that an operator paused, disabled or suspended. */
interface PausedPart {
  readonly key: string;
  readonly category: FindingCategory;
  readonly impact?: Impact;
  /** A sentence that names the part and the effect. */
  readonly message: string;
  /** The actor. Undefined if it isn't recorded. */
  readonly by: string | undefined;
  readonly since: Timestamp | undefined;
  readonly command: string;
}

/** Finds parts that an operator paused, disabled or suspended, because that is easily forgotten. */
export const findPausedParts: Check = async (context) => {
  const found = await Promise.all([
    findPausedSystem(context),
    findPausedSchedules(context),
    findDisabledPlugins(context),
    findDisabledWebhooks(context),
    context.isRoot ? findSuspendedTenants(context) : [],
  ]);
  return found.flat().map((part) => describePart(part, context.now));
};

function describePart(part: PausedPart, now: Timestamp): LiveFinding {
  const { key, category, impact, message, by, since, command } = part;
  const ageMs = since === undefined ? Infinity : fromTimestamp(now) - fromTimestamp(since);
  const isLong = impact === 'everything' || ageMs >= limits.pausedWarningMs;
  const when = since === undefined ? '' : ` at ${since}, ${formatAge(since, now)} ago`;
  return {
    kind: 'paused',
    key,
    severity: isLong ? 'warning' : 'info',
    category,
    impact,
    message,
    evidence: `${by ?? 'no directive on record'}${when}`,
    fix: 'Resume it when the reason for the pause is gone.',
    commands: [command],
    since,
    detail: { by: by ?? null },
  };
}

async function findPausedSystem({ ledger }: CheckContext): Promise<PausedPart[]> {
  if ((await ledger.meta.read('paused')) !== '1') return [];
  const last = await findLastDirective(ledger, 'system:', 'system.pause');
  return [
    {
      key: 'system',
      category: 'service',
      impact: 'everything',
      message: 'The service is paused: no job starts.',
      // A restore and an import leave their ledger paused.
      by: last?.by ?? 'a restore or an import',
      since: last?.since,
      command: 'ductile system resume',
    },
  ];
}

async function findPausedSchedules({ ledger }: CheckContext): Promise<PausedPart[]> {
  const rows = await ledger.schedules.list({ status: ['paused'], limit: limits.findingGroupsMax });
  return await Promise.all(
    rows.map(async ({ plugin, scheduleId }): Promise<PausedPart> => {
      const last = await findLastDirective(
        ledger,
        `schedule:${plugin}/${scheduleId}`,
        'schedule.pause',
      );
      return {
        key: `schedule/${plugin}/${scheduleId}`,
        category: 'schedules',
        message: `The schedule ${plugin}/${scheduleId} is paused: it starts no jobs.`,
        by: last?.by,
        since: last?.since,
        command: `ductile schedule resume ${plugin} ${scheduleId}`,
      };
    }),
  );
}

async function findDisabledPlugins({ ledger }: CheckContext): Promise<PausedPart[]> {
  const rows = await ledger.plugins.listDisabled();
  return rows.map(({ plugin, changedBy, changedAt }) => ({
    key: `plugin/${plugin}`,
    category: 'plugins',
    message: `The plugin ${plugin} is disabled: its jobs wait.`,
    by: changedBy,
    since: changedAt,
    command: `ductile plugin enable ${plugin}`,
  }));
}

async function findDisabledWebhooks({ ledger }: CheckContext): Promise<PausedPart[]> {
  const rows = await ledger.webhooks.list();
  return rows.flatMap(({ id, settings, updatedBy, updatedAt }): PausedPart[] => {
    const stored = parseStoredJson(settings);
    if (!isObject(stored) || stored['enabled'] !== false) return [];
    return [
      {
        key: `webhook/${id}`,
        category: 'webhooks',
        message: `The webhook ${id} is disabled: it refuses deliveries.`,
        by: updatedBy,
        since: updatedAt,
        command: `ductile webhook edit ${id} --enabled`,
      },
    ];
  });
}

async function findSuspendedTenants({ ledger }: CheckContext): Promise<PausedPart[]> {
  const rows = await ledger.tenants.list();
  const suspended = rows.filter(({ status }) => status === 'suspended');
  return await Promise.all(
    suspended.slice(0, limits.findingGroupsMax).map(async ({ slug, updatedAt }) => {
      const last = await findLastDirective(ledger, `tenant:${slug}`, 'tenant.suspend');
      return {
        key: `tenant/${slug}`,
        category: 'tenants',
        message: `The tenant ${slug} is suspended: its work is neither accepted nor started.`,
        by: last?.by,
        since: last?.since ?? updatedAt,
        command: `ductile tenant resume ${slug}`,
      } satisfies PausedPart;
    }),
  );
}

/** Finds who paused a target, if the last directive about it was that. */
async function findLastDirective(
  ledger: CheckContext['ledger'],
  target: string,
  type: string,
): Promise<{ readonly by: string; readonly since: Timestamp | undefined } | undefined> {
  const { rows } = await ledger.directives.page({ target, status: ['completed'], limit: 1 });
  const [last] = rows;
  if (last?.type !== type) return undefined;
  return { by: last.actor, since: last.completedAt ?? undefined };
}
