import { messageOf } from '../base/errors.ts';
import { limits } from '../base/limits.ts';
import type { Log } from '../base/log.ts';
import { makeLoop, type Service } from '../base/service.ts';
import { fromTimestamp, toTimestamp, type Timestamp } from '../base/clock.ts';
import type { Closing } from '../ledger/commit.ts';
import { readAcknowledged, findLiveFindings } from './checks.service.ts';
import { hopsLimit } from './findings/observed.ts';
import type { IncidentDraft } from './types.ts';
import type { Generation } from '../engine/generation.ts';
import { findCycleOf } from '../pipeline/check-routes.service.ts';
import { makeFailureStreaks } from './failure-streaks.service.ts';
import {
  findLastingIncidents,
  hasFailedCheck,
  planIncidentChanges,
  type IncidentReview,
  type ServiceState,
} from './incident-rules.service.ts';
import { readKeyIds } from '../access/vault.service.ts';
import type { LedgerContext } from '../engine/context.ts';
import type { Pause, PluginSwitches } from '../job/pause.service.ts';
import type { IndexChecks } from './index-checks.service.ts';

/** Opens an incident for each problem, once for all hosts, and closes it when the problem is over. */
export interface IncidentWatcher extends Service {
  /** Restores the streaks of failures from earlier jobs of all hosts. */
  restore(): Promise<void>;
  /** Counts ended attempts, after their commit. */
  observe(closings: readonly Closing[]): void;
  soon(): void;
}

const OPEN = { isOpen: true, limit: limits.pageRowsMax };
const RULES = { ...limits.incident, ...limits.incidentWatch };

export function makeIncidentWatcher(
  context: LedgerContext,
  pause: Pick<Pause, 'isOn'>,
  switches: Pick<PluginSwitches, 'isDisabled'>,
  indexChecks: IndexChecks,
): IncidentWatcher {
  const { ledger, commits, tenant } = context;
  const log = context.log.child('watch');
  const rules = RULES;
  const streaks = makeFailureStreaks(rules.streak);
  const loop = makeLoop({
    name: 'watch',
    everyMs: () => rules.everyMs,
    async runOnce() {
      const damage = indexChecks.read({ name: tenant?.slug ?? '', ledger, log: context.log });
      const open = await ledger.incidents.list(OPEN);
      const report = streaks.report(open);
      const acknowledged = await readAcknowledged(ledger);
      const isReviewer =
        ledger.kind === 'sqlite' || (await ledger.incidents.claimWatch(rules.everyMs / 2));
      const state = isReviewer
        ? await readState(context, { pause, switches }, damage ?? [], acknowledged)
        : undefined;
      const review: IncidentReview = {
        now: await ledger.now(),
        open,
        attempts: {
          ...report,
          drafts: report.drafts.map((draft) => addCircle(draft, context.generation)),
        },
        lasting: state === undefined ? undefined : findLastingIncidents(state, rules),
        isPartial: state !== undefined && hasFailedCheck(state.findings),
        isDamageKnown: damage !== undefined,
        acknowledged,
      };
      const changes = planIncidentChanges(review, rules, context.generation.rules);
      if (changes.opened.length + changes.renewed.length + changes.closed.length > 0) {
        const result = await ledger.incidents.update(changes);
        commits.publish(result.events);
        logCount(result.opened.length, 'opened', log);
        logCount(result.closed.length, 'closed', log);
      }
      streaks.markRecorded(report);
    },
    onError: (error) => log.warn('incidents could not be reviewed', { error: messageOf(error) }),
  });
  return {
    ...loop,
    async restore() {
      const [ends, open] = await Promise.all([
        ledger.jobs.listLastEnds(limits.pageRowsMax),
        ledger.incidents.list(OPEN),
      ]);
      streaks.restore(ends, open);
    },
    observe(closings) {
      if (streaks.count(closings)) loop.soon();
    },
  };
}

const BREAK_CIRCLE =
  'Break the loop of routes in the evidence. The finding of the loop has the command. ' +
  'Then acknowledge this one.';

/** Adds the circle of routes to the incident of a chain that became too long. */
function addCircle(draft: IncidentDraft, { config, routes, catalog }: Generation): IncidentDraft {
  if (draft.kind !== hopsLimit.kind) return draft;
  const circle = findCycleOf(draft.key, config.routes, routes, catalog);
  if (circle === undefined) return draft;
  // Only the finding of the circle has the command that removes a route. The incident stays open after
  // the repair, and following the command then would remove another route.
  const { place, key, message } = circle;
  const evidence = `${key} ${message} (${place})`;
  return { ...draft, detail: { ...draft.detail, evidence, fix: BREAK_CIRCLE } };
}

async function readState(
  { ledger, vault, tenant, generation }: LedgerContext,
  {
    pause,
    switches,
  }: { readonly pause: Pick<Pause, 'isOn'>; readonly switches: Pick<PluginSwitches, 'isDisabled'> },
  damage: readonly string[],
  acknowledged: ReadonlyMap<string, Timestamp>,
): Promise<ServiceState> {
  const { config, catalog, claimable } = generation;
  // Findings about the whole machine are not for tenants.
  const isRoot = tenant === undefined;
  const rules = RULES;
  const now = await ledger.now();
  const keyIds = readKeyIds(vault);
  const [queue, processes, findings] = await Promise.all([
    ledger.jobs.readQueueHeads(rules.stalledMs),
    ledger.processes.list(),
    findLiveFindings({ ledger, config, catalog, now, keyIds, isRoot, acknowledged }),
  ]);
  const latest = toTimestamp(fromTimestamp(queue.now) - rules.overdueMs);
  const { due } = await ledger.schedules.listDue({ now: latest, limit: limits.pageRowsMax });
  const most = new Map(claimable.map(({ name, parallelism }) => [name, parallelism]));
  return {
    overdue: due,
    queue,
    isHeld: (plugin) =>
      switches.isDisabled(plugin) ||
      catalog.unloaded.has(plugin) ||
      (queue.running.get(plugin) ?? 0) >= (most.get(plugin) ?? Infinity),
    isPaused: pause.isOn,
    slots: processes.reduce((sum, { slots }) => sum + slots, 0),
    damage,
    findings,
  };
}

function logCount(count: number, moment: 'opened' | 'closed', log: Log): void {
  if (count > 0) log.warn(`incidents ${moment}`, { count });
}
