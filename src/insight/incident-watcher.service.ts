import { messageOf } from '../base/errors.ts';
import { limits } from '../base/limits.ts';
import type { Log } from '../base/log.ts';
import { makeLoop, type Service } from '../base/service.ts';
import { fromTimestamp, toTimestamp, type Timestamp } from '../base/clock.ts';
import type { Closing } from '../ledger/commit.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { RunNews } from '../pipeline/run/types.ts';
import { findLiveFindings, readAcknowledged } from './checks.service.ts';
import type { Generation } from '../engine/generation.ts';
import { findCircleOf } from '../pipeline/check-routes.service.ts';
import { makeOutcomes } from './failure-streaks.service.ts';
import {
  findTroubles,
  isPartialLook,
  toMoves,
  type Standing,
  type Trouble,
} from './incident-rules.ts';
import { readKeyIds } from '../access/vault.service.ts';
import type { Vault } from '../access/vault.ts';

export interface WatchOptions {
  readonly ledger: Ledger;
  readonly current: () => Generation;
  /** What is of the whole machine is not told to tenants. */
  readonly isRoot: boolean;
  readonly isPaused: () => boolean;
  readonly isOff: (plugin: string) => boolean;
  readonly vault: Pick<Vault, 'keyIds'>;
  /** The damage that the last comparison of indexes found; undefined before the first one. */
  readonly lookAtIndexes: () => readonly string[] | undefined;
  readonly onNews: (news: RunNews) => void;
  readonly log: Log;
}

/** Keeps the incidents: what is wrong is opened once over all hosts, told, and closed when it is over. */
export interface Watch extends Service {
  /** Counts on from how jobs ended before, here and elsewhere. */
  recall(): Promise<void>;
  /** These attempts have ended, and it is on the ledger. */
  saw(closings: readonly Closing[]): void;
  soon(): void;
}

const OPEN = { isOpen: true, limit: limits.pageRowsMax };
const RULES = { ...limits.incident, ...limits.incidentWatch };

export function makeWatch(options: WatchOptions): Watch {
  const { ledger, current, log } = options;
  const rules = RULES;
  const outcomes = makeOutcomes(rules.streak);
  const loop = makeLoop({
    name: 'watch',
    everyMs: () => rules.everyMs,
    async runOnce() {
      const damage = options.lookAtIndexes();
      const open = await ledger.incidents.list(OPEN);
      const seen = outcomes.look(open);
      const acknowledged = await readAcknowledged(ledger);
      const isMine =
        ledger.kind === 'sqlite' || (await ledger.incidents.claimWatch(rules.everyMs / 2));
      const look = isMine ? await lookAround(options, damage ?? [], acknowledged) : undefined;
      const now = await ledger.now();
      const standing = look === undefined ? undefined : findTroubles(look, rules);
      const isPartial = look !== undefined && isPartialLook(look.findings);
      const isDamageKnown = damage !== undefined;
      const told = { ...seen, troubles: seen.troubles.map((one) => nameCircle(one, current())) };
      const looked = { now, open, seen: told, standing, isPartial, isDamageKnown, acknowledged };
      const moves = toMoves(looked, rules, current().rules);
      if (moves.opened.length + moves.renewed.length + moves.closed.length > 0) {
        const moved = await ledger.incidents.update(moves);
        options.onNews(moved.news);
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
function nameCircle(trouble: Trouble, { config, routes, catalog }: Generation): Trouble {
  if (trouble.kind !== 'hops_limit') return trouble;
  const circle = findCircleOf(trouble.key, config.routes, routes, catalog);
  if (circle === undefined) return trouble;
  // The command that removes a route stays with the finding of the circle: the incident outlives the repair, and
  // following it then would remove one more route.
  const { place, key, message } = circle;
  const evidence = `${key} ${message} (${place})`;
  return { ...trouble, detail: { ...trouble.detail, evidence, fix: BREAK_CIRCLE } };
}

async function lookAround(
  options: WatchOptions,
  damage: readonly string[],
  acknowledged: ReadonlyMap<string, Timestamp>,
): Promise<Standing> {
  const { ledger, current, isRoot, isPaused, isOff } = options;
  const { config, catalog, claimable } = current();
  const rules = RULES;
  const now = await ledger.now();
  const keyIds = readKeyIds(options.vault);
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
      isOff(plugin) ||
      catalog.unloaded.has(plugin) ||
      (queue.running.get(plugin) ?? 0) >= (most.get(plugin) ?? Infinity),
    isPaused: isPaused(),
    slots: processes.reduce((sum, { slots }) => sum + slots, 0),
    damage,
    findings,
  };
}

function tell(count: number, moment: 'opened' | 'closed', log: Log): void {
  if (count > 0) log.warn(`incidents ${moment}`, { count });
}
