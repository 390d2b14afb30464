import type { Timestamp } from '../base/clock.ts';
import { limits } from '../base/limits.ts';
import type { LedgerSubset } from '../ledger/ledger.ts';

/** The type of the directive that acknowledges a finding. */
export const ACKNOWLEDGE = 'incident.acknowledge';

/** Reads when each finding was acknowledged last, by its id. The directives themselves are the record. */
export async function readAcknowledged(
  ledger: LedgerSubset<'directives.page'>,
): Promise<ReadonlyMap<string, Timestamp>> {
  const { rows } = await ledger.directives.page({
    type: ACKNOWLEDGE,
    status: ['completed'],
    limit: limits.acknowledgementsMax,
  });
  const newestLast = rows.toReversed().flatMap(({ target, completedAt }) => {
    const id = target.slice(target.indexOf(':') + 1);
    return completedAt === null ? [] : [[id, completedAt] as const];
  });
  return new Map(newestLast);
}
