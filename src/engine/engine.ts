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
import type { Activity } from '../signal/event-feed.service.ts';
import type { JobSubmission } from '../job/enqueue.service.ts';
import type {
  RunSubmission,
  StartedRun,
  TriggerResult,
  TriggerSubmission,
} from '../pipeline/run/start.service.ts';
import type { DirectiveResult } from '../directive/result.service.ts';
import type { DirectiveRequest } from '../directive/define.service.ts';
import type { Directives } from '../directive/request.service.ts';
import type { SignalEmitter } from '../signal/emit.service.ts';
import type { WebhookIntake, Webhooks } from '../webhook/webhooks.ts';
import type { Metrics, ProcessCounts } from '../insight/metrics.service.ts';
import type { Observations } from '../insight/observations.service.ts';
import type { Reach } from './context.ts';
import type { RunTokens } from '../access/credentials.service.ts';
import type { Tokens } from '../access/tokens.service.ts';
import type { ExpectedEnd } from '../job/completion.service.ts';

/** The engine of one ledger, as operations use it. */
export interface Engine {
  /** The active configuration, plugins and pipelines; a reload replaces them. */
  readonly config: Config;
  readonly catalog: Catalog;
  readonly pipelines: readonly Pipeline[];
  readonly ledger: Ledger;
  readonly processId: string;
  /** The slug of the ledger's tenant; undefined for the root ledger. */
  readonly tenant: string | undefined;
  /** The other ledgers of this process; undefined for a tenant. */
  readonly tenants: Tenants<Engine> | undefined;
  /** Counters of this process, for all of its ledgers. */
  readonly metrics: Pick<Metrics, 'read'>;
  /** Counts refused requests; undefined if nothing is recorded. */
  readonly observations?: Pick<Observations, 'count'>;
  /** The limits of the tenant; the root ledger has none. */
  readonly quota: {
    workers(): number | undefined;
    skipReason(): 'tenant_limit' | 'tenant_suspended' | undefined;
  };
  /** Tries how plugins of tenants can be kept out of other ledgers. */
  isolation(): IsolationState;
  /** The keys with which this process opens secrets, newest first. */
  readonly keyIds: readonly string[];
  /** The latest log records of this process. */
  readonly ring: LogRing;
  readonly tokens: Tokens;
  /** The tokens of attempts that run in this process, for all ledgers. */
  readonly runTokens: Pick<RunTokens, 'find'>;
  /** The addresses of this process's listeners. */
  readonly reach: Readonly<Reach>;
  readonly activity: Activity;
  readonly signals: SignalEmitter;
  /** The webhooks of this ledger. */
  readonly webhookIntake: WebhookIntake;
  /** Accepts deliveries to all ledgers; only the root's is used. */
  readonly webhooks: Webhooks;
  /** The types of directives that can be requested, and the directives that wait. */
  readonly directives: Pick<
    Directives,
    'types' | 'waiting' | 'authorize' | 'findStarted' | 'requireRole'
  >;
  /** The installations that could not be made active here, with the reason. */
  readonly refused: readonly RefusedInstallation[];
  /** Reads the packages that can be installed. */
  packages(): PackageListing;
  /** Requests a directive. A dry run describes what it would change. */
  direct(request: DirectiveRequest): Promise<DirectiveResult>;
  /**
   * Accepts one job. It is committed when this resolves. Throws for unknown plugins and commands.
   */
  submit(submission: JobSubmission): Promise<EnqueueResult>;
  /**
   * Resolves with the job when it is terminal, or with its state after the timeout or the abort.
   */
  waitFor(jobId: string, timeoutMs: number, signal?: AbortSignal): Promise<Job>;
  /** Registers for the end of a job. Call it before you submit the job with this id. */
  expectEnd(jobId: string): ExpectedEnd;
  /** Starts a run of a pipeline by its name. It is committed when this resolves. */
  startRun(submission: RunSubmission): Promise<StartedRun>;
  /** Accepts a job and runs in one commit, or none of them. */
  trigger(submission: TriggerSubmission): Promise<TriggerResult>;
  /** Does the same as `waitFor` for a run. */
  waitForRun(runId: string, timeoutMs: number, signal?: AbortSignal): Promise<Run>;
  status(): EngineStatus;
  start(mode?: StartMode): Promise<void>;
  /**
   * Claims nothing new, gives running attempts the shutdown time, then releases those that are
   * left.
   */
  stop(): Promise<void>;
}

/** `requested`: the engine only does work that was accepted; no schedule fires, and nothing is pruned. */
export type StartMode = 'all' | 'requested';

export interface EngineStatus {
  readonly processId: string;
  readonly generation: GenerationStatus;
  readonly state: 'stopped' | 'starting' | 'running' | 'paused' | 'degraded' | 'stopping';
  /** The reason if the state is degraded. */
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
  /** The counters of this process since its start. */
  readonly counts: ProcessCounts;
}

export interface GenerationStatus {
  /** 1 at the start; each reload adds one. */
  readonly number: number;
  readonly snapshotId: string;
  readonly loadedAt: Timestamp;
  /** The last reload that was requested, successful or not. */
  readonly lastReload: ReloadReport | undefined;
}

export interface ReloadReport {
  readonly at: Timestamp;
  readonly by: string;
  /** The reason if it changed nothing. */
  readonly refused: string | undefined;
}
