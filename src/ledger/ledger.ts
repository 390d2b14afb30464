import type { Timestamp } from '../base/clock.ts';
import type { Directive } from '../directive/directive.ts';
import { history } from '../job/prune-directives.ts';
import type { Attempt, AttemptReport } from '../job/attempt.ts';
import type { Job, JobDraft } from '../job/job.ts';
import type { Ending } from '../job/outcome.ts';
import type { CancelAnswer, JobStatus } from '../job/state.ts';
import type { Arrival } from '../pipeline/run/transition.ts';
import type { SignalDraft } from '../signal/signal.ts';
import type { AttemptFilter, AttemptPage, AttemptPageFilter } from '../job/attempt-types.ts';
import type { CredentialVerbs } from '../access/types.ts';
import type { CopyDirective, DirectiveClosing, DirectiveVerbs } from '../directive/types.ts';
import type { EventLimit, EventPlace, EventRows } from '../signal/event-types.ts';
import type { FindingReads } from '../insight/finding-reads.ts';
import type { GenerationVerbs } from '../config/snapshot-types.ts';
import type { IncidentVerbs } from '../insight/types.ts';
import type { InstallationVerbs } from '../package/types.ts';
import type { JobFilter, JobPageVerbs } from '../job/page-types.ts';
import type { ListPageVerbs } from './list-pages.ts';
import type { Followers, RunDraft, RunNews, RunStart, RunVerbs } from '../pipeline/run/types.ts';
import type { ScheduleVerbs } from '../schedule/types.ts';
import type { ObservationVerbs } from '../insight/observation-types.ts';
import type { OutlookVerbs } from '../tenant/outlook.ts';
import type { SignalVerbs } from '../signal/types.ts';
import type { QueueLimit, TenantVerbs } from '../tenant/types.ts';
import type { WebhookVerbs } from '../webhook/types.ts';

/**
 * A tenant's durable record, in the verbs of the domain. Each writing verb is one whole transaction,
 * executed beside the database, and resolves only after its commit; nothing outside composes a
 * transaction from parts. Verbs take and return plain data. Ids and tokens are made by the caller,
 * so that a verb whose answer was lost can be asked again and has happened once.
 */
export interface Ledger
  extends
    CredentialVerbs,
    DirectiveVerbs,
    FindingReads,
    GenerationVerbs,
    IncidentVerbs,
    InstallationVerbs,
    JobPageVerbs,
    ListPageVerbs,
    ObservationVerbs,
    OutlookVerbs,
    RunVerbs,
    ScheduleVerbs,
    SignalVerbs,
    TenantVerbs,
    WebhookVerbs {
  readonly kind: 'sqlite' | 'postgres';

  /** Accepts work: committed when it resolves. */
  enqueue(batch: EnqueueBatch): Promise<Enqueued[]>;
  /** Accepts runs, with what goes along with them: committed when it resolves. */
  startRuns(batch: EnqueueBatch): Promise<Started>;
  /** Takes ready jobs, oldest first, within every limit, for a process that has said that it lives. */
  claim(request: ClaimRequest): Promise<ClaimedJob[]>;
  /** Closes attempts, each with all its consequences or none, and then claims in the same commit. */
  settle(closings: readonly Closing[], claim?: ClaimRequest): Promise<Settlement>;
  /** Closes the attempts of a process that is proven or presumed dead, and forgets the process. */
  reap(request: ReapRequest): Promise<Settlement>;
  /** Asks a job to stop: a queued one never starts, a running one is stopped by its owner. */
  cancel(jobId: string): Promise<CancelAnswer>;
  /** Queued jobs whose time has come are ready now; says when the next one will be. */
  promote(): Promise<Promotion>;
  prune(request: PruneRequest): Promise<number>;
  /** How many that would delete, up to its limit; of runs, without their parts. */
  countPrunable(request: PruneRequest): Promise<number>;

  /** A process says that it lives; answers with what the ledger believes it is running. */
  heartbeat(process: ProcessBeat): Promise<HeartbeatAnswer>;
  /** A process leaves of its own will, with nothing left running. */
  leave(processId: string): Promise<void>;
  orphans(request: OrphanRequest): Promise<Orphan[]>;
  /** Queued jobs whose plugin no live process has known for the grace time. */
  unrunnable(request: UnrunnableRequest): Promise<Job[]>;
  /** Jobs of a plugin that wait, for now or for later; so many at the most. */
  queuedOf(plugin: string, limit: number): Promise<Job[]>;
  /** Claims that outlived their time although their process lives. */
  expiredClaims(): Promise<Job[]>;

  job(id: string): Promise<Job | undefined>;
  jobs(filter: JobFilter): Promise<Job[]>;
  /** How many there are, counted no further than the filter's limit. */
  countJobs(filter: JobFilter): Promise<number>;
  attempts(jobIds: readonly string[]): Promise<Attempt[]>;
  attemptsOf(filter: AttemptFilter): Promise<Attempt[]>;
  /** Reads a page of attempts; it looks at a bounded number of rows, whatever the filter. */
  attemptPage(filter: AttemptPageFilter): Promise<AttemptPage>;
  /** What was recorded after a place, in an order that nothing is ever added before. */
  events(after: EventPlace, limit: EventLimit): Promise<EventRows>;
  eventEnd(): Promise<EventPlace>;
  /** The newest first; `beforeSeq` continues after a page. */
  facts(plugin: string, limit: number, factType?: string, beforeSeq?: number): Promise<Fact[]>;
  state(plugin: string): Promise<string>;
  counts(): Promise<QueueCounts>;
  processes(): Promise<ProcessRow[]>;
  now(): Promise<Timestamp>;

  meta(key: MetaKey): Promise<string | undefined>;
  setMeta(key: MetaKey, value: string): Promise<void>;

  /** Calls back, soon and at most once for many changes, when another process made work ready. */
  onHint(listener: () => void): void;
  /** Tells other processes that work is ready; a hint that may be lost. */
  hint(): void;
  /** The name under which rows say that this ledger's user waits for their end. */
  readonly listener: string;
  /**
   * Calls back, after their commit, with jobs and runs that may be over: those that ended here, and
   * those that ended elsewhere and are awaited here. Undefined: any may be, because telling was
   * interrupted. Looking is the truth, as with hints; only what `known` says of some need not be looked for.
   */
  onEnds(listener: (ids: readonly string[] | undefined, known?: KnownEnds) => void): void;
  /** Has the end of something told here that was not enqueued as awaited from here. */
  awaitEnd(what: 'job' | 'run', id: string): Promise<void>;
  /** Copies the ledger into a file, in which the directive that makes the copy is completed. */
  backup(path: string, directive?: CopyDirective): Promise<void>;
  /** Every inconsistency that the database and our own invariants can show; empty when sound. */
  check(): Promise<string[]>;
  /** The part of it that is found at once, however much there is. */
  quickCheck(): Promise<string[]>;
  /** Compares indexes with their tables, beside the work; it may take long. */
  checkIndexes(): Promise<IndexCheck>;
  close(): Promise<void>;
}

export interface IndexCheck {
  readonly problems: readonly string[];
  /** Why the database could not be asked; null when it was. */
  readonly skipped: string | null;
}

/** What a job came to: how it ended, and what its last attempt answered. */
export interface JobEnd {
  readonly status: JobStatus;
  readonly result: string | null;
}

/** By the ids of jobs, whose ends are committed. */
export type KnownEnds = ReadonlyMap<string, JobEnd>;

export interface EnqueueBatch {
  /** Refuses the whole batch with TENANT_LIMIT when it doesn't fit. */
  readonly queueLimit?: QueueLimit | undefined;
  readonly jobs: readonly JobDraft[];
  readonly signals?: readonly SignalDraft[];
  readonly contexts?: readonly ContextDraft[];
  readonly runs?: readonly RunDraft[];
}

export interface ContextDraft {
  readonly id: string;
  readonly parentId?: string;
  /** The step that added to it. */
  readonly pipeline?: string;
  readonly stepId?: string;
  readonly accumulated: string;
}

/** What became of each job and run of a batch, in their order. */
export interface Started extends RunNews {
  readonly jobs: readonly Enqueued[];
  readonly runs: readonly RunStart[];
}

/** `duplicateOf` names the job that already does or did this work; nothing was added then. */
export interface Enqueued {
  readonly jobId: string;
  readonly duplicateOf?: string;
  readonly dedupeKey?: string;
}

export interface ClaimRequest {
  readonly processId: string;
  readonly token: string;
  readonly slots: number;
  /** How many may run at once in this ledger, whoever runs them. */
  readonly workersMax?: number;
  /** What this process knows how to run; it claims nothing else. */
  readonly plugins: readonly ClaimablePlugin[];
  /** The configuration that the claimed jobs will run with. */
  readonly snapshotId?: string;
}

export interface ClaimablePlugin {
  readonly name: string;
  readonly parallelism: number;
  /** How long a claim may last before others presume it lost, by command. */
  readonly leaseMs: Readonly<Record<string, number>>;
  readonly leaseDefaultMs: number;
  /** What a claim of a job with a timeout of its own lasts beyond that. */
  readonly leaseSlackMs?: number;
  /** When it has an init: for which configuration, and whether all else has to wait for it. */
  readonly init?: { readonly fingerprint: string; readonly isHeld: boolean };
}

export interface ClaimedJob extends Job {
  readonly claimToken: string;
  readonly startedAt: Timestamp;
  /** The plugin's state when it was claimed, as JSON text. */
  readonly state: string;
  /** The baggage of its chain, as JSON text. */
  readonly context: string;
  readonly queueMs: number;
}

/** The end of one attempt and everything that it causes. */
export interface Closing {
  readonly job: Job;
  /** The fence: only the claim that holds it is closed. Null closes a job that still is queued. */
  readonly claimToken: string | null;
  readonly report: AttemptReport;
  readonly ending: Ending;
  readonly state?: StateChange;
  readonly signals: readonly SignalDraft[];
  readonly jobs: readonly JobDraft[];
  readonly runs?: readonly RunDraft[];
  /** What a step's end brings its branch; from the ending alone when it is not a success. */
  readonly arrival?: Arrival;
  /** What follows when this end opens or closes the breaker of its command. */
  readonly followBreaker?: (signal: SignalDraft) => Followers;
}

/** A declared snapshot becomes a fact and replaces the state; undeclared updates are merged into it. */
export type StateChange =
  | {
      readonly kind: 'snapshot';
      readonly factType: string;
      readonly mirror: boolean;
      readonly value: string;
    }
  | { readonly kind: 'merge'; readonly value: string };

/**
 * `settled` also answers a closing that was told before in the same words; nothing is written then.
 * `fenced`: the claim was lost, nothing was written. `cancelled`: somebody asked for its end first,
 * nothing was written yet. `oversize`: the state would pass its limit, nothing was written.
 */
export type Verdict = 'settled' | 'fenced' | 'cancelled' | 'oversize';

export interface Settlement {
  readonly verdicts: ReadonlyMap<string, Verdict>;
  /** The jobs that were asked for by the closings that settled. */
  readonly enqueued: readonly Enqueued[];
  readonly claimed: readonly ClaimedJob[];
  readonly news: RunNews;
  /** Whether nothing was written after it; missing where nobody can know. */
  readonly isLatest?: (() => boolean) | undefined;
}

export interface ReapRequest {
  readonly processId: string;
  /** Only when its last heartbeat is older than this by the database's clock; 0 when proven dead. */
  readonly staleMs: number;
  readonly closings: readonly Closing[];
  readonly directives?: readonly DirectiveClosing[];
  /** Directives that are to be begun anew. */
  readonly released?: readonly Pick<Directive, 'id' | 'processId'>[];
}

export interface OrphanRequest {
  readonly self: string;
  readonly staleMs: number;
}

export interface Orphan {
  readonly processId: string;
  readonly jobs: readonly Job[];
  /** What it was executing. */
  readonly directives: readonly Directive[];
}

export interface Promotion {
  readonly promoted: number;
  /** Milliseconds until the next delayed job is due, by the database's clock. */
  readonly nextInMs: number | undefined;
}

export interface UnrunnableRequest {
  /** Plugins that this process has and could not load; their jobs are left alone. */
  readonly unloaded?: readonly string[];
  readonly graceMs: number;
  readonly staleMs: number;
  readonly limit: number;
}

export const prunable = [...history, 'dedupe', 'keys'] as const;
export type Prunable = (typeof prunable)[number];

export interface PruneRequest {
  readonly what: Prunable;
  readonly olderThanMs: number;
  readonly limit: number;
}

export interface ProcessBeat {
  readonly id: string;
  readonly host: string;
  readonly pid: number;
  readonly version: string;
  readonly slots: number;
  readonly spawner: string;
  readonly plugins: readonly string[];
  /** The configuration that it uses: its file, and a digest of all files that were read for it. */
  readonly configFile?: string | undefined;
  readonly configDigest?: string | undefined;
}

export interface HeartbeatAnswer {
  /** False when somebody reaped this process: its claims are lost. */
  readonly known: boolean;
  readonly running: readonly RunningClaim[];
  /** That of the ledger, which a newer program may have changed; only told to who is known. */
  readonly schemaVersion?: number;
}

export interface RunningClaim {
  readonly jobId: string;
  readonly claimToken: string;
  readonly cancelRequested: boolean;
}

export interface ProcessRow {
  readonly id: string;
  readonly host: string;
  readonly pid: number;
  readonly version: string;
  readonly slots: number;
  readonly spawner: string;
  readonly startedAt: Timestamp;
  readonly lastHeartbeatAt: Timestamp;
  /** Null for a process of an older program. */
  readonly configFile: string | null;
  readonly configDigest: string | null;
}

export interface Fact {
  readonly seq: number;
  readonly plugin: string;
  readonly factType: string;
  readonly jobId: string | null;
  readonly command: string | null;
  readonly fact: string;
  readonly createdAt: Timestamp;
}

export interface QueueCounts {
  readonly ready: number;
  readonly delayed: number;
  readonly running: number;
  /** Since when the longest waiting of those waits that are next in line, one for each plugin. */
  readonly oldestReadyAt: Timestamp | null;
}

export type MetaKey =
  | 'attempts_pruned_to'
  | 'epoch'
  | 'incidents_watched_at'
  | 'installations_version'
  | 'paused'
  | 'pruned_at'
  | 'schedules'
  | 'restored_from'
  | 'restoring'
  | 'tenant_of';
