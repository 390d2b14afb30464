import type { Timestamp } from '../base/clock.ts';
import type { JobDraft } from '../job/job.ts';

/** What processes worked with, whether plugins were set up for it, and how it went. */
export interface GenerationVerbs {
  /** One for each start and reload of a process. */
  recordSnapshot(draft: SnapshotDraft): Promise<void>;
  /** A snapshot that is in use is not pruned. */
  touchSnapshot(id: string): Promise<void>;
  snapshot(id: string): Promise<ConfigSnapshot | undefined>;
  /** The newest first; `before` continues after a page. */
  snapshots(limit: number, before?: SnapshotPlace): Promise<ConfigSnapshot[]>;
  /** Snapshots that an older program recorded, whose rules for secrets knew less. */
  unmaskedSnapshots(limit: number): Promise<SnapshotText[]>;
  /** Replaces what such snapshots show. */
  maskSnapshots(masked: readonly SnapshotText[]): Promise<void>;

  /** Queues the inits that this ledger has not seen; exactly one of many who ask does. */
  requireInits(wishes: readonly InitWish[]): Promise<PluginHealth[]>;
  /** What is known of plugins' health, with the ends of inits that were under way. */
  reviewHealth(): Promise<PluginHealth[]>;
  noteHealth(note: HealthNote): Promise<void>;
  pluginHealth(): Promise<PluginHealth[]>;

  attemptStatistics(windowMs: number): Promise<AttemptStatistics>;
  queueStatistics(windowMs: number): Promise<QueueStatistics>;
}

export interface SnapshotDraft {
  readonly id: string;
  readonly hash: string;
  /** JSON text without secrets. */
  readonly config: string;
  /** JSON text: the fingerprint of each plugin. */
  readonly plugins: string;
  readonly reason: 'start' | 'reload';
  readonly generation: number;
  readonly processId: string;
}

export type SnapshotText = Pick<SnapshotDraft, 'id' | 'config'>;

export interface ConfigSnapshot extends SnapshotDraft {
  readonly createdAt: Timestamp;
  readonly lastUsedAt: Timestamp;
}

/**
 * `adopted`: a process begins to work with this configuration. `missing`: it does already, and its
 * row is gone. `asked`: somebody wants it done again.
 */
export interface InitWish {
  readonly plugin: string;
  readonly fingerprint: string;
  readonly job: JobDraft;
  readonly why: 'adopted' | 'missing' | 'asked';
}

export type HealthStatus = 'pending' | 'healthy' | 'unhealthy';

/** How a plugin's init for one configuration, or its last check, went. */
export interface PluginHealth {
  readonly plugin: string;
  readonly kind: 'init' | 'health';
  readonly fingerprint: string;
  readonly status: HealthStatus;
  readonly reason: string | null;
  readonly jobId: string;
  readonly updatedAt: Timestamp;
}

export interface HealthNote {
  readonly plugin: string;
  readonly status: HealthStatus;
  readonly reason: string | null;
  readonly jobId: string;
}

export interface AttemptStatistics {
  readonly groups: readonly {
    readonly plugin: string;
    readonly command: string;
    readonly status: string;
    readonly attempts: number;
    /** Those that had a process. */
    readonly ran: number;
    readonly runMs: number;
    readonly maxRunMs: number;
    readonly queueMs: number;
  }[];
  /** Older ones in the same time were left out. */
  readonly truncated: boolean;
}

export interface QueueStatistics {
  /** Jobs that ended as dead in that time. */
  readonly dead: number;
  /** Since when the job waits that is next in line for longest. */
  readonly oldestReadyAt: Timestamp | null;
  readonly lanes: readonly {
    readonly plugin: string;
    readonly ready: number;
    readonly delayed: number;
    readonly running: number;
  }[];
}

/** The last row of a page of snapshots. */
export interface SnapshotPlace {
  readonly createdAt: string;
  readonly id: string;
}
