import { messageOf } from '../base/errors.ts';
import { limits } from '../base/limits.ts';
import { makeLoop, type Service } from '../base/service.ts';
import type { Config } from '../config/config.ts';
import type { Directives } from '../directive/request.service.ts';
import type { LedgerContext } from '../engine/context.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { RUNTIME_SOURCE } from '../signal/signal.ts';
import { historyKinds } from './bulk.ts';
import { prunableKinds, type PrunableKind } from './types.ts';

/** The directive of Ductile's own pruning, by the configuration alone. */
export const RETENTION = 'system.retention';

/**
 * Deletes rows that are past their retention, with every tick. Once an hour a directive deletes the
 * history, so that the deletion is on record without a directive each minute.
 */
export function makePruner(
  context: LedgerContext,
  directives: Pick<Directives, 'direct'>,
): Service {
  const { ledger } = context;
  const log = context.log.child('pruner');
  const stopping = new AbortController();
  let recordAt = -Infinity;
  const onError = (error: unknown): void => {
    if (!stopping.signal.aborted) log.error('pruning failed', { error: messageOf(error) });
  };
  const requestRetention = async (): Promise<void> => {
    const request = { type: RETENTION, params: {}, actor: RUNTIME_SOURCE };
    const { error } = await directives.direct(request);
    if (error !== null) context.log.child('engine').warn('history was not pruned', { error });
  };
  const loop = makeLoop({
    name: 'pruner',
    everyMs: () => context.config.service.tickIntervalMs,
    atOnce: true,
    async runOnce() {
      const { config, pipelines, snapshotId } = context.generation;
      await ledger.snapshots.touch(snapshotId);
      await ledger.runs.saveDefinitions(pipelines.map(({ graph }) => graph));
      const retentionMs = retentionOf(config);
      const isRecorded = performance.now() >= recordAt;
      for (const what of isRecorded ? unrecorded : prunableKinds) {
        const pruned = await pruneKind(ledger, what, retentionMs[what], stopping.signal);
        if (pruned > 0) log.debug('rows past their retention were deleted', { what, rows: pruned });
      }
      if (isRecorded) {
        recordAt = performance.now() + limits.retentionRecordMs;
        // It may take long. When the service stops, it ends with the other directives.
        if (await isAnyOld(ledger, retentionMs)) void requestRetention().catch(onError);
      }
      await ledger.history.recordPruned();
    },
    onError,
  });
  return {
    ...loop,
    stop() {
      stopping.abort();
      return loop.stop();
    },
  };
}

/** Kinds that aren't history, such as expired keys: their deletion needs no record. */
const unrecorded = prunableKinds.filter((what) => !historyKinds.some((kind) => kind === what));

async function isAnyOld(
  ledger: Ledger,
  retentionMs: Readonly<Record<PrunableKind, number>>,
): Promise<boolean> {
  for (const what of historyKinds) {
    const old = await ledger.history.countPrunable({
      what,
      olderThanMs: retentionMs[what],
      limit: 1,
    });
    if (old > 0) return true;
  }
  return false;
}

/** Deletes all old rows of one kind, batch by batch. Returns how many. */
export async function pruneKind(
  ledger: Ledger,
  what: PrunableKind,
  olderThanMs: number,
  signal?: AbortSignal,
): Promise<number> {
  let total = 0;
  for (;;) {
    const deleted = await ledger.history.prune({ what, olderThanMs, limit: limits.pruneRowsMax });
    total += deleted;
    if (deleted < limits.pruneRowsMax || signal?.aborted === true) return total;
  }
}

/** Returns the age in milliseconds at which rows of each kind are deleted. */
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
