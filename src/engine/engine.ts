import type { Timestamp } from '../base/clock.ts';
import type { JsonObject } from '../base/json.ts';
import type { LogRing } from '../base/log-ring.ts';
import type { Config } from '../config/config.ts';
import type { Job, JobDraft, SubmittedBy } from '../job/job.ts';
import type { Enqueued, Ledger } from '../ledger/ledger.ts';
import type { Pipeline } from '../pipeline/pipeline.ts';
import type { Run } from '../pipeline/run.ts';
import type { Catalog } from '../plugin/catalog.ts';
import type { Activity } from './activity.ts';
import type { DirectAnswer } from './directive-answers.ts';
import type { DirectRequest } from './directive-definition.ts';
import type { Directives } from './directives.ts';
import type { SignalDoor } from './emit.ts';
import type { Tokens } from './tokens.ts';

/** The moving parts of one process, behind one door for the operations. */
export interface Engine {
  /** Those in force now; a reload puts others in their place. */
  readonly config: Config;
  readonly catalog: Catalog;
  readonly pipelines: readonly Pipeline[];
  readonly ledger: Ledger;
  readonly processId: string;
  /** What this process said lately. */
  readonly ring: LogRing;
  readonly tokens: Tokens;
  readonly activity: Activity;
  readonly signals: SignalDoor;
  /** The kinds of directives that this process can be asked for, and what waits to be done. */
  readonly directives: Pick<Directives, 'types' | 'waiting'>;
  /** Changes something about the system, on record; a dry run says what would be done. */
  direct(request: DirectRequest): Promise<DirectAnswer>;
  /** Accepts one job: committed when it resolves. Unknown plugins and commands are refused. */
  submit(submission: Submission): Promise<Enqueued>;
  /** Resolves with the job when it is terminal, or with its state when the wait is over or given up. */
  waitFor(jobId: string, timeoutMs: number, givenUp?: AbortSignal): Promise<Job>;
  /** Starts a run of a pipeline by its name: committed when it resolves. */
  startRun(submission: RunSubmission): Promise<StartedRun>;
  /** As `waitFor`; it also ends when the signal says so. */
  waitForRun(runId: string, timeoutMs: number, signal?: AbortSignal): Promise<Run>;
  status(): EngineStatus;
  start(): Promise<void>;
  /** No new claims; running attempts get the shutdown time; what is cut short is released. */
  stop(): Promise<void>;
}

export interface Submission {
  /** Made by the caller when the same request may come again; a new one otherwise. */
  readonly id?: string;
  readonly plugin: string;
  readonly command: string;
  readonly payload: JsonObject;
  readonly submittedBy: SubmittedBy;
  readonly actor: string;
  readonly context?: JsonObject;
  readonly dedupeKey?: string;
  /** How long its success blocks others with the same key; the configuration's time otherwise. */
  readonly dedupeTtlMs?: number;
  readonly due?: NonNullable<JobDraft['due']>;
}

export interface RunSubmission {
  /** Made by the caller when the same request may come again; a new one otherwise. */
  readonly id?: string;
  readonly pipeline: string;
  readonly payload: JsonObject;
  readonly submittedBy: SubmittedBy;
  readonly actor: string;
  /** Baggage that it begins with. */
  readonly context?: JsonObject;
}

export interface StartedRun {
  readonly runId: string;
  /** The job of its first step; undefined when that is none. */
  readonly jobId: string | undefined;
}

export interface EngineStatus {
  readonly processId: string;
  readonly generation: GenerationStatus;
  readonly state: 'stopped' | 'starting' | 'running' | 'paused' | 'degraded' | 'stopping';
  /** Why it is degraded. */
  readonly detail: string | undefined;
  readonly slots: number;
  readonly running: readonly {
    readonly jobId: string;
    readonly plugin: string;
    readonly command: string;
  }[];
  readonly spawner: 'native' | 'node';
  readonly uptimeMs: number;
  readonly plugins: number;
}

export interface GenerationStatus {
  /** 1 from the start, one more with each reload. */
  readonly number: number;
  readonly snapshotId: string;
  readonly loadedAt: Timestamp;
  /** The last reload that was asked for, whatever became of it. */
  readonly lastReload: ReloadReport | undefined;
}

export interface ReloadReport {
  readonly at: Timestamp;
  readonly by: string;
  /** Why it changed nothing. */
  readonly refused: string | undefined;
}
