import {
  countSeals,
  findCredential,
  findSealedPayloads,
  listCredentials,
  listSealedRows,
  recordCredentialUse,
  updateSeals,
} from '../access/credential.sql.ts';
import {
  claimTokenNames,
  describeTakenName,
  listTokenOrigins,
  listTokens,
  recordTokenUse,
} from '../access/token.sql.ts';
import {
  findSnapshot,
  listSnapshots,
  listUnmasked,
  maskSnapshots,
  recordSnapshot,
  touchSnapshot,
} from '../config/snapshot.sql.ts';
import {
  approveDirective,
  cancelDirective,
  closeDirective,
  listDueDirectives,
  releaseDirective,
} from '../directive/lifecycle.sql.ts';
import { findDirective, listDirectives, readDirectivePage } from '../directive/directive.sql.ts';
import type { Directive } from '../directive/directive.ts';
import {
  listDeadJobs,
  listHaltedRuns,
  listOpenQuestions,
  listSealKeyIds,
} from '../insight/finding.sql.ts';
import {
  findIncident,
  listIncidents,
  updateIncidents,
  readQueueHeads,
  listLastEnds,
  claimIncidentWatch,
} from '../insight/incident.sql.ts';
import { listObservations, recordObservations } from '../insight/observation.sql.ts';
import {
  readAttemptStatistics,
  readDirectiveStatistics,
  readQueueStatistics,
} from '../insight/statistics.sql.ts';
import { readAttemptPage, listAttempts } from '../job/attempt-list.sql.ts';
import { cancelJob, cancelJobs, retryJobs } from '../job/bulk.sql.ts';
import { claimJobs } from '../job/claim.sql.ts';
import { findDependencyHolder } from '../job/dependency.sql.ts';
import { countJobPage, readJobPage } from '../job/job-page.sql.ts';
import { countJobs, findJob, listJobs } from '../job/job.sql.ts';
import {
  countQueue,
  promoteDueJobs,
  listRunDurations,
  readQueuePosition,
} from '../job/queue.sql.ts';
import { listHealth, recordHealth, requireInits, reviewHealth } from '../job/plugin-init.sql.ts';
import { listDisabledPlugins, listFacts, readState } from '../job/plugin-state.sql.ts';
import {
  listExpiredClaims,
  recordHeartbeat,
  findLastLoaded,
  listProcesses,
  listLivePlugins,
  listOrphans,
  listQueuedOf,
  listUnrunnable,
} from '../job/process.sql.ts';
import { closeKey, openKey } from '../operation/idempotency.sql.ts';
import {
  readInstallationsVersion,
  listInstallations,
  listProvisionRows,
  recordInstallationError,
} from '../package/installation.sql.ts';
import { releaseBranch, claimBranches } from '../pipeline/run/claim-branch.sql.ts';
import {
  findGraph,
  findRun,
  listBranches,
  listSteps,
  readBase,
  readContext,
} from '../pipeline/run/load-run.sql.ts';
import { findRetryFromRefusal } from '../pipeline/run/retry-from.sql.ts';
import {
  readRunPage,
  listWaitingSteps,
  listApprovalSteps,
  listRuns,
  listWaitedSignals,
  storeDefinitions,
  findStepSignal,
} from '../pipeline/run/run.sql.ts';
import { listAdvancements } from '../pipeline/run/advancement.sql.ts';
import { countOpenBreakers, listBreakers, listTransitions } from '../schedule/breaker.sql.ts';
import { fireSchedules } from '../schedule/fire.sql.ts';
import {
  listDueSchedules,
  listSchedules,
  retireSchedules,
  syncSchedules,
} from '../schedule/schedule.sql.ts';
import { insertEmissions } from '../signal/emit.sql.ts';
import { replayStep } from '../signal/replay.sql.ts';
import { readSignalPage, countSignalGroups, listSignals } from '../signal/signal.sql.ts';
import { recordPruned, readWorkload, readUsage } from '../tenant/workload.sql.ts';
import {
  insertTenant,
  insertTenantKey,
  deleteTenantKey,
  listDueTenants,
  findTenant,
  deleteTenantRow,
  listTenants,
  updateTenantStatus,
  recordAllTenantsDue,
  recordTenantDue,
  recordTenantSchema,
  updateTenantLimits,
  findTenantByKey,
} from '../tenant/tenant.sql.ts';
import {
  readDeliveryPage,
  listAgentJobs,
  listTargets,
  listLastDeliveries,
  listDeliveries,
  insertRejectedDelivery,
  acceptDeliveries,
} from '../webhook/delivery.sql.ts';
import { findWebhook, listWebhooks } from '../webhook/webhook.sql.ts';
import { readMeta, writeMeta } from './meta.ts';
import { countPrunable, pruneRows } from './prune.ts';
import {
  advanceRun,
  awaitTenantClaims,
  createDirective,
  enqueueBatch,
  findEventEnd,
  listAttemptsByJob,
  listEventsAfter,
  reapProcess,
  releaseProcess,
  settleAndClaim,
  startDeferredDirective,
  startRuns,
  finds,
  reads,
  writes,
} from './verbs.ts';

/** All verbs of a ledger by noun. Each verb is a function of the noun's SQL files. */
export const nouns = {
  jobs: {
    enqueue: writes(enqueueBatch, 'enqueue'),
    claim: writes(claimJobs, 'claim'),
    settle: settleAndClaim,
    cancel: writes(cancelJob),
    cancelMany: writes(cancelJobs),
    retryMany: writes(retryJobs, 'enqueue'),
    promote: writes(promoteDueJobs),
    find: finds(findJob),
    list: reads(listJobs),
    count: reads(countJobs),
    page: reads(readJobPage),
    countPage: reads(countJobPage),
    countQueue: reads(countQueue),
    listQueued: reads(listQueuedOf),
    listUnrunnable: reads(listUnrunnable),
    listExpiredClaims: reads(listExpiredClaims),
    listDead: reads(listDeadJobs),
    listLastEnds: reads(listLastEnds),
    listDurations: reads(listRunDurations),
    findDependencyHolder: reads(findDependencyHolder),
    readQueuePosition: reads(readQueuePosition),
    readQueueHeads: reads(readQueueHeads),
    readStatistics: reads(readQueueStatistics),
  },
  attempts: {
    list: reads(listAttempts),
    listByJob: listAttemptsByJob,
    page: reads(readAttemptPage),
    readStatistics: reads(readAttemptStatistics),
  },
  processes: {
    heartbeat: writes(recordHeartbeat, 'heartbeat'),
    leave: writes(releaseProcess),
    reap: writes(reapProcess, 'reap'),
    list: reads(listProcesses),
    listOrphans: reads(listOrphans),
    listLivePlugins: reads(listLivePlugins),
    findLastLoaded: reads(findLastLoaded),
  },
  plugins: {
    readState: finds(readState),
    listFacts: reads(listFacts),
    listDisabled: reads(listDisabledPlugins),
    requireInits: writes(requireInits),
    recordHealth: writes(recordHealth),
    reviewHealth: writes(reviewHealth),
    listHealth: reads(listHealth),
  },
  history: {
    prune: writes(pruneRows, 'prune'),
    countPrunable: reads(countPrunable),
    recordPruned: writes(recordPruned),
  },
  signals: {
    emit: writes(insertEmissions, 'enqueue'),
    replay: writes(replayStep, 'enqueue'),
    list: reads(listSignals),
    page: reads(readSignalPage),
    countGroups: reads(countSignalGroups),
    listSealedPayloads: reads(findSealedPayloads),
  },
  events: {
    list: listEventsAfter,
    findEnd: findEventEnd,
  },
  runs: {
    start: writes(startRuns, 'enqueue'),
    saveDefinitions: writes(storeDefinitions),
    findDefinition: finds(findGraph),
    claimBranches: writes(claimBranches),
    advance: advanceRun,
    releaseBranch: writes(releaseBranch),
    find: finds(findRun),
    list: reads(listRuns),
    page: reads(readRunPage),
    listHalted: reads(listHaltedRuns),
    listBranches: reads(listBranches),
    listSteps: reads(listSteps),
    listAdvancements: reads(listAdvancements),
    listApprovalSteps: reads(listApprovalSteps),
    listOpenQuestions: reads(listOpenQuestions),
    listWaitingSteps: reads(listWaitingSteps),
    listWaitedSignals: reads(listWaitedSignals),
    findStepSignal: finds(findStepSignal),
    readBasePayload: finds(readBase),
    readContext: finds(readContext),
    findRetryFromRefusal: reads(findRetryFromRefusal),
  },
  schedules: {
    sync: writes(syncSchedules),
    retire: writes(retireSchedules),
    fire: writes(fireSchedules, 'fire'),
    list: reads(listSchedules),
    listDue: reads(listDueSchedules),
  },
  breakers: {
    list: reads(listBreakers),
    listTransitions: reads(listTransitions),
    countOpen: reads(countOpenBreakers),
  },
  directives: {
    create: createDirective,
    start: startDeferredDirective,
    approve: writes(approveDirective),
    cancel: writes(cancelDirective),
    /** Requeues a directive without counting the attempt. */
    release: writes((tx, started: Pick<Directive, 'id' | 'processId'>) =>
      releaseDirective(tx, started, 'unspent'),
    ),
    close: writes(closeDirective),
    find: finds(findDirective),
    list: reads(listDirectives),
    page: reads(readDirectivePage),
    listDue: reads(listDueDirectives),
    readStatistics: reads(readDirectiveStatistics),
  },
  idempotencyKeys: {
    open: writes(openKey),
    close: writes(closeKey),
  },
  tokens: {
    list: reads(listTokens),
    listOrigins: reads(listTokenOrigins),
    describeTakenName: reads(describeTakenName),
    claimNames: writes(claimTokenNames),
    recordUse: writes(recordTokenUse),
  },
  credentials: {
    list: reads(listCredentials),
    find: finds(findCredential),
    recordUse: writes(recordCredentialUse),
  },
  seals: {
    list: reads(listSealedRows),
    listKeyIds: reads(listSealKeyIds),
    count: reads(countSeals),
    replace: writes(updateSeals),
  },
  snapshots: {
    insert: writes(recordSnapshot),
    touch: writes(touchSnapshot),
    mask: writes(maskSnapshots),
    find: finds(findSnapshot),
    list: reads(listSnapshots),
    listUnmasked: reads(listUnmasked),
  },
  incidents: {
    update: writes(updateIncidents, 'enqueue'),
    claimWatch: writes(claimIncidentWatch),
    find: finds(findIncident),
    list: reads(listIncidents),
  },
  observations: {
    record: writes(recordObservations),
    list: reads(listObservations),
  },
  installations: {
    list: reads(listInstallations),
    listProvisions: reads(listProvisionRows),
    readVersion: reads(readInstallationsVersion),
    recordError: writes(recordInstallationError),
  },
  webhooks: {
    accept: writes(acceptDeliveries, 'enqueue'),
    find: finds(findWebhook),
    list: reads(listWebhooks),
  },
  deliveries: {
    recordRejected: writes(insertRejectedDelivery),
    list: reads(listDeliveries),
    page: reads(readDeliveryPage),
    listLast: reads(listLastDeliveries),
    listAgentJobs: reads(listAgentJobs),
    listTargets: reads(listTargets),
  },
  tenants: {
    insert: writes(insertTenant),
    updateStatus: writes(updateTenantStatus),
    updateLimits: writes(updateTenantLimits),
    delete: writes(deleteTenantRow),
    find: finds(findTenant),
    list: reads(listTenants),
    listDue: reads(listDueTenants),
    recordDue: writes(recordTenantDue),
    recordAllDue: writes(recordAllTenantsDue),
    recordSchema: writes(recordTenantSchema),
    awaitClaims: awaitTenantClaims,
    insertKey: writes(insertTenantKey),
    deleteKey: writes(deleteTenantKey),
    findByKey: finds(findTenantByKey),
  },
  workload: {
    readDue: reads(readWorkload),
    readUsage: reads(readUsage),
  },
  meta: {
    read: finds(readMeta),
    write: writes(writeMeta),
  },
};
