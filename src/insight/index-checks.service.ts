import { setTimeout as sleep } from 'node:timers/promises';
import { messageOf } from '../base/errors.ts';
import { limits } from '../base/limits.ts';
import type { Log } from '../base/log.ts';
import type { LedgerSubset } from '../ledger/ledger.ts';

interface IndexSubject {
  /** The name of the ledger within this process. */
  readonly name: string;
  readonly ledger: LedgerSubset<'checkIndexes'>;
  readonly log: Log;
}

/**
 * Compares the indexes of all ledgers of a process with their tables: once after the start, then
 * daily. A comparison reads the whole ledger, so one runs at a time, with a pause after it. The
 * result is kept while a tenant's ledger is closed.
 */
export interface IndexChecks {
  /** Queues a comparison if one is due. Returns the last known damage, undefined before the first one. */
  read(subject: IndexSubject): readonly string[] | undefined;
}

interface IndexRecord {
  readonly dueAtMs: number;
  readonly damage: readonly string[] | undefined;
}

export function makeIndexChecks(
  clock: () => number = () => performance.now(),
  rest: (ms: number) => Promise<unknown> = (ms) => sleep(ms, undefined, { ref: false }),
): IndexChecks {
  const known = new Map<string, IndexRecord>();
  let last: Promise<unknown> = Promise.resolve();

  const compare = async ({ name, ledger, log }: IndexSubject): Promise<void> => {
    const sinceMs = clock();
    const before = known.get(name)?.damage;
    try {
      const { problems, skipped } = await ledger.checkIndexes();
      const damage = problems.slice(0, limits.indexProblemsMax);
      known.set(name, { dueAtMs: clock() + limits.indexCheckMs, damage });
      if (skipped !== null) log.info('indexes were not checked', { reason: skipped });
      if (damage.length > 0) log.error('the ledger is damaged', { damage });
    } catch (error) {
      // A tenant's ledger may have been closed before its turn came.
      known.set(name, { dueAtMs: clock() + limits.indexCheckRetryMs, damage: before });
      log.warn('indexes could not be checked', { error: messageOf(error) });
    }
    const tookMs = clock() - sinceMs;
    await rest(Math.min(limits.indexCheckRestMsMax, tookMs * limits.indexCheckRestFactor));
  };

  return {
    read(subject) {
      const record = known.get(subject.name);
      if (record !== undefined && clock() < record.dueAtMs) return record.damage;
      known.set(subject.name, { dueAtMs: Infinity, damage: record?.damage });
      last = last.then(() => compare(subject));
      return record?.damage;
    },
  };
}
