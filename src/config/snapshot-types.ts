import type { Timestamp } from '../base/clock.ts';
import type { JobDraft } from '../job/job.ts';

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
export interface InitRequest {
  readonly plugin: string;
  readonly fingerprint: string;
  readonly job: JobDraft;
  readonly why: 'adopted' | 'missing' | 'requested';
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
