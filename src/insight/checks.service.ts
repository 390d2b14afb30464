import { DuctileError, messageOf } from '../base/errors.ts';
import { limits } from '../base/limits.ts';
import type { Timestamp } from '../base/clock.ts';
import { acknowledgeType } from './acknowledge.service.ts';
import type { LedgerSubset } from '../ledger/ledger.ts';
import type { Check, CheckContext } from './check.service.ts';
import { findWaitingApprovals, findHeldKeys, findHaltedRuns } from './checks/runs.ts';
import {
  findOpenBreakers,
  findMissingVariables,
  findUnloadedPlugins,
  findFailedSetups,
  findUnloadedInService,
} from './checks/plugins.ts';
import { findMissingCredentials, findMissingKeys } from './checks/credentials.ts';
import { findFullDisk } from './checks/disk.ts';
import { findConfigDifference } from './checks/configuration.ts';
import { findCrashLoops, findDeadJobs, findOverlongJobs } from './checks/jobs.ts';
import { findOpenIncidents } from './checks/incidents.ts';
import { findUnmatchedInstallations } from './checks/installations.ts';
import { findPausedParts } from './checks/paused.ts';
import { findRefusedCalls, findSuppressedWork } from './checks/observations.ts';
import { findIdleSchedules } from './checks/schedules.ts';
import { CHECK_FAILED, rankFindings, type LiveFinding } from './finding.ts';

/** Every check of a ledger. Add a check here, and `doctor`, incidents and the dashboard have it. */
const checks: readonly Check[] = [
  findDeadJobs,
  findFailedSetups,
  findUnloadedInService,
  findHaltedRuns,
  findMissingCredentials,
  findMissingKeys,
  findOpenBreakers,
  findFullDisk,
  findOpenIncidents,
  findCrashLoops,
  findOverlongJobs,
  findHeldKeys,
  findIdleSchedules,
  findSuppressedWork,
  findRefusedCalls,
  findMissingVariables,
  findUnmatchedInstallations,
  findConfigDifference,
  findPausedParts,
  findUnloadedPlugins,
  findWaitingApprovals,
];

/** Runs every check; the most urgent finding comes first. */
export async function findLiveFindings(context: CheckContext): Promise<LiveFinding[]> {
  const acknowledged = context.acknowledged ?? (await readAcknowledged(context.ledger));
  const given = { ...context, acknowledged };
  const found = await Promise.all(checks.map((check) => runCheck(check, given)));
  return rankFindings(found.flat());
}

/** A check that fails is a finding itself, so that it doesn't hide the findings of the others. */
async function runCheck(check: Check, context: CheckContext): Promise<LiveFinding[]> {
  try {
    return await check(context);
  } catch (error) {
    // Without its database nothing can be found out, which is for the caller to report.
    if (error instanceof DuctileError && error.code === 'LEDGER_UNAVAILABLE') throw error;
    return [
      {
        kind: CHECK_FAILED,
        key: check.name,
        severity: 'warning',
        category: 'service',
        message: `The check ${check.name} could not run, so its findings are unknown.`,
        evidence: messageOf(error),
        fix: 'Run doctor again. If it persists, report it with this message.',
        commands: ['ductile doctor'],
      },
    ];
  }
}

/** Reads when each finding was acknowledged last, by its id. The directives themselves are the record. */
export async function readAcknowledged(
  ledger: LedgerSubset<'directives.page'>,
): Promise<ReadonlyMap<string, Timestamp>> {
  const { rows } = await ledger.directives.page({
    type: acknowledgeType.type,
    status: ['completed'],
    limit: limits.acknowledgementsMax,
  });
  const newestLast = rows.toReversed().flatMap(({ target, completedAt }) => {
    const id = target.slice(target.indexOf(':') + 1);
    return completedAt === null ? [] : [[id, completedAt] as const];
  });
  return new Map(newestLast);
}
