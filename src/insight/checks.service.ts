import { DuctileError, messageOf } from '../base/errors.ts';
import type { CheckContext } from './define-finding.service.ts';
import { rankFindings, type LiveFinding } from './finding.ts';
import { allFindings, checkFailed, type ListedFinding } from './findings/all.ts';
import type { Timestamp } from '../base/clock.ts';
import { limits } from '../base/limits.ts';
import type { LedgerSubset } from '../ledger/ledger.ts';

/** Runs every check; the most urgent finding comes first. */
export async function findLiveFindings(context: CheckContext): Promise<LiveFinding[]> {
  const acknowledged = context.acknowledged ?? (await readAcknowledged(context.ledger));
  const complete = { ...context, acknowledged };
  const found = await Promise.all(allFindings.map((finding) => runCheck(finding, complete)));
  return rankFindings(found.flat());
}

/** Runs a check. If it fails, that is a finding itself, so that the findings of others aren't lost. */
async function runCheck(finding: ListedFinding, context: CheckContext): Promise<LiveFinding[]> {
  try {
    return await finding.check(context);
  } catch (error) {
    // Without its database no check can run. The caller reports that.
    if (error instanceof DuctileError && error.code === 'LEDGER_UNAVAILABLE') throw error;
    return [checkFailed.describe({ check: finding.kind, error: messageOf(error) })];
  }
}

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
