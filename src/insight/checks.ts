import type { Check, CheckContext } from './check.ts';
import { findHaltedRuns } from './checks/runs.ts';
import { rankFindings, type LiveFinding } from './finding.ts';

/** Every check of a ledger. Add a check here, and `doctor`, incidents and the dashboard have it. */
const checks: readonly Check[] = [findHaltedRuns];

/** Runs every check; the most urgent finding comes first. */
export async function findLiveFindings(context: CheckContext): Promise<LiveFinding[]> {
  const found = await Promise.all(checks.map((check) => check(context)));
  return rankFindings(found.flat());
}
