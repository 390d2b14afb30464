import type { Timestamp } from '../base/clock.ts';
import type { Attempt, AttemptFilter, AttemptPage, AttemptPageFilter } from '../job/attempt.ts';
import type { Job, CancelAnswer } from '../job/job.ts';
import type { CredentialVerbs } from '../access/types.ts';
import type { CopyDirective, DirectiveVerbs } from '../directive/types.ts';
import type { EventLimit, EventPlace, EventRows, SignalVerbs } from '../signal/types.ts';
import type { FindingReads } from '../insight/finding-reads.ts';
import type { GenerationVerbs } from '../config/snapshot-types.ts';
import type { IncidentVerbs } from '../insight/types.ts';
import type { InstallationVerbs } from '../package/types.ts';
import type {
  JobFilter,
  JobPageVerbs,
  ClaimedJob,
  ClaimRequest,
  Enqueued,
  Fact,
  HeartbeatAnswer,
  KnownEnds,
  Orphan,
  OrphanRequest,
  ProcessBeat,
  ProcessRow,
  Promotion,
  PruneRequest,
  QueueCounts,
  UnrunnableRequest,
} from '../job/types.ts';
import type { IndexCheck } from './check-indexes.ts';
import type { Closing, EnqueueBatch, ReapRequest, Settlement, Started } from './commit.ts';
import type { ListPageVerbs } from './list-pages.ts';
import type { MetaKey } from './meta.ts';
import type { RunVerbs } from '../pipeline/run/types.ts';
import type { ScheduleVerbs } from '../schedule/types.ts';
import type { ObservationVerbs } from '../insight/observation-types.ts';
import type { OutlookVerbs } from '../tenant/outlook.ts';
import type { TenantVerbs } from '../tenant/types.ts';
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
