import { makeId } from '../base/ids.ts';
import type { Log } from '../base/log.ts';
import type { Config } from '../config/config.ts';
import type { InstalledState } from '../config/installed.ts';
import { ONE_WORKER } from '../config/findings.ts';
import { makeUnlockedProblem } from '../config/integrity.ts';
import { describeProblem, type Problem } from '../config/problem.ts';
import type { ClaimablePlugin } from '../job/types.ts';
import type { Pipeline, Route } from '../pipeline/language/pipeline.ts';
import type { Catalog } from '../plugin/catalog.ts';
import { checkSchemas } from '../plugin/payload.ts';
import type { FollowRules } from '../pipeline/follow-event.ts';
import { makeFollowRules, toClaimable } from './rules.ts';

/** What is read from files, all of it at one time. */
export interface Blueprint {
  readonly config: Config;
  readonly catalog: Catalog;
  readonly routes: readonly Route[];
  readonly pipelines: readonly Pipeline[];
  /** What does not keep it from being used. */
  readonly warnings: readonly Problem[];
  /** What the files alone say, when installations bring more. */
  readonly base?: Config;
  readonly installed?: InstalledState;
  /** The environment of plugins, already reduced to what they may see. */
  readonly environment: Readonly<Record<string, string>>;
  /** Where the same is read again and again, and is the same; a new one otherwise. */
  readonly snapshotId?: string;
}

/**
 * What a process works with from one reload to the next. It never changes: an attempt keeps the one
 * that its claim was made under, and a reload puts another in its place.
 */
export interface Generation extends Blueprint {
  /** Counted from 1 in each process. */
  readonly number: number;
  /** The row of `config_snapshots` that tells what it was. */
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

/** Takes a moment, so nobody waits for it; what it compiles is needed soon anyway. */
export async function tellSchemas({ catalog }: Blueprint, log: Log): Promise<void> {
  const problems = await checkSchemas(catalog.plugins.values());
  for (const problem of problems) log.child('plugins').warn(describeProblem(problem));
}

export function tellFindings({ config, catalog, warnings }: Blueprint, parent: Log): void {
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
