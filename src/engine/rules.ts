import type { FollowRules } from '../pipeline/follow-rules.ts';
import { limits } from '../base/limits.ts';
import type { Log } from '../base/log.ts';
import type { Config } from '../config/config.ts';
import type { ClaimablePlugin, PrunableKind } from '../job/types.ts';
import {
  matchRoutes,
  createPipelineMatcher,
  type Pipeline,
  type Route,
} from '../pipeline/language/pipeline.ts';
import type { Catalog, Plugin } from '../plugin/catalog.ts';
import type { CrashRules } from '../job/outcome.ts';

export interface ReaperRules {
  readonly reapAfterMs: number;
  readonly runnerGraceMs: number;
  /** Plugins of this process that did not load: their jobs wait until they are fixed. */
  readonly unloaded: readonly string[];
  readonly isLoaded: (plugin: string) => boolean;
  readonly crash: CrashRules;
  readonly follow: FollowRules;
}

export interface Sources {
  readonly config: Config;
  readonly catalog: Catalog;
  readonly routes: readonly Route[];
  readonly pipelines: readonly Pipeline[];
}

/** Creates the rules for what follows from signals and ends of jobs. */
export function makeFollowRules(
  { config, catalog, routes, pipelines }: Sources,
  log: Log,
): FollowRules {
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
      log.debug('no route and no pipeline wants the event', { type, source, job_id: jobId }),
  };
}

/**
 * A claim lasts as long as the attempt, its kill grace and some slack for a slow ledger. Limits
 * hold over all hosts: without a configured one, only the workers of each host limit a plugin.
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

export function reaperRulesOf({
  config: { service },
  catalog,
  rules,
}: {
  readonly config: Config;
  readonly catalog: Pick<Catalog, 'plugins' | 'unloaded'>;
  readonly rules: FollowRules;
}): ReaperRules {
  return {
    reapAfterMs: service.reapAfterMs,
    runnerGraceMs: service.runnerGraceMs,
    unloaded: [...catalog.unloaded.keys()],
    isLoaded: (plugin) => catalog.plugins.has(plugin),
    crash: { crashesMax: service.maxCrashes, suspectAfter: limits.suspectAfter },
    follow: rules,
  };
}

export function retentionOf({ service }: Config): Record<PrunableKind, number> {
  return {
    jobs: service.jobQueueRetentionMs,
    attempts: service.jobLogRetentionMs,
    signals: service.signalRetentionMs,
    facts: service.factRetentionMs,
    // Jobs refer to their context, so no context is unused while its jobs are there.
    contexts: Math.max(service.contextRetentionMs, service.jobQueueRetentionMs),
    // Counted from the last use, so that jobs never outlive their snapshot.
    snapshots: Math.max(service.jobQueueRetentionMs, service.jobLogRetentionMs),
    health: service.jobLogRetentionMs,
    schedules: service.jobLogRetentionMs,
    runs: service.jobQueueRetentionMs,
    definitions: service.jobQueueRetentionMs,
    deliveries: service.signalRetentionMs,
    incidents: service.signalRetentionMs,
    transitions: service.breakerTransitionsRetentionMs,
    // Each key has its own expiry.
    dedupe: 0,
    directives: limits.directiveRetentionMs,
    keys: limits.idempotencyRetentionMs,
    tokens: limits.tokenRetentionMs,
  };
}
