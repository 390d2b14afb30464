import {
  defineFinding,
  type FindingDefinition,
  type FindingGuide,
} from '../define-finding.service.ts';
import { configChanged, lockHeld } from './configuration.ts';
import { credentialKeyMissing, credentialMissing, payloadKeyMissing } from './credentials.ts';
import { diskFull } from './disk.ts';
import { installationUnmatched, packageInactive, tenantClosed } from './installations.ts';
import { crashLoop, jobDead, jobOverlong } from './jobs.ts';
import { callRefused, workSuppressed } from './observations.ts';
import {
  failureStreak,
  hopsLimit,
  ledgerDamaged,
  poisonJob,
  queueStalled,
  scheduleOverdue,
} from './observed.ts';
import { partPaused } from './paused.ts';
import { breakerOpen, pluginNotLoaded, pluginNotReloaded, pluginNotSetUp } from './plugins.ts';
import { approvalWaiting, keyHeld, runHalted } from './runs.ts';
import { scheduleAlwaysSkipped, scheduleNeverFires, scheduleRedefined } from './schedules.ts';
import { pluginEnvMissing } from './variables.ts';
import { webhookFault, webhookStranded } from './webhooks.ts';

/** A check that could not run. The incident watcher closes nothing while there is one. */
export const checkFailed = defineFinding<{ readonly check: string; readonly error: string }>({
  kind: 'check_failed',
  condition: 'A check of doctor could not run, so its findings are unknown.',
  rank: { severity: 'warning', category: 'service' },
  fix: 'Run doctor again. If it persists, report it with this message.',
  command: 'ductile doctor',
  describe: ({ check, error }) => ({
    key: check,
    message: `The check ${check} could not run, so its findings are unknown.`,
    evidence: error,
    commands: ['ductile doctor'],
  }),
});

/** A definition, without the type of its evidence. */
export type ListedFinding = Omit<FindingDefinition<never>, 'describe'>;

/**
 * Every finding. Add a definition here, and `doctor`, `why`, incidents, the dashboard and the
 * reference page have it. The API lists incident kinds in this order, so add new ones at the end.
 */
export const allFindings: readonly ListedFinding[] = [
  failureStreak,
  scheduleOverdue,
  queueStalled,
  poisonJob,
  hopsLimit,
  ledgerDamaged,
  breakerOpen,
  pluginNotLoaded,
  pluginNotSetUp,
  runHalted,
  diskFull,
  approvalWaiting,
  jobDead,
  credentialKeyMissing,
  credentialMissing,
  crashLoop,
  jobOverlong,
  workSuppressed,
  pluginEnvMissing,
  pluginNotReloaded,
  payloadKeyMissing,
  keyHeld,
  scheduleNeverFires,
  scheduleAlwaysSkipped,
  callRefused,
  installationUnmatched,
  configChanged,
  lockHeld,
  partPaused,
  webhookFault,
  webhookStranded,
  packageInactive,
  tenantClosed,
  scheduleRedefined,
  checkFailed,
];

const byKind = new Map(allFindings.map((finding) => [finding.kind, finding]));

/** Finds the definition of a kind. */
export function findDefinition(kind: string): FindingGuide | undefined {
  return byKind.get(kind);
}

const listKinds = (isWanted: (finding: FindingGuide) => boolean): readonly string[] =>
  allFindings.filter(isWanted).map(({ kind }) => kind);

/** Kinds that open an incident. */
export const incidentKinds = listKinds(({ incident }) => incident !== undefined);

/** Kinds that an operator can acknowledge. */
export const acknowledgeableKinds = listKinds(
  ({ isAcknowledgeable }) => isAcknowledgeable === true,
);
