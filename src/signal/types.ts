import type { Timestamp } from '../base/clock.ts';
import type { Signal, SignalDraft } from './signal.ts';
import type { Followers, RunCommitEvents } from '../pipeline/run/types.ts';
import type { Attempt } from '../job/attempt.ts';
import type { Job } from '../job/job.ts';
import type { Run } from '../pipeline/run/run.ts';

/** A signal with what it starts. The jobs have no dedupe keys: the signal itself exists once. */
export interface Emission extends Followers {
  readonly signal: SignalDraft;
  /** The baggage of its jobs and runs. */
  readonly contexts?: readonly { readonly id: string; readonly accumulated: string }[];
  /** Handles the signal again even if it was reported before. */
  readonly rerun?: boolean;
}

export interface ReplayStep extends Followers, Pick<Emission, 'contexts'> {
  readonly directiveId: string;
  readonly processId: string;
  /** Includes handlers that succeeded for the same signal before, or are running. */
  readonly force: boolean;
  readonly before: ReplayProgress;
  /** The last signal of this step. */
  readonly cursor: number;
  /** The number of signals in this step, and of those that nothing handles. */
  readonly signals: number;
  readonly unhandled: number;
  /**
   * The number of signals in this step that were skipped because their masked payload can't be
   * opened.
   */
  readonly unopened: number;
}

/** The progress of a replay. */
export interface ReplayProgress {
  /** The last signal that was processed, and the newest one when the replay started. */
  readonly cursor: number;
  readonly upTo: number;
  readonly signals: number;
  readonly jobs: number;
  readonly runs: number;
  /** Jobs and runs that were skipped: an equal one succeeded or is running. */
  readonly skipped: number;
  readonly unhandled: number;
  /** Signals that were skipped because their masked payload can't be opened. */
  readonly unopened: number;
}

export interface ReplayStepResult {
  readonly progress: ReplayProgress;
  readonly news: RunCommitEvents;
}

export interface EmissionResult {
  /** One per emission, in order. */
  readonly told: readonly RecordedSignal[];
  readonly news: RunCommitEvents;
}

export interface RecordedSignal {
  readonly signalId: string;
  /** False if the signal was reported before. */
  readonly created: boolean;
}

export interface SignalFilter {
  readonly id?: string;
  /** Only ids with this prefix. */
  readonly idPrefix?: string;
  readonly type?: string;
  readonly source?: string;
  readonly subjectType?: string;
  readonly subjectId?: string;
  readonly correlationId?: string;
  readonly causationId?: string;
  readonly dedupeKey?: string;
  readonly sourceEventId?: string;
  readonly jobId?: string;
  readonly visibility?: 'internal' | 'admin_only';
  /** Only signals that occurred in [from, to). */
  readonly from?: Timestamp;
  readonly to?: Timestamp;
  readonly upToSeq?: number;
  /** Keyset page: rows after this one, in the order of the list. */
  readonly beforeSeq?: number;
  readonly order?: 'newest' | 'oldest';
  /** The most data to read. One row is returned even if it is larger. */
  readonly bytesMax?: number;
  readonly limit: number;
}

export interface SignalGroup {
  readonly source: string;
  readonly type: string;
  readonly count: number;
}

/** `visitMax`: how many rows a page may read. */
export type SignalPageFilter = { readonly visitMax?: number } & Pick<
  SignalFilter,
  | 'type'
  | 'source'
  | 'subjectType'
  | 'subjectId'
  | 'correlationId'
  | 'visibility'
  | 'from'
  | 'to'
  | 'beforeSeq'
  | 'order'
  | 'limit'
>;
/** A reader's position in an append-only table. */
export interface Position {
  readonly tx: number;
  readonly seq: number;
}

export interface EventCursor {
  readonly jobs: Position;
  readonly signals: Position;
  readonly attempts: Position;
  readonly runs: Position;
}

/** The limits per kind of row. One row is returned even if it is larger. */
export interface EventLimit {
  readonly rows: number;
  readonly bytes: number;
}

interface InChain {
  readonly correlationId: string;
}

/** A job as it was accepted, without the fields that change later. */
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
/** An attempt without its output. */
export type AttemptEvent = Attempt & InChain & { readonly position: Position };

/** The end of a run that did not halt. A run that halts has a signal of its own. */
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
  /** Other transactions are still writing the next rows. */
  readonly isPending: boolean;
}

export interface EventList<T> {
  readonly rows: readonly T[];
  /** More rows can be read at once. */
  readonly isCut: boolean;
  /** The position after all rows so far. */
  readonly end: Position;
}
