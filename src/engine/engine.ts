import type { Timestamp } from '../base/clock.ts';
import type { JsonObject } from '../base/json.ts';
import type { LogRing } from '../base/log-ring.ts';
import type { Config } from '../config/config.ts';
import type { RefusedInstallation } from '../config/installed.ts';
import type { Packages } from '../config/packages.ts';
import type { Job, JobDraft, SubmittedBy } from '../job/job.ts';
import type { Enqueued } from '../job/types.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { TenantRow } from '../tenant/types.ts';
import type { Pipeline } from '../pipeline/language/pipeline.ts';
import type { Run, RunStatus } from '../pipeline/run/run.ts';
import type { Catalog } from '../plugin/catalog.ts';
import type { IsolationState } from '../plugin/isolation.ts';
import type { Activity } from '../signal/activity.service.ts';
import type { Cause } from '../job/cause.service.ts';
import type { DirectAnswer } from '../directive/directive-result.service.ts';
import type { DirectRequest } from '../directive/define.service.ts';
import type { Directives } from '../directive/request.service.ts';
import type { SignalDoor } from '../signal/emit.service.ts';
import type { HookDoor, Webhooks } from '../webhook/webhooks.ts';
import type { Meters } from '../insight/metrics.service.ts';
import type { Observations } from '../insight/observations.service.ts';
import type { Counts } from '../insight/job-counts.service.ts';
import type { Reach, RunTokens } from '../access/attempt-tokens.service.ts';
import type { Tokens } from '../access/principal.service.ts';
import type { ExpectedEnd } from '../job/completion.service.ts';

/** The moving parts of one process, behind one door for the operations. */
export interface Engine {
  /** Those in force now; a reload puts others in their place. */
  readonly config: Config;
  readonly catalog: Catalog;
  readonly pipelines: readonly Pipeline[];
  readonly ledger: Ledger;
  readonly processId: string;
  /** Whose ledger it is; undefined for the root one. */
  readonly tenant: string | undefined;
  /** The other ledgers of this process; undefined for who has none. */
  readonly tenants: Tenants | undefined;
  /** What this process has counted, for all of its ledgers. */
  readonly meters: Pick<Meters, 'read'>;
  /** Counts what is turned away; undefined where nothing is recorded. */
  readonly observations?: Pick<Observations, 'note'>;
  /** What the tenant may use now; the root ledger has everything. */
  readonly quota: {
    workers(): number | undefined;
    held(): 'tenant_limit' | 'tenant_suspended' | undefined;
  };
  /** By what plugins of tenants are kept out of the ledgers of others; it is tried out. */
  isolation(): IsolationState;
  /** The keys that this process opens secrets with, the newest first. */
  readonly keyIds: readonly string[];
  /** What this process said lately. */
  readonly ring: LogRing;
  readonly tokens: Tokens;
  /** Those of attempts that run in this process, of all ledgers. */
  readonly runTokens: Pick<RunTokens, 'find'>;
  /** Where this process listens. */
  readonly reach: Readonly<Reach>;
  readonly activity: Activity;
  readonly signals: SignalDoor;
  /** The webhooks of this ledger. */
  readonly hooks: HookDoor;
  /** Where deliveries to any ledger come in; only the root's is asked. */
  readonly webhooks: Webhooks;
  /** The kinds of directives that this process can be asked for, and what waits to be done. */
  readonly directives: Pick<Directives, 'types' | 'waiting' | 'requireRole'>;
  /** The installations that could not be put in force here, and why. */
  readonly refused: readonly RefusedInstallation[];
  /** The packages that can be installed, read anew. */
  packages(): Packages;
  /** Changes something about the system, on record; a dry run says what would be done. */
  direct(request: DirectRequest): Promise<DirectAnswer>;
  /** Accepts one job: committed when it resolves. Unknown plugins and commands are refused. */
  submit(submission: Submission): Promise<Enqueued>;
  /** Resolves with the job when it is terminal, or with its state when the wait is over or given up. */
  waitFor(jobId: string, timeoutMs: number, givenUp?: AbortSignal): Promise<Job>;
  /** To be asked before a job is submitted, as awaited, under an id of the caller's own. */
  expectEnd(jobId: string): ExpectedEnd;
  /** Starts a run of a pipeline by its name: committed when it resolves. */
  startRun(submission: RunSubmission): Promise<StartedRun>;
  /** Accepts a job and runs in one commit, or none of them. */
  trigger(submission: TriggerSubmission): Promise<Triggered>;
  /** As `waitFor`; it also ends when the signal says so. */
  waitForRun(runId: string, timeoutMs: number, signal?: AbortSignal): Promise<Run>;
  status(): EngineStatus;
  /** With `asked`, only work that was accepted is done: no schedule fires, and nothing is pruned. */
  start(duties?: Duties): Promise<void>;
  /** No new claims; running attempts get the shutdown time; what is cut short is released. */
  stop(): Promise<void>;
}

export type Duties = 'all' | 'asked';

export interface Submission {
  /** Made by the caller when the same request may come again; a new one otherwise. */
  readonly id?: string | undefined;
  readonly plugin: string;
  readonly command: string;
  readonly payload: JsonObject;
  readonly submittedBy: SubmittedBy;
  readonly actor: string;
  readonly context?: JsonObject;
  readonly dedupeKey?: string;
  /** How long its success blocks others with the same key; the configuration's time otherwise. */
  readonly dedupeTtlMs?: number;
  /** Whether a job of the key that is under way blocks it too; with a `dedupeTtlMs` it does unless said. */
  readonly blockInFlight?: boolean;
  /** Of all jobs with the same one, one runs at a time. */
  readonly dependencyKey?: string;
  readonly due?: NonNullable<JobDraft['due']>;
  /** Whoever submits it will wait for its end. */
  readonly isAwaited?: boolean;
  /** The running job that asks for it. */
  readonly cause?: Cause;
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
  /** A run of the pipeline that has the key is under way, or succeeded: nothing is started. */
  readonly dedupeKey?: string;
  /** How long its success blocks others with the same key; the configuration's time otherwise. */
  readonly dedupeTtlMs?: number;
  readonly due?: NonNullable<JobDraft['due']>;
  /** Whoever submits it will wait for its end. */
  readonly isAwaited?: boolean;
  /** The running job that asks for it. */
  readonly cause?: Cause;
}

export interface StartedRun {
  readonly runId: string;
  /** As it was committed; of the run that has its key, when it is a duplicate. */
  readonly status: RunStatus;
  /** The job of its first step; undefined when that is none. */
  readonly jobId: string | undefined;
  /** The run that has its key: nothing was started. */
  readonly duplicateOf?: string;
}

/** A job and runs that are accepted together. */
export interface TriggerSubmission {
  readonly job: Submission | undefined;
  readonly runs: readonly RunSubmission[];
}

export interface Triggered {
  readonly job: Enqueued | undefined;
  /** In the order in which they were asked for. */
  readonly runs: readonly StartedRun[];
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
  /** What this process has done since it started. */
  readonly counts: Counts;
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

/**
 * The ledgers of this process besides the root one. One is opened, with an engine over it, when
 * somebody asks for it or when something is due in it, and closed again when nothing is to be done
 * there: a thousand tenants that do nothing are a thousand rows and no more.
 */
export interface Tenants {
  /** Its engine, awake until the visit ends; throws TENANT_NOT_FOUND, TENANT_UNAVAILABLE. */
  visit(slug: string): Promise<Visit>;
  /** Something may be due in some of them: look now. */
  soon(): void;
  /** Stops its engine and closes its ledger; nobody gets in until it is `release`d. */
  seclude(slug: string): Promise<void>;
  release(slug: string): void;
  /** Which are awake now. */
  readonly awake: readonly string[];
}

export interface Visit {
  readonly engine: Engine;
  readonly tenant: TenantRow;
  end(): void;
}
