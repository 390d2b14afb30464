import type { Timestamp } from '../base/clock.ts';
import type { Attempt } from '../job/attempt.ts';
import type { Job } from '../job/job.ts';
import type { Run } from '../pipeline/run/run.ts';
import type { Signal } from './signal.ts';

/** Where a reader is, in a table of rows that are only ever added. */
export interface Position {
  readonly tx: number;
  readonly seq: number;
}

export interface EventPlace {
  readonly jobs: Position;
  readonly signals: Position;
  readonly attempts: Position;
  readonly runs: Position;
}

/** Of each kind; one row is given however large it is. */
export interface EventLimit {
  readonly rows: number;
  readonly bytes: number;
}

/** What all that followed from one beginning has in common. */
interface InChain {
  readonly correlationId: string;
}

/** A job as it was accepted, without what changes later. */
export type JobEvent = Pick<
  Job,
  | 'id'
  | 'plugin'
  | 'command'
  | 'maxAttempts'
  | 'submittedBy'
  | 'actor'
  | 'dedupeKey'
  | 'createdAt'
  | 'parentJobId'
  | 'sourceEventId'
  | 'rootJobId'
  | 'retryOf'
  | 'scheduleId'
> &
  InChain & { readonly position: Position };
export type SignalEvent = Signal & { readonly position: Position };
/** Without what the attempt printed. */
export type AttemptEvent = Attempt & InChain & { readonly position: Position };

/** The end of a run that did not halt: of one that did, a signal tells. */
export type RunEvent = Pick<
  Run,
  | 'id'
  | 'pipeline'
  | 'status'
  | 'submittedBy'
  | 'actor'
  | 'sourceEventId'
  | 'parentJobId'
  | 'rootJobId'
  | 'revivedFrom'
  | 'createdAt'
  | 'startedAt'
> &
  InChain & { readonly completedAt: Timestamp; readonly position: Position };

export interface EventRows {
  readonly jobs: EventList<JobEvent>;
  readonly signals: EventList<SignalEvent>;
  readonly attempts: EventList<AttemptEvent>;
  readonly runs: EventList<RunEvent>;
  /** Others are still writing what comes next. */
  readonly isPending: boolean;
}

export interface EventList<T> {
  readonly rows: readonly T[];
  /** There is more that can be had at once. */
  readonly isCut: boolean;
  /** Behind all that there is by now. */
  readonly end: Position;
}
