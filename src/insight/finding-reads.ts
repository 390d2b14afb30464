import type { Timestamp } from '../base/clock.ts';
import type { Job } from '../job/job.ts';
import type { Run, Step } from '../pipeline/run/run.ts';

export interface EndedRequest {
  /** Ended at this moment or later. */
  readonly since: Timestamp;
  /** Rows that are looked at, the newest first; of jobs for each plugin. */
  readonly visitMax: number;
  /** Plugins that are looked at. */
  readonly groupsMax: number;
}

export type DeadJob = Pick<
  Job,
  'id' | 'plugin' | 'command' | 'lastError' | 'attempt' | 'completedAt' | 'sourceEventId'
>;

export type HaltedRun = Pick<
  Run,
  'id' | 'pipeline' | 'haltReason' | 'haltMessage' | 'haltedAtStep' | 'completedAt'
>;

export interface OpenQuestion extends Pick<
  Step,
  'id' | 'runId' | 'node' | 'note' | 'startedAt' | 'dueAt'
> {
  readonly pipeline: string;
}
