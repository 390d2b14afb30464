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

/** Disturbance of the services, from its start until it has no more effect. */
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
  /** Findings of the ledger's check. */
  readonly problems: readonly string[];
  /** Plugin processes that outlived all services. */
  readonly leftovers: readonly number[];
  /** If set, every repeated attempt must follow one of these. */
  readonly disturbances?: readonly Disturbance[] | undefined;
  /** True if a spawner was frozen, so that attempts may overlap. */
  readonly mayOverlap?: boolean | undefined;
  /** True if the ledger's clock was set, so that differences of its times are meaningless. */
  readonly clockWasSet?: boolean | undefined;
}

/** True if a client requested this job. */
export function wasRequested({ parentJobId, runId, scheduleId }: SeenJob): boolean {
  return parentJobId === null && runId === null && scheduleId === null;
}

export function refOf({ payload }: Pick<SeenJob, 'payload'>): number {
  return (JSON.parse(payload) as { readonly ref: number }).ref;
}
