import type { Operation } from './define.ts';
import { cancelJob, inspectJob, listJobs, listLogs } from './job.ts';
import { listPlugins, runPlugin } from './plugin.ts';
import { listQueue } from './queue.ts';
import {
  systemBackup,
  systemCheck,
  systemHealth,
  systemPause,
  systemResume,
  systemStatus,
} from './system.ts';

/** Everything that can be asked; the surfaces are loops over this list. */
export const operations: readonly Operation[] = [
  systemStatus,
  systemCheck,
  systemBackup,
  systemPause,
  systemResume,
  systemHealth,
  listPlugins,
  runPlugin,
  listJobs,
  inspectJob,
  listLogs,
  cancelJob,
  listQueue,
];
