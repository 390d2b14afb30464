import { messageOf } from '../base/errors.ts';
import { limits } from '../base/limits.ts';
import type { Log } from '../base/log.ts';
import { makeLoop, type Service } from '../base/service.ts';
import { prunable, type Ledger, type Prunable } from '../ledger/ledger.ts';
import type { Generation } from './generation.ts';
import { retentionOf } from './rules.ts';

/** Steps of one kind in one round; what is left waits for the next one. */
const STEPS_MAX = 20;

/** Deletes what is past its retention, in small steps, so that work is never kept waiting by it. */
export function makePruner(
  ledger: Ledger,
  current: () => Pick<Generation, 'config' | 'pipelines' | 'snapshotId'>,
  log: Log,
): Service {
  return makeLoop({
    name: 'pruner',
    everyMs: () => limits.pruneEveryMs,
    atOnce: true,
    async runOnce() {
      const { config, pipelines, snapshotId } = current();
      await ledger.touchSnapshot(snapshotId);
      await ledger.rememberDefinitions(pipelines.map(({ graph }) => graph));
      const retentionMs = retentionOf(config);
      for (const what of prunable) {
        const pruned = await pruneKind(ledger, what, retentionMs[what]);
        if (pruned > 0) log.debug('rows past their retention were deleted', { what, rows: pruned });
      }
    },
    onError: (error) => log.error('pruning failed', { error: messageOf(error) }),
  });
}

export async function pruneKind(
  ledger: Ledger,
  what: Prunable,
  olderThanMs: number,
): Promise<number> {
  let total = 0;
  for (let step = 0; step < STEPS_MAX; step += 1) {
    const gone = await ledger.prune({ what, olderThanMs, limit: limits.pruneRowsMax });
    total += gone;
    if (gone < limits.pruneRowsMax) break;
  }
  return total;
}
