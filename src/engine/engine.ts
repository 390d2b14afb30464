import type { Timestamp } from '../base/clock.ts';
import type { LogRing } from '../base/log-ring.ts';
import type { Config } from '../config/config.ts';
import type { RefusedInstallation } from '../config/installed.ts';
import type { PackageListing } from '../config/packages.ts';
import type { Job } from '../job/job.ts';
import type { EnqueueResult } from '../job/types.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { Tenants } from '../tenant/tenants.ts';
import type { Pipeline } from '../pipeline/language/pipeline.ts';
import type { Run } from '../pipeline/run/run.ts';
import type { Catalog } from '../plugin/catalog.ts';
import type { IsolationState } from '../plugin/isolation.ts';
import type { Activity } from '../signal/activity.service.ts';
import type { JobSubmission } from '../job/enqueue.service.ts';
import type {
  RunSubmission,
  StartedRun,
  Triggered,
  TriggerSubmission,
} from '../pipeline/run/start.service.ts';
import type { DirectAnswer } from '../directive/directive-result.service.ts';
import type { DirectRequest } from '../directive/define.service.ts';
import type { Directives } from '../directive/request.service.ts';
import type { SignalEmitter } from '../signal/emit.service.ts';
import type { WebhookIntake, Webhooks } from '../webhook/webhooks.ts';
import type { Metrics } from '../insight/metrics.service.ts';
import type { Observations } from '../insight/observations.service.ts';
import type { Counts } from '../insight/job-counts.service.ts';
import type { Reach } from './context.ts';
import type { RunTokens } from '../access/attempt-tokens.service.ts';
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
  readonly tenants: Tenants<Engine> | undefined;
  /** What this process has counted, for all of its ledgers. */
  readonly meters: Pick<Metrics, 'read'>;
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
  readonly signals: SignalEmitter;
  /** The webhooks of this ledger. */
  readonly hooks: WebhookIntake;
  /** Where deliveries to any ledger come in; only the root's is asked. */
  readonly webhooks: Webhooks;
  /** The kinds of directives that this process can be asked for, and what waits to be done. */
  readonly directives: Pick<Directives, 'types' | 'waiting' | 'requireRole'>;
  /** The installations that could not be put in force here, and why. */
  readonly refused: readonly RefusedInstallation[];
  /** The packages that can be installed, read anew. */
  packages(): PackageListing;
  /** Changes something about the system, on record; a dry run says what would be done. */
  direct(request: DirectRequest): Promise<DirectAnswer>;
  /** Accepts one job: committed when it resolves. Unknown plugins and commands are refused. */
  submit(submission: JobSubmission): Promise<EnqueueResult>;
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
