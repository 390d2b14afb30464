import { messageOf } from '../base/errors.ts';
import { limits } from '../base/limits.ts';
import type { Log } from '../base/log.ts';
import { makeLoop, type Service } from '../base/service.ts';
import { fromTimestamp, toTimestamp, type Timestamp } from '../base/clock.ts';
import type { Closing } from '../ledger/commit.ts';
import { findLiveFindings, readAcknowledged } from './checks.service.ts';
import type { Generation } from '../engine/generation.ts';
import { findCycleOf } from '../pipeline/check-routes.service.ts';
import { makeOutcomes } from './failure-streaks.service.ts';
import {
  findTroubles,
  hasFailedCheck,
  planIncidentMoves,
  type WatchedState,
  type IncidentTrouble,
} from './incident-rules.ts';
import { readKeyIds } from '../access/vault.service.ts';
import type { LedgerContext } from '../engine/context.ts';
import type { Pause, PluginSwitches } from '../job/pause.service.ts';
import type { IndexChecks } from './index-checks.service.ts';

/** Keeps the incidents: what is wrong is opened once over all hosts, told, and closed when it is over. */
export interface IncidentWatcher extends Service {
  /** Counts on from how jobs ended before, here and elsewhere. */
  recall(): Promise<void>;
  /** These attempts have ended, and it is on the ledger. */
  saw(closings: readonly Closing[]): void;
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
  const outcomes = makeOutcomes(rules.streak);
  const loop = makeLoop({
    name: 'watch',
    everyMs: () => rules.everyMs,
    async runOnce() {
      const damage = indexChecks.look({ name: tenant?.slug ?? '', ledger, log: context.log });
      const open = await ledger.incidents.list(OPEN);
      const seen = outcomes.look(open);
      const acknowledged = await readAcknowledged(ledger);
      const isMine =
        ledger.kind === 'sqlite' || (await ledger.incidents.claimWatch(rules.everyMs / 2));
      const look = isMine
        ? await lookAround(context, { pause, switches }, damage ?? [], acknowledged)
        : undefined;
      const now = await ledger.now();
      const lasting = look === undefined ? undefined : findTroubles(look, rules);
      const isPartial = look !== undefined && hasFailedCheck(look.findings);
      const isDamageKnown = damage !== undefined;
      const told = {
        ...seen,
        troubles: seen.troubles.map((one) => nameCircle(one, context.generation)),
      };
      const looked = { now, open, seen: told, lasting, isPartial, isDamageKnown, acknowledged };
      const moves = planIncidentMoves(looked, rules, context.generation.rules);
      if (moves.opened.length + moves.renewed.length + moves.closed.length > 0) {
        const moved = await ledger.incidents.update(moves);
        commits.publish(moved.news);
        tell(moved.opened.length, 'opened', log);
        tell(moved.closed.length, 'closed', log);
      }
      outcomes.told(seen);
    },
    onError: (error) => log.warn('incidents could not be looked at', { error: messageOf(error) }),
  });
  return {
    ...loop,
    async recall() {
      const [ends, open] = await Promise.all([
        ledger.jobs.listLastEnds(limits.pageRowsMax),
        ledger.incidents.list(OPEN),
      ]);
      outcomes.recall(ends, open);
    },
    saw(closings) {
      if (outcomes.note(closings)) loop.soon();
    },
  };
}

const BREAK_CIRCLE =
  'Break the circle of routes that the evidence names, as its own finding says. Then acknowledge this one.';

/** Adds the circle of routes to the incident of a chain that became too long. */
function nameCircle(
  trouble: IncidentTrouble,
  { config, routes, catalog }: Generation,
): IncidentTrouble {
  if (trouble.kind !== 'hops_limit') return trouble;
  const circle = findCycleOf(trouble.key, config.routes, routes, catalog);
  if (circle === undefined) return trouble;
  // The command that removes a route stays with the finding of the circle: the incident outlives the repair, and
  // following it then would remove one more route.
  const { place, key, message } = circle;
  const evidence = `${key} ${message} (${place})`;
  return { ...trouble, detail: { ...trouble.detail, evidence, fix: BREAK_CIRCLE } };
}

async function lookAround(
  { ledger, vault, tenant, generation }: LedgerContext,
  {
    pause,
    switches,
  }: { readonly pause: Pick<Pause, 'isOn'>; readonly switches: Pick<PluginSwitches, 'isDisabled'> },
  damage: readonly string[],
  acknowledged: ReadonlyMap<string, Timestamp>,
): Promise<WatchedState> {
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
  const cut = toTimestamp(fromTimestamp(queue.now) - rules.overdueMs);
  const { due } = await ledger.schedules.listDue({ now: cut, limit: limits.pageRowsMax });
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

function tell(count: number, moment: 'opened' | 'closed', log: Log): void {
  if (count > 0) log.warn(`incidents ${moment}`, { count });
}
