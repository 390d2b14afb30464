import type { Timestamp } from '../base/clock.ts';
import type { Signal, SignalDraft } from './signal.ts';
import type { Followers, RunNews } from '../pipeline/run/types.ts';
import type { Attempt } from '../job/attempt.ts';
import type { Job } from '../job/job.ts';
import type { Run } from '../pipeline/run/run.ts';

/** The jobs carry no dedupe keys: the signal itself is there once. */
export interface Emission extends Followers {
  readonly signal: SignalDraft;
  /** Baggage that its jobs and runs begin with. */
  readonly contexts?: readonly { readonly id: string; readonly accumulated: string }[];
  /** If it was reported before, it is handled again all the same. */
  readonly rerun?: boolean;
}

export interface ReplayStep extends Followers, Pick<Emission, 'contexts'> {
  readonly directiveId: string;
  readonly processId: string;
  /** Also what was done well, or is under way, for the same signal. */
  readonly force: boolean;
  readonly before: ReplayProgress;
  /** The last signal of this step. */
  readonly cursor: number;
  /** Of this step: how many there are, and how many of them nothing handles. */
  readonly signals: number;
  readonly unhandled: number;
  /** Of this step: what was masked in them cannot be opened, so they were left out. */
  readonly unopened: number;
}

/** How far a replay is, and what it has done. */
export interface ReplayProgress {
  /** The last signal that was looked at, and the last one that was there when it began. */
  readonly cursor: number;
  readonly upTo: number;
  readonly signals: number;
  readonly jobs: number;
  readonly runs: number;
  /** Jobs and runs that were left out, because the like was done well or is under way. */
  readonly skipped: number;
  readonly unhandled: number;
  /** Signals that were left out, because what was masked in them cannot be opened. */
  readonly unopened: number;
}

export interface ReplayStepResult {
  readonly progress: ReplayProgress;
  readonly news: RunNews;
}

export interface EmissionResult {
  /** One for each emission, in their order. */
  readonly told: readonly ToldSignal[];
  readonly news: RunNews;
}

export interface ToldSignal {
  readonly signalId: string;
  /** False when it was there before. */
  readonly created: boolean;
}

export interface SignalFilter {
  readonly id?: string;
  /** Only ids that begin so. */
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
  /** Happened not before, and before. */
  readonly from?: Timestamp;
  readonly to?: Timestamp;
  readonly upToSeq?: number;
  /** Keyset page: rows behind this one, in the order of the list. */
  readonly beforeSeq?: number;
  readonly order?: 'newest' | 'oldest';
  /** No more than this much text in data; one is read however large it is. */
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
