/** How answers look to people where a table of their rows would not do. */
import type { JsonOutput } from '../operations/define.ts';
import { showCell } from './print.ts';
import type { Printer } from './print.ts';
import { configViews } from './views/config.ts';
import { controlViews } from './views/control.ts';
import { doctorViews } from './views/doctor.ts';
import { showCancel, showJob, showLogs, showRetry } from './views/job.ts';
import { showCoreLog } from './views/logs.ts';
import { showMetrics } from './views/metrics.ts';
import { listOf } from './views/parts.ts';
import type { View } from './views/parts.ts';
import { packageViews } from './views/package.ts';
import { pipelineViews } from './views/pipeline.ts';
import { showPlugin, showPlugins, showRun } from './views/plugin.ts';
import { showProof } from './views/prove.ts';
import { workshopViews } from './views/workshop.ts';
import { runViews } from './views/run.ts';
import { signalViews } from './views/signal.ts';
import { showCheck, showStatus } from './views/system.ts';
import { showTree } from './views/tree.ts';
import { webhookViews } from './views/webhook.ts';
import { showWhy } from './views/why.ts';

export const views: Readonly<Record<string, View>> = {
  ...configViews,
  ...controlViews,
  ...doctorViews,
  ...runViews,
  ...packageViews,
  ...pipelineViews,
  ...signalViews,
  ...webhookViews,
  ...workshopViews,
  'system.status': showStatus,
  'system.check': showCheck,
  'system.logs': showCoreLog,
  'system.metrics': showMetrics,
  'system.prove': showProof,
  'plugin.list': showPlugins,
  'plugin.inspect': showPlugin,
  'plugin.run': showRun,
  'job.wait': showRun,
  'plugin.openapi': showDocument,
  'system.openapi': showDocument,
  'job.inspect': showJob,
  'job.logs': showLogs,
  'job.cancel': showCancel,
  'job.retry': showRetry,
  'job.tree': showTree,
  'why.explain': showWhy,
};

/** A document for programs looks the same to a person. */
function showDocument(output: JsonOutput, printer: Printer): void {
  printer.json(output);
}

export function showPlan(output: JsonOutput, printer: Printer): void {
  for (const sentence of listOf(output['plan'])) printer.line(showCell(sentence));
  printer.line('Nothing was done.');
}
