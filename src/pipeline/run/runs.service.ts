import type { JsonObject } from '../../base/json.ts';
import type { Log } from '../../base/log.ts';
import type { Enqueued } from '../../job/types.ts';
import type { Ledger } from '../../ledger/ledger.ts';
import type { RunNews, FollowHalt } from './types.ts';
import { parseJson } from '../../base/parse-json.ts';
import type { SignalDraft } from '../../signal/signal.ts';
import { makeAdvancer, type Advancer } from './advancer.service.ts';
import { makeSignalDoor, type SignalDoor } from '../../signal/emit.service.ts';
import type { FollowRules } from '../follow-event.ts';
import { followRuntime } from '../follow-signal.ts';
import type { Generation } from '../../engine/generation.ts';
import { makeHookDoor } from '../../webhook/accept.service.ts';
import type { Quota } from '../../tenant/admission.ts';
import type { WebhookIntake } from '../../webhook/webhooks.ts';
import { makeRunDoor, type RunDoor } from './start.service.ts';
import { purposes } from '../../access/vault.service.ts';
import type { Vault } from '../../access/vault.ts';
import { logDuplicateRuns } from '../../job/settle.service.ts';

export interface RunKeeperOptions {
  /** Runs have come to their end, and it is on the ledger. */
  readonly onEnded: (runIds: readonly string[]) => void;
  readonly ledger: Ledger;
  readonly processId: string;
  readonly current: () => Generation;
  /** Jobs were queued; those that were asked for here, or none of those. */
  readonly onQueued: (enqueued: readonly Enqueued[]) => void;
  /** A job was accepted that is due in this time. */
  readonly onDelayed: (ms: number) => void;
  /** Throws while nothing is accepted. */
  readonly admit: () => void;
  readonly onEmitted: (signals: readonly SignalDraft[]) => void;
  readonly vault: Vault;
  readonly quota: Quota;
  readonly log: Log;
}

/** The part of an engine that is about runs of pipelines, and about the signals that start them. */
export interface RunKeeper {
  readonly door: RunDoor;
  readonly signals: SignalDoor;
  readonly advancer: Advancer;
  /** Where what strangers deliver comes in, once it is verified. */
  readonly hooks: WebhookIntake;
  /** Tells everybody whom it concerns what a transaction did to runs. */
  heed(news: RunNews): void;
}

export function makeRunKeeper(options: RunKeeperOptions): RunKeeper {
  const { ledger, processId, current, onQueued, log } = options;
  const follow = makeFollowHalt(() => current().rules);
  ledger.followHalts(follow, follow);
  ledger.openSignals((id, sealed) => options.vault.open(sealed, purposes.payload(id)));
  const heed = (news: RunNews): void => {
    const { advancing, queued, dueInMs, failures = [], dropped = [], ended = [] } = news;
    if (ended.length > 0) options.onEnded(ended);
    logDuplicateRuns(dropped, log);
    for (const { branchId, error } of failures) {
      const fields = { branch_id: branchId, error };
      log.error('a branch could not be moved on where its job was settled', fields);
    }
    if (queued) onQueued([]);
    if (advancing) advancer.soon();
    if (dueInMs !== undefined) advancer.dueIn(dueInMs);
  };
  const advancer = makeAdvancer({
    ledger,
    processId,
    pollMs: () => current().config.service.pollIntervalMs,
    onNews: heed,
    log: log.child('advancer'),
  });
  const door = makeRunDoor({
    ledger,
    pipelines: () => current().pipelines,
    catalog: () => current().catalog,
    dedupeTtlMs: () => current().config.service.dedupeTtlMs,
    onNews: heed,
    onEnqueued: onQueued,
    onDelayed: options.onDelayed,
  });
  const signals = makeSignalDoor({
    ledger,
    rules: () => current().rules,
    catalog: () => current().catalog,
    admit: options.admit,
    onEmitted: options.onEmitted,
    onNews: heed,
  });
  const hooks = makeHookDoor({ ...options, onNews: heed, log: log.child('webhooks') });
  return { door, signals, advancer, hooks, heed };
}

/**
 * Drafts what starts when a run halts or begins to wait for a person. The signal of a run that
 * descends from one of Ductile's own signals is recorded and starts nothing: no alarms about alarms.
 */
function makeFollowHalt(rules: () => FollowRules): FollowHalt {
  return ({ run, signal, parentJobId, context }) => {
    const current = rules();
    if (run.runtimeCaused || signal.hops > current.hopsMax) return { jobs: [], runs: [] };
    const payload = parseJson(signal.data) as JsonObject;
    const followed = followRuntime(signal, { payload, context }, current, Date.now(), {
      rootJobId: run.rootJobId,
      ...(parentJobId === null ? {} : { parentJobId }),
      ...(run.eventContextId === null ? {} : { eventContextId: run.eventContextId }),
    });
    if (followed.jobs.length + followed.runs.length === 0) current.onUnmatched?.(signal);
    return followed;
  };
}
