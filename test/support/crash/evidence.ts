/** The outside view of a run: the records of clients, plugins and the ledger. */
import type { Attempt } from '../../../src/job/attempt.ts';
import type { Job } from '../../../src/job/job.ts';
import type { Run } from '../../../src/pipeline/run/run.ts';
import type { Signal } from '../../../src/signal/signal.ts';
import type { Operation } from './client.ts';
import type { RecordLine } from './recorder.ts';

export type SeenJob = Pick<
  Job,
  | 'id'
  | 'plugin'
  | 'payload'
  | 'status'
  | 'lastError'
  | 'parentJobId'
  | 'sourceEventId'
  | 'retryCount'
  | 'runId'
  | 'scheduleId'
  | 'scheduleSlot'
  | 'dedupeKey'
  | 'createdAt'
  | 'completedAt'
>;
export type SeenAttempt = Pick<
  Attempt,
  'jobId' | 'attempt' | 'status' | 'cause' | 'startedAt' | 'completedAt'
>;
export type SeenSignal = Pick<Signal, 'id' | 'type' | 'jobId' | 'jobAttempt'>;
export type SeenRun = Pick<
  Run,
  'id' | 'payload' | 'status' | 'output' | 'haltMessage' | 'dedupeKey'
>;

/** A disturbance of the servers, from its beginning until it could have no more effect. */
export interface Disturbance {
  readonly kind: string;
  readonly fromMs: number;
  readonly untilMs: number;
}

export interface Evidence {
  readonly history: readonly Operation[];
  readonly record: readonly RecordLine[];
  readonly jobs: readonly SeenJob[];
  readonly attempts: readonly SeenAttempt[];
  readonly signals: readonly SeenSignal[];
  readonly runs: readonly SeenRun[];
  /** The findings of the ledger's own check. */
  readonly problems: readonly string[];
  /** Processes of plugins that live although no server does. */
  readonly leftovers: readonly number[];
  /** When it is told, whatever was repeated must have one of them before it. */
  readonly disturbances?: readonly Disturbance[] | undefined;
  /** The process that would have ended a plugin was frozen as well. */
  readonly mayOverlap?: boolean | undefined;
  /** The ledger's own clock was set, so that what lies between two of its times says nothing. */
  readonly clockWasSet?: boolean | undefined;
}

/** A client requested this very job. */
export function wasRequested({ parentJobId, runId, scheduleId }: SeenJob): boolean {
  return parentJobId === null && runId === null && scheduleId === null;
}

export function refOf({ payload }: Pick<SeenJob, 'payload'>): number {
  return (JSON.parse(payload) as { readonly ref: number }).ref;
}
