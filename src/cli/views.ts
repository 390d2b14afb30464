/** How answers look to people where a table of their rows would not do. */
import type { JsonOutput } from '../operation/define.ts';
import { showCell, type Printer } from './print.ts';
import { configViews } from '../config/view.ts';
import { controlViews } from '../directive/view.ts';
import { doctorViews, showMetrics, showWhy } from '../insight/view.ts';
import {
  showCancel,
  showJobDetail,
  showLogs,
  showRetry,
  showCoreLog,
  showTree,
} from '../job/view.ts';
import { listOf, type View } from './view-parts.ts';
import { packageViews } from '../package/view.ts';
import { pipelineViews } from '../pipeline/view.ts';
import { showPlugin, showPlugins, showPluginRun, workshopViews } from '../plugin/view.ts';
import { showProof, showCheck, showStatus } from '../engine/view.ts';
import { runViews } from '../pipeline/run/run.view.ts';
import { signalViews } from '../signal/view.ts';
import { webhookViews } from '../webhook/view.ts';

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
  'plugin.run': showPluginRun,
  'job.wait': showPluginRun,
  'plugin.openapi': showDocument,
  'system.openapi': showDocument,
  'job.inspect': showJobDetail,
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
