import { makeId } from '../base/ids.ts';
import { limits } from '../base/limits.ts';
import type { Log } from '../base/log.ts';
import type { Config } from '../config/config.ts';
import type { InstalledState } from '../config/installed.ts';
import { ONE_WORKER } from '../config/findings.ts';
import { makeUnlockedProblem } from '../config/integrity.ts';
import { describeProblem, type Problem } from '../config/problem.ts';
import type { ClaimablePlugin } from '../job/types.ts';
import {
  createPipelineMatcher,
  matchRoutes,
  type Pipeline,
  type Route,
} from '../pipeline/language/pipeline.ts';
import type { Catalog, Plugin } from '../plugin/catalog.ts';
import { checkSchemas } from '../plugin/payload.ts';
import type { FollowRules } from '../pipeline/follow-rules.ts';

/** The configuration, plugins, routes and pipelines, all read at one time. */
export interface Blueprint {
  readonly config: Config;
  readonly catalog: Catalog;
  readonly routes: readonly Route[];
  readonly pipelines: readonly Pipeline[];
  /** Problems that don't prevent its use. */
  readonly warnings: readonly Problem[];
  /** The configuration of the files alone, if installations extend it. */
  readonly base?: Config;
  readonly installed?: InstalledState;
  /** The environment of plugins, already reduced to what they may see. */
  readonly environment: Readonly<Record<string, string>>;
  /** Set if the same files are read again and again unchanged (default: a new id). */
  readonly snapshotId?: string;
}

/**
 * The blueprint that is active from one reload to the next, with the rules that follow from it. It never
 * changes: an attempt keeps the generation of its claim, and a reload replaces the active one.
 */
export interface Generation extends Blueprint {
  /** Counted from 1 in each process. */
  readonly number: number;
  /** The row of `config_snapshots` that describes it. */
  readonly snapshotId: string;
  readonly loadedAtMs: number;
  readonly rules: FollowRules;
  readonly claimable: readonly ClaimablePlugin[];
}

export function makeGeneration(blueprint: Blueprint, number: number, log: Log): Generation {
  const { config, catalog } = blueprint;
  const plugins = [...catalog.plugins.values()];
  return Object.freeze({
    ...blueprint,
    number,
    snapshotId: blueprint.snapshotId ?? makeId(),
    loadedAtMs: Date.now(),
    rules: makeFollowRules(blueprint, log.child('router')),
    claimable: plugins.map((plugin) => toClaimable(plugin, config)),
  });
}

/** Creates the rules for what follows from signals and ends of jobs. */
function makeFollowRules({ config, catalog, routes, pipelines }: Blueprint, log: Log): FollowRules {
  return {
    hopsMax: config.service.maxHops,
    dedupeTtlMs: config.service.dedupeTtlMs,
    notifying: new Set(
      Object.entries(config.plugins).flatMap(([name, { notifyOnComplete }]) =>
        notifyOnComplete ? [name] : [],
      ),
    ),
    targetsOf: (signal) =>
      matchRoutes(routes, signal).map(({ plugin, command }) => ({
        plugin,
        command,
        maxAttempts: catalog.plugins.get(plugin)?.retry.maxAttempts ?? limits.attemptsMax,
      })),
    startsOf: createPipelineMatcher(pipelines, log),
    onUnmatched: ({ type, source, jobId }) =>
      log.debug('no route and no pipeline handles the event', { type, source, job_id: jobId }),
  };
}

/**
 * Describes a plugin for claims. A claim lasts as long as the attempt, its kill grace and some slack for a
 * slow ledger. Limits hold over all hosts: without a configured one, only the workers of each host limit a
 * plugin.
 */
export function toClaimable(plugin: Plugin, { plugins }: Config): ClaimablePlugin {
  const isOpen = plugin.manifest.concurrencySafe && plugins[plugin.name]?.parallelism === undefined;
  const leaseSlackMs = limits.killGraceMs + limits.drainMs + limits.claimSlackMs;
  const lease = (command: string): number => plugin.timeoutMs(command) + leaseSlackMs;
  const commands = Object.keys(plugin.manifest.commands);
  return {
    name: plugin.name,
    parallelism: isOpen ? Infinity : plugin.parallelism,
    leaseMs: Object.fromEntries(commands.map((command) => [command, lease(command)])),
    leaseDefaultMs: lease(''),
    leaseSlackMs,
  };
}

/**
 * Logs schemas that don't compile. It takes a moment, so the caller doesn't wait; the compiled
 * schemas are needed soon anyway.
 */
export async function logSchemaProblems({ catalog }: Blueprint, log: Log): Promise<void> {
  const problems = await checkSchemas(catalog.plugins.values());
  for (const problem of problems) log.child('plugins').warn(describeProblem(problem));
}

/** Logs the problems of a blueprint that don't prevent its use. */
export function logFindings({ config, catalog, warnings }: Blueprint, parent: Log): void {
  const log = parent.child('plugins');
  if (!config.isLocked)
    parent.child('config').warn(describeProblem(makeUnlockedProblem(config.directory)));
  if (config.service.maxWorkers === 1) parent.child('config').warn(ONE_WORKER);
  for (const problem of catalog.problems) {
    const wait = catalog.unloaded.has(problem.plugin) ? '; its jobs wait until it loads' : '';
    log.error(`plugin not loaded${wait}: ${describeProblem(problem)}`, { plugin: problem.plugin });
  }
  for (const [plugin, keys] of catalog.dormant) {
    log.debug('plugin not set up', { plugin, needs: keys.join(', ') });
  }
  for (const warning of warnings) log.warn(describeProblem(warning));
}
