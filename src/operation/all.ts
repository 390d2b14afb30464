import { analyticsQueue, analyticsSummary } from '../insight/analytics.operations.ts';
import {
  diffConfig,
  getConfig,
  lockConfig,
  schemaConfig,
  showConfig,
  viewConfig,
} from '../config/operations.ts';
import { configHistory } from '../config/history.operations.ts';
import {
  backupConfig,
  initConfig,
  restoreConfig,
  setConfig,
  unsetConfig,
} from '../config/edit.operations.ts';
import { resetBreakerDirective, systemBreaker } from '../schedule/breaker.operations.ts';
import type { Operation } from './define.ts';
import type { ListedDirective } from './define-directive.ts';
import { checkConfig } from '../config/check.operations.ts';
import { systemDoctor } from '../insight/doctor.operations.ts';
import {
  systemIndex,
  systemManifest,
  inspectPlugin,
  makePluginOpenapi,
  makeSystemOpenapi,
} from '../plugin/discovery.operations.ts';
import { tailSignals } from '../signal/event-feed.operations.ts';
import {
  approveDirectiveOperation,
  cancelDirectiveOperation,
  listDirectivesOperation,
  requestDirectiveOperation,
  showDirectiveOperation,
} from '../directive/operations.ts';
import { backupDirective, exportDirective } from '../backup/backup.directives.ts';
import { pluginFacts, listPlugins } from '../plugin/operations.ts';
import { pluginHealth } from '../plugin/health.operations.ts';
import {
  initPluginDirective,
  disablePluginDirective,
  enablePluginDirective,
} from '../plugin/plugin.directives.ts';
import { listIncidentsOperation, showIncidentOperation } from '../insight/incident.operations.ts';
import { acknowledgeIncidentDirective } from '../insight/incident.directives.ts';
import { cancelJobsOperation, retryJobsOperation } from '../job/bulk.operations.ts';
import { cancelJobsDirective, retryJobsDirective } from '../job/job.directives.ts';
import {
  pauseSystemDirective,
  resumeSystemDirective,
  pruneDirective,
  retentionDirective,
  reloadDirective,
} from '../engine/system.directives.ts';
import { inspectJob, listJobsOperation, listQueue } from '../job/operations.ts';
import {
  listInstallationsOperation,
  showInstallation,
  listPackages,
  showPackage,
  makeValidatePackage,
} from '../package/operations.ts';
import { listLogs, systemLogs } from '../job/logs.operations.ts';
import { systemMetrics } from '../insight/metrics.operations.ts';
import { installPackageDirective, upgradePackageDirective } from '../package/install.directives.ts';
import {
  disablePackageDirective,
  enablePackageDirective,
  uninstallPackageDirective,
} from '../package/switch.directives.ts';
import {
  checkPipeline,
  graphPipeline,
  listPipelines,
  showPipelineOperation,
} from '../pipeline/operations.ts';
import { runPipeline, waitForRun } from '../pipeline/run/start.operations.ts';
import { testPipeline } from '../pipeline/test.operations.ts';
import { makePlugin, testPlugin, proveSystem } from './extras.operations.ts';
import { systemCheck, systemHealth, systemStatus } from '../engine/system.operations.ts';
import { decideStepDirective, rejectStep } from '../pipeline/run/decide.directives.ts';
import {
  cancelRunDirective,
  retryRunFromDirective,
  reviveRunDirective,
} from '../pipeline/run/run.directives.ts';
import { listRunsOperation, showRunOperation, runTree } from '../pipeline/run/run.operations.ts';
import { runPlugin, waitForJob } from '../job/start.operations.ts';
import {
  listSchedulerJobs,
  listSchedulesOperation,
  previewSchedule,
} from '../schedule/operations.ts';
import {
  pauseScheduleDirective,
  resumeScheduleDirective,
} from '../schedule/schedule.directives.ts';
import { emitSignal, emitSignals } from '../signal/emit.operations.ts';
import { replaySignalsDirective } from '../signal/replay.directives.ts';
import { listSignalsOperation, showSignalOperation } from '../signal/operations.ts';
import { systemSelfcheck } from '../insight/selfcheck.operations.ts';
import { listTenantsOperation, showTenantOperation, tokenTenant } from '../tenant/operations.ts';
import {
  createTenantDirective,
  deleteTenantDirective,
  limitTenantDirective,
  resumeTenantDirective,
  suspendTenantDirective,
} from '../tenant/tenant.directives.ts';
import { listCredentialsOperation, showCredential } from '../access/credential.operations.ts';
import {
  deleteCredentialDirective,
  setCredentialDirective,
} from '../access/credential.directives.ts';
import { rotateKeyDirective } from '../access/rotate-key.directives.ts';
import { listTokensOperation } from '../access/token.operations.ts';
import {
  createTokenDirective,
  revokeTokenDirective,
  rotateTokenDirective,
} from '../access/token.directives.ts';
import { jobTree } from '../job/tree.operations.ts';
import { triggerPlugin } from '../pipeline/run/trigger.operations.ts';
import { listDeliveriesOperation, showDeliveryOperation } from '../webhook/delivery.operations.ts';
import { replayDeliveryDirective, testWebhookDirective } from '../webhook/delivery.directives.ts';
import {
  listEndpoints,
  listWebhooksOperation,
  showWebhookOperation,
} from '../webhook/operations.ts';
import { rotateWebhookDirective } from '../webhook/rotate.directives.ts';
import { createWebhookDirective, deleteWebhookDirective } from '../webhook/webhook.directives.ts';
import { updateWebhookDirective } from '../webhook/update.directives.ts';
import { explainWhy } from '../insight/why/why.operations.ts';

/** Everything that can be requested. A directive is here for both: its type and its operation. */
const all: readonly (Operation | ListedDirective)[] = [
  systemStatus,
  systemCheck,
  backupDirective,
  proveSystem,
  exportDirective,
  pauseSystemDirective,
  resumeSystemDirective,
  pruneDirective,
  retentionDirective,
  systemHealth,
  systemMetrics,
  reloadDirective,
  systemSelfcheck,
  systemLogs,
  systemBreaker,
  resetBreakerDirective,
  listPlugins,
  makePlugin,
  testPlugin,
  inspectPlugin,
  runPlugin,
  triggerPlugin,
  listPipelines,
  showPipelineOperation,
  checkPipeline,
  graphPipeline,
  testPipeline,
  runPipeline,
  makePluginOpenapi(runPlugin),
  pluginHealth,
  initPluginDirective,
  pluginFacts,
  listJobsOperation,
  inspectJob,
  waitForJob,
  waitForRun,
  listLogs,
  jobTree,
  cancelJobsDirective,
  retryJobsDirective,
  cancelJobsOperation,
  retryJobsOperation,
  explainWhy,
  listIncidentsOperation,
  showIncidentOperation,
  acknowledgeIncidentDirective,
  listQueue,
  listSchedulesOperation,
  listSchedulerJobs,
  previewSchedule,
  pauseScheduleDirective,
  resumeScheduleDirective,
  listRunsOperation,
  showRunOperation,
  runTree,
  cancelRunDirective,
  reviveRunDirective,
  retryRunFromDirective,
  decideStepDirective,
  rejectStep,
  analyticsSummary,
  analyticsQueue,
  enablePluginDirective,
  disablePluginDirective,
  listDirectivesOperation,
  showDirectiveOperation,
  requestDirectiveOperation,
  approveDirectiveOperation,
  cancelDirectiveOperation,
  createTenantDirective,
  listTenantsOperation,
  showTenantOperation,
  suspendTenantDirective,
  resumeTenantDirective,
  limitTenantDirective,
  deleteTenantDirective,
  tokenTenant,
  setCredentialDirective,
  listCredentialsOperation,
  showCredential,
  deleteCredentialDirective,
  rotateKeyDirective,
  createWebhookDirective,
  updateWebhookDirective,
  listWebhooksOperation,
  showWebhookOperation,
  deleteWebhookDirective,
  rotateWebhookDirective,
  listDeliveriesOperation,
  listEndpoints,
  showDeliveryOperation,
  replayDeliveryDirective,
  testWebhookDirective,
  createTokenDirective,
  listTokensOperation,
  revokeTokenDirective,
  rotateTokenDirective,
  tailSignals,
  listSignalsOperation,
  showSignalOperation,
  emitSignal,
  emitSignals,
  replaySignalsDirective,
  listPackages,
  showPackage,
  makeValidatePackage(() => allDirectives),
  installPackageDirective,
  upgradePackageDirective,
  enablePackageDirective,
  disablePackageDirective,
  uninstallPackageDirective,
  listInstallationsOperation,
  showInstallation,
  systemIndex,
  makeSystemOpenapi(() => operations, runPlugin),
  systemManifest,
  systemDoctor,
  checkConfig,
  lockConfig,
  showConfig,
  getConfig,
  setConfig,
  unsetConfig,
  initConfig,
  backupConfig,
  restoreConfig,
  diffConfig,
  schemaConfig,
  viewConfig,
  configHistory,
];

/** All types of directives. Each ledger knows those that are for it. */
export const allDirectives: readonly ListedDirective[] = all.filter((one) => 'type' in one);

/** All operations. HTTP, the command line and the tools of AI agents are loops over this list. */
export const operations: readonly Operation[] = all.flatMap((one) =>
  'type' in one ? (one.operation ?? []) : one,
);
