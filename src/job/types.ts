import type { Timestamp } from '../base/clock.ts';
import type { Directive } from '../directive/directive.ts';
import {
  columnNamed,
  columnOf,
  jsonColumn,
  table,
  type Optional,
  type RowOf,
} from '../ledger/table.ts';
import { historyKinds } from './bulk.ts';
import type { Job, JobDraft, JobStatus } from './job.ts';

/** The status of an ended job and the result of its last attempt. */
export interface JobEnd {
  readonly status: JobStatus;
  readonly result: string | null;
}

/** Ends that are committed, by job id. */
export type KnownEnds = ReadonlyMap<string, JobEnd>;

export const contextTable = table('event_context', {
  id: 'text',
  parentId: 'text?',
  /** The step that extended the baggage. */
  pipeline: columnNamed('pipeline_name', 'text?'),
  stepId: 'text?',
  /** The baggage as JSON text. */
  accumulated: columnNamed('accumulated_json', 'text'),
  createdAt: 'time',
});

type ContextRow = RowOf<typeof contextTable>;

/** Baggage to be stored. */
export type ContextDraft = Pick<ContextRow, 'id' | 'accumulated'> &
  Optional<ContextRow, 'parentId' | 'pipeline' | 'stepId'>;

/** `duplicateOf` names the job that holds the dedupe key. Nothing was inserted then. */
export interface EnqueueResult {
  readonly jobId: string;
  readonly duplicateOf?: string;
  readonly dedupeKey?: string;
}

export interface ClaimRequest {
  readonly processId: string;
  readonly token: string;
  readonly slots: number;
  /** The most jobs that all processes together may run in this ledger. */
  readonly workersMax?: number;
  /** The plugins that this process has. It claims jobs of no other plugin. */
  readonly plugins: readonly ClaimablePlugin[];
  /** The configuration snapshot that the claimed jobs run with. */
  readonly snapshotId?: string;
}

export interface ClaimablePlugin {
  readonly name: string;
  readonly parallelism: number;
  /** By command: how long a claim lasts until other processes presume it lost. */
  readonly leaseMs: Readonly<Record<string, number>>;
  readonly leaseDefaultMs: number;
  /** Added to the timeout of a job that has its own timeout. */
  readonly leaseSlackMs?: number;
  /** Set for a plugin with an init command. `isHeld`: its other jobs wait for the init. */
  readonly init?: { readonly fingerprint: string; readonly isHeld: boolean };
}

export interface ClaimedJob extends Job {
  readonly claimToken: string;
  readonly startedAt: Timestamp;
  /** The plugin's state at the time of the claim, as JSON text. */
  readonly state: string;
  /** The baggage, as JSON text. */
  readonly context: string;
  readonly queueMs: number;
}

/** A declared snapshot becomes a fact and replaces the state. Other updates are merged into the state. */
export type StateChange =
  | {
      readonly kind: 'snapshot';
      readonly factType: string;
      readonly mirror: boolean;
      readonly value: string;
    }
  | { readonly kind: 'merge'; readonly value: string };

/**
 * The verdict of the ledger on one closing. Only `settled` can have written something.
 * `settled`: the attempt is closed, by this closing or by an equal one before.
 * `fenced`: the claim was lost.
 * `cancelled`: the cancellation of the job was requested before.
 * `oversize`: the plugin's state would exceed its limit.
 */
export type SettleVerdict = 'settled' | 'fenced' | 'cancelled' | 'oversize';

/** A query for processes that this process presumes dead. */
export interface OrphanRequest {
  readonly self: string;
  readonly staleMs: number;
}

/** A dead process, with the work that it left. */
export interface Orphan {
  readonly processId: string;
  readonly jobs: readonly Job[];
  /** The directives that the process was executing. */
  readonly directives: readonly Directive[];
}

/** The result of promoting delayed jobs that are due. */
export interface PromotionResult {
  readonly promoted: number;
  /** Milliseconds until the next delayed job is due, by the database's clock. */
  readonly nextInMs: number | undefined;
}

/** A query for queued jobs whose plugin no process has. */
export interface UnrunnableRequest {
  /** Plugins that this process could not load. Their jobs are skipped. */
  readonly unloaded?: readonly string[];
  readonly graceMs: number;
  readonly staleMs: number;
  readonly limit: number;
}

/** The kinds of rows that are deleted after their retention. */
export const prunableKinds = [...historyKinds, 'dedupe', 'keys'] as const;

export type PrunableKind = (typeof prunableKinds)[number];

/** A request to delete rows of one kind that are older than an age. */
export interface PruneRequest {
  readonly what: PrunableKind;
  readonly olderThanMs: number;
  readonly limit: number;
}

export const processTable = table('processes', {
  id: 'text',
  host: 'text',
  pid: 'int',
  version: 'text',
  slots: 'int',
  spawner: 'text',
  plugins: jsonColumn<readonly string[]>(),
  pluginsSince: 'time?',
  startedAt: 'time',
  lastHeartbeatAt: 'time',
  /** The path of the configuration file. Null if the process runs an older version. */
  configFile: 'text?',
  /** A digest of all files that belong to the configuration. */
  configDigest: 'text?',
});

export type ProcessRow = Omit<RowOf<typeof processTable>, 'plugins' | 'pluginsSince'>;

/** The fields of a process that its heartbeat records. */
export interface ProcessBeat extends Pick<
  RowOf<typeof processTable>,
  'id' | 'host' | 'pid' | 'version' | 'slots' | 'spawner' | 'plugins'
> {
  readonly configFile?: string | undefined;
  readonly configDigest?: string | undefined;
}

export interface HeartbeatResult {
  /** False when another process has reaped this one: its claims are lost. */
  readonly known: boolean;
  readonly running: readonly RunningClaim[];
  /** The schema version of the ledger, which a newer program may have migrated. Set for known processes. */
  readonly schemaVersion?: number;
}

/** A claim that the ledger has for a process. */
export interface RunningClaim {
  readonly jobId: string;
  readonly claimToken: string;
  readonly cancelRequested: boolean;
}

export const factTable = table('plugin_facts', {
  seq: 'int',
  plugin: columnNamed('plugin_name', 'text'),
  factType: 'text',
  jobId: 'text?',
  command: 'text?',
  /** JSON text. */
  fact: columnNamed('fact_json', 'text'),
  createdAt: 'time',
});

export type Fact = RowOf<typeof factTable>;

export interface QueueCounts {
  readonly ready: number;
  readonly delayed: number;
  readonly running: number;
  /** The smallest `readyAt` of the jobs that are next, one job per plugin. */
  readonly oldestReadyAt: Timestamp | null;
}

/** The most jobs that can be queued in a tenant's ledger, ready or delayed. */
export interface QueueLimit {
  readonly most: number;
  readonly tenant: string;
}

export interface JobFilter {
  readonly plugin?: string;
  readonly command?: string;
  readonly status?: readonly JobStatus[];
  /** Only ids with this prefix. */
  readonly idPrefix?: string;
  readonly rootJobId?: string;
  readonly parentJobId?: string;
  /** Only jobs that this signal caused. */
  readonly sourceEventId?: string;
  /** Only jobs that one of these jobs caused, or that retry one of them. */
  readonly causedBy?: readonly string[];
  /** Only retries of these jobs. */
  readonly retryOf?: readonly string[];
  readonly submittedBy?: string;
  /** Only jobs that were created in [from, to). */
  readonly from?: Timestamp;
  readonly to?: Timestamp;
  /** The minimum age, by the database's clock. */
  readonly olderThanMs?: number;
  /** Part of the last error. Case is ignored. */
  readonly query?: string;
  /** Only jobs without a retry. */
  readonly notRetried?: boolean;
  readonly upToSeq?: number;
  /** Keyset page: rows with a smaller seq than this. */
  readonly beforeSeq?: number;
  readonly order?: 'newest' | 'oldest';
  readonly limit: number;
}

/** The filters of job lists. */
export type JobPageFilter = Pick<
  JobFilter,
  | 'plugin'
  | 'command'
  | 'status'
  | 'submittedBy'
  | 'from'
  | 'to'
  | 'query'
  | 'beforeSeq'
  | 'order'
  | 'limit'
> & {
  /** The most rows to read, if not the default. */
  readonly visitMax?: number;
};

export interface JobPage {
  readonly jobs: readonly Job[];
  /** `beforeSeq` of the next page; undefined on the last page. Earlier pages may be short. */
  readonly next: number | undefined;
}

/** A count of rows. If it isn't exact, there are at least that many. */
export interface BoundedCount {
  readonly count: number;
  readonly isExact: boolean;
}

/**
 * A request to run the init of a plugin. `adopted`: a process starts to use this configuration. `missing`:
 * a process uses it, and its row is gone. `requested`: an operator requested it again.
 */
export interface InitRequest {
  readonly plugin: string;
  readonly fingerprint: string;
  readonly job: JobDraft;
  readonly why: 'adopted' | 'missing' | 'requested';
}

export type HealthStatus = 'pending' | 'healthy' | 'unhealthy';

/** The results of plugins' inits, each for one configuration, and of their last health checks. */
export const healthTable = table('plugin_health', {
  plugin: columnNamed('plugin_name', 'text'),
  kind: columnOf<'init' | 'health'>('text'),
  fingerprint: 'text',
  status: columnOf<HealthStatus>('text'),
  reason: 'text?',
  jobId: 'text',
  updatedAt: 'time',
  seenAt: 'time',
});

export type PluginHealth = Omit<RowOf<typeof healthTable>, 'seenAt'>;

/** The result of a health check, as it is recorded. */
export type HealthNote = Pick<PluginHealth, 'plugin' | 'status' | 'reason' | 'jobId'>;

/** A job that holds a dependency key. */
export interface DependencyHolder {
  readonly id: string;
  readonly isRunning: boolean;
}

/** The position of a ready job in the queue. */
export interface QueuePosition {
  /** Running jobs of this ledger on all hosts. */
  readonly running: readonly RunningJob[];
  /** Ready jobs of its plugin before it, counted up to a limit. */
  readonly ahead: number;
}

export type RunningJob = Pick<
  Job,
  | 'id'
  | 'plugin'
  | 'command'
  | 'startedAt'
  | 'claimExpiresAt'
  | 'claimedBy'
  | 'dedupeKey'
  | 'dependencyKey'
  | 'suspect'
>;

export const switchTable = table('plugin_switches', {
  plugin: columnNamed('plugin_name', 'text'),
  enabled: 'flag',
  changedBy: 'text',
  changedAt: 'time',
});

/** A plugin that was disabled. */
export type PluginSwitch = Omit<RowOf<typeof switchTable>, 'enabled'>;
