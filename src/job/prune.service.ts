import { messageOf } from '../base/errors.ts';
import { limits } from '../base/limits.ts';
import type { Log } from '../base/log.ts';
import { makeLoop, type Service } from '../base/service.ts';
import { history } from './directives.ts';
import { prunable, type Prunable } from './types.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { Generation } from '../engine/generation.ts';
import { retentionOf } from '../engine/rules.ts';

export interface PrunerOptions {
  readonly ledger: Ledger;
  readonly current: () => Pick<Generation, 'config' | 'pipelines' | 'snapshotId'>;
  /** Deletes history, on record. */
  readonly retain: () => Promise<void>;
  readonly log: Log;
}

/**
 * Deletes what is past its retention, with every tick. Once an hour the deletion of history is a
 * directive, so that it is on record without a directive each minute.
 */
export function makePruner({ ledger, current, retain, log }: PrunerOptions): Service {
  const over = new AbortController();
  let recordAt = -Infinity;
  const onError = (error: unknown): void => {
    if (!over.signal.aborted) log.error('pruning failed', { error: messageOf(error) });
  };
  const loop = makeLoop({
    name: 'pruner',
    everyMs: () => current().config.service.tickIntervalMs,
    atOnce: true,
    async runOnce() {
      const { config, pipelines, snapshotId } = current();
      await ledger.touchSnapshot(snapshotId);
      await ledger.rememberDefinitions(pipelines.map(({ graph }) => graph));
      const retentionMs = retentionOf(config);
      const isRecorded = performance.now() >= recordAt;
      for (const what of isRecorded ? unrecorded : prunable) {
        const pruned = await pruneKind(ledger, what, retentionMs[what], over.signal);
        if (pruned > 0) log.debug('rows past their time were deleted', { what, rows: pruned });
      }
      if (isRecorded) {
        recordAt = performance.now() + limits.retentionRecordMs;
        // It may take long, and is ended with the other directives when the engine stops.
        if (await isAnyOld(ledger, retentionMs)) void retain().catch(onError);
      }
      await ledger.notePruned();
    },
    onError,
  });
  return {
    ...loop,
    stop() {
      over.abort();
      return loop.stop();
    },
  };
}

/** Kinds that aren't history, such as expired keys: their deletion needs no record. */
const unrecorded = prunable.filter((what) => !history.some((kind) => kind === what));

async function isAnyOld(
  ledger: Ledger,
  retentionMs: Readonly<Record<Prunable, number>>,
): Promise<boolean> {
  for (const what of history) {
    const old = await ledger.countPrunable({ what, olderThanMs: retentionMs[what], limit: 1 });
    if (old > 0) return true;
  }
  return false;
}

export async function pruneKind(
  ledger: Ledger,
  what: Prunable,
  olderThanMs: number,
  signal?: AbortSignal,
): Promise<number> {
  let total = 0;
  for (;;) {
    const gone = await ledger.prune({ what, olderThanMs, limit: limits.pruneRowsMax });
    total += gone;
    if (gone < limits.pruneRowsMax || signal?.aborted === true) return total;
  }
}
