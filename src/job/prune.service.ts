import { messageOf, DuctileError } from '../base/errors.ts';
import type { JsonObject } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import { formatDuration } from '../base/quantity.ts';
import { makeLoop, type Service } from '../base/service.ts';
import type { Config } from '../config/config.ts';
import type { DirectiveExecution, BoundDirective } from '../directive/define.service.ts';
import type { Directives } from '../directive/request.service.ts';
import type { LedgerContext } from '../engine/context.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { RUNTIME_SOURCE } from '../signal/signal.ts';
import {
  historyKinds,
  pruneType,
  retentionType,
  type HistoryKind,
  type PruneChoice,
} from './bulk.ts';
import { prunableKinds, type PrunableKind } from './types.ts';

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
    const request = { type: retentionType.type, params: {}, actor: RUNTIME_SOURCE };
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

export function pruneDirective(context: LedgerContext): BoundDirective<PruneChoice> {
  return {
    ...pruneType,
    plan: (choice) => planPrune(context, choice),
    execute: (choice, request) => pruneAll(context, choice, request),
  };
}

export function retentionDirective(context: LedgerContext): BoundDirective<object> {
  return {
    ...retentionType,
    plan: () => planPrune(context, {}),
    execute: (_, request) => pruneAll(context, {}, request),
  };
}

async function planPrune(
  { ledger, config }: LedgerContext,
  choice: PruneChoice,
): Promise<string[]> {
  const lines: string[] = [];
  for (const { what, olderThanMs } of agesOf(config, choice)) {
    const limit = limits.countRowsMax;
    const found = await ledger.history.countPrunable({ what, olderThanMs, limit });
    if (found === 0) continue;
    const rows = found === limit ? `At least ${found}` : `${found}`;
    lines.push(`${rows} of ${what} would be deleted, past ${formatDuration(olderThanMs)}.`);
  }
  return lines.length === 0 ? ['Nothing is that old; nothing would change.'] : lines;
}

/** Deletes everything that is old enough, in small steps, so that other writes never wait long. */
async function pruneAll(
  { ledger, config }: LedgerContext,
  choice: PruneChoice,
  { signal }: DirectiveExecution,
): Promise<JsonObject> {
  const rows: Record<string, number> = {};
  for (const { what, olderThanMs } of agesOf(config, choice)) {
    if (signal.aborted) throw new DuctileError('STOPPING', `stopped before ${what}`);
    const deleted = await pruneKind(ledger, what, olderThanMs, signal);
    if (deleted > 0) rows[what] = deleted;
  }
  return { rows };
}

function agesOf(
  config: Config,
  { what = historyKinds, older_than_ms: age }: PruneChoice,
): { readonly what: HistoryKind; readonly olderThanMs: number }[] {
  const retention = retentionOf(config);
  return what.map((kind) => ({ what: kind, olderThanMs: age ?? retention[kind] }));
}

/** Returns the age in milliseconds at which rows of each kind are deleted. */
function retentionOf({ service }: Config): Record<PrunableKind, number> {
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
