import { analyticsQueue, analyticsSummary } from './analytics.ts';
import {
  diffConfig,
  getConfig,
  lockConfig,
  schemaConfig,
  showConfig,
  viewConfig,
} from './config.ts';
import { configHistory } from './config-history.ts';
import { backupConfig, initConfig, restoreConfig } from './config-edit.ts';
import { setConfig, unsetConfig } from './config-set.ts';
import { systemBreaker, systemReset } from './breaker.ts';
import type { Operation } from './define.ts';
import { checkConfig, systemDoctor } from './doctor.ts';
import {
  systemIndex,
  systemManifest,
  inspectPlugin,
  makeSystemOpenapi,
  pluginOpenapi,
} from './discovery.ts';
import { tailSignals } from './events.ts';
import { approveDirective, cancelDirective } from './directive-decide.ts';
import { listDirectives, requestDirective, showDirectiveOperation } from './directive.ts';
import { systemExport } from './export.ts';
import { pluginFacts } from './facts.ts';
import { initPlugin, pluginHealth } from './health.ts';
import { acknowledgeIncident, listIncidents, showIncidentOperation } from './incident.ts';
import { cancelJob, cancelJobs, retryJob, retryJobs } from './job-control.ts';
import { inspectJob, listJobs } from './job.ts';
import { listInstallations, showInstallation } from './installation.ts';
import { listLogs, systemLogs } from './logs.ts';
import { systemMetrics } from './metrics.ts';
import {
  disablePackage,
  enablePackage,
  installPackage,
  uninstallPackage,
  upgradePackage,
} from './package-change.ts';
import { listPackages, showPackage, validatePackage } from './package.ts';
import { checkPipeline } from './pipeline-check.ts';
import { runPipeline } from './pipeline-run.ts';
import { testPipeline } from './pipeline-test.ts';
import { graphPipeline, listPipelines, showPipelineOperation } from './pipeline.ts';
import { listPlugins } from './plugin.ts';
import { makePlugin } from './plugin-make.ts';
import { disablePlugin, enablePlugin } from './plugin-switch.ts';
import { testPlugin } from './plugin-test.ts';
import { proveSystem } from './prove.ts';
import { systemPrune } from './prune.ts';
import { listQueue } from './queue.ts';
import { systemReload } from './reload.ts';
import { approveStep, cancelRun, rejectStep, retryRunFrom, reviveRun } from './run-control.ts';
import { listRuns, showRunOperation } from './run-list.ts';
import { runTree } from './run-tree.ts';
import { runPlugin } from './run.ts';
import { waitForJob, waitForRun } from './wait-end.ts';
import {
  listSchedulerJobs,
  listSchedules,
  pauseSchedule,
  previewSchedule,
  resumeSchedule,
} from './schedule.ts';
import { emitSignal, emitSignals } from './signal-emit.ts';
import { replaySignals } from './signal-replay.ts';
import { listSignals, showSignalOperation } from './signal.ts';
import { systemSelfcheck } from './selfcheck.ts';
import {
  systemBackup,
  systemCheck,
  systemHealth,
  systemPause,
  systemResume,
  systemStatus,
} from './system.ts';
import {
  createTenant,
  deleteTenant,
  limitTenant,
  listTenants,
  resumeTenant,
  showTenantOperation,
  suspendTenant,
  tokenTenant,
} from './tenant.ts';
import {
  deleteCredential,
  listCredentials,
  rotateKey,
  setCredential,
  showCredential,
} from './credential.ts';
import { createToken, listTokens, revokeToken, rotateToken } from './token.ts';
import { jobTree } from './tree.ts';
import { triggerPlugin } from './trigger.ts';
import { listDeliveries, replayDelivery, showDeliveryOperation } from './webhook-delivery.ts';
import { listEndpoints } from './webhook-endpoint.ts';
import { testWebhook } from './webhook-test.ts';
import {
  addWebhook,
  editWebhook,
  listWebhooks,
  removeWebhook,
  rotateWebhook,
  showWebhookOperation,
} from './webhook.ts';
import { explainWhy } from './why/operation.ts';

/** Everything that can be asked; the surfaces are loops over this list. */
export const operations: readonly Operation[] = [
  systemStatus,
  systemCheck,
  systemBackup,
  proveSystem,
  systemExport,
  systemPause,
  systemResume,
  systemPrune,
  systemHealth,
  systemMetrics,
  systemReload,
  systemSelfcheck,
  systemLogs,
  systemBreaker,
  systemReset,
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
  pluginOpenapi,
  pluginHealth,
  initPlugin,
  pluginFacts,
  listJobs,
  inspectJob,
  waitForJob,
  waitForRun,
  listLogs,
  jobTree,
  cancelJob,
  retryJob,
  cancelJobs,
  retryJobs,
  explainWhy,
  listIncidents,
  showIncidentOperation,
  acknowledgeIncident,
  listQueue,
  listSchedules,
  listSchedulerJobs,
  previewSchedule,
  pauseSchedule,
  resumeSchedule,
  listRuns,
  showRunOperation,
  runTree,
  cancelRun,
  reviveRun,
  retryRunFrom,
  approveStep,
  rejectStep,
  analyticsSummary,
  analyticsQueue,
  enablePlugin,
  disablePlugin,
  listDirectives,
  showDirectiveOperation,
  requestDirective,
  approveDirective,
  cancelDirective,
  createTenant,
  listTenants,
  showTenantOperation,
  suspendTenant,
  resumeTenant,
  limitTenant,
  deleteTenant,
  tokenTenant,
  setCredential,
  listCredentials,
  showCredential,
  deleteCredential,
  rotateKey,
  addWebhook,
  editWebhook,
  listWebhooks,
  showWebhookOperation,
  removeWebhook,
  rotateWebhook,
  listDeliveries,
  listEndpoints,
  showDeliveryOperation,
  replayDelivery,
  testWebhook,
  createToken,
  listTokens,
  revokeToken,
  rotateToken,
  tailSignals,
  listSignals,
  showSignalOperation,
  emitSignal,
  emitSignals,
  replaySignals,
  listPackages,
  showPackage,
  validatePackage,
  installPackage,
  upgradePackage,
  enablePackage,
  disablePackage,
  uninstallPackage,
  listInstallations,
  showInstallation,
  systemIndex,
  makeSystemOpenapi(() => operations),
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
