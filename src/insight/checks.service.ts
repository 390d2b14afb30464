import { DuctileError, messageOf } from '../base/errors.ts';
import { readAcknowledged, type Check, type CheckContext } from './check.service.ts';
import { findWaitingApprovals, findHeldKeys, findHaltedRuns } from './findings/runs.ts';
import {
  findOpenBreakers,
  findMissingVariables,
  findUnloadedPlugins,
  findFailedSetups,
  findUnloadedInService,
} from './findings/plugins.ts';
import { findMissingCredentials, findMissingKeys } from './findings/credentials.ts';
import { findFullDisk } from './findings/disk.ts';
import { findConfigDifference } from './findings/configuration.ts';
import { findCrashLoops, findDeadJobs, findOverlongJobs } from './findings/jobs.ts';
import { findOpenIncidents } from './findings/incidents.ts';
import { findUnmatchedInstallations } from './findings/installations.ts';
import { findPausedParts } from './findings/paused.ts';
import { findRefusedCalls, findSuppressedWork } from './findings/observations.ts';
import { findIdleSchedules } from './findings/schedules.ts';
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
  const complete = { ...context, acknowledged };
  const found = await Promise.all(checks.map((check) => runCheck(check, complete)));
  return rankFindings(found.flat());
}

/** Runs a check. If it fails, that is a finding itself, so that the findings of others aren't lost. */
async function runCheck(check: Check, context: CheckContext): Promise<LiveFinding[]> {
  try {
    return await check(context);
  } catch (error) {
    // Without its database no check can run. The caller reports that.
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
