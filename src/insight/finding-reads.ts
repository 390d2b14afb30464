import type { Timestamp } from '../base/clock.ts';
import type { Job } from '../job/job.ts';
import type { Run, Step } from '../pipeline/run/run.ts';

/** What checks read. Each read looks at a bounded number of rows, by an index on both databases. */
export interface FindingReads {
  /** Dead jobs that nobody retried and that are no step of a run, the newest of each plugin first. */
  deadJobs(request: EndedRequest): Promise<DeadJob[]>;
  /** Halted runs that nobody revived, the newest first. */
  haltedRuns(request: EndedRequest): Promise<HaltedRun[]>;
  /** Steps that wait for a person, those of the oldest run first. */
  openQuestions(limit: number): Promise<OpenQuestion[]>;
  /** The ids of the keys that something on the ledger is sealed with. */
  sealKeyIds(): Promise<string[]>;
}

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
