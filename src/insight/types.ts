import type { Timestamp } from '../base/clock.ts';
import type { Job } from '../job/job.ts';
import type { RunCommitEvents } from '../pipeline/run/types.ts';
import type { Emission } from '../signal/types.ts';
import type { Run, Step } from '../pipeline/run/run.ts';

export interface RecentJobEnd extends Pick<Job, 'id' | 'plugin' | 'command' | 'status'> {
  readonly error: string | null;
  /** It was to handle what the runtime said. */
  readonly isAlarm: boolean;
}

/** Kinds that only a running service can see; `doctor` reads them from the open incidents. */
export const observedKinds = [
  'failure_streak',
  'schedule_overdue',
  'queue_stalled',
  'poison_job',
  'hops_limit',
  'ledger_damaged',
] as const;

/** Kinds that a check in `src/insight` finds: open while the check finds them. */
export const checkedKinds = [
  'breaker_open',
  'plugin_not_loaded',
  'plugin_not_set_up',
  'run_halted',
  'disk_full',
  'approval_waiting',
  'job_dead',
  'credential_key_missing',
  'credential_missing',
  'crash_loop',
  'job_overlong',
  'work_suppressed',
  'plugin_env_missing',
] as const;

/** Kinds of things that happened: an operator can acknowledge them, and only new ones count then. */
export const acknowledgeableKinds = [
  'job_dead',
  'run_halted',
  'failure_streak',
  'poison_job',
  'hops_limit',
  'work_suppressed',
  'call_refused',
] as const;

export const incidentKinds = [...observedKinds, ...checkedKinds] as const;
export type IncidentKind = (typeof incidentKinds)[number];

export interface Incident {
  readonly seq: number;
  readonly id: string;
  readonly kind: IncidentKind;
  /** What it is about, such as `mail/handle`; of a kind only one of a key is open. */
  readonly key: string;
  readonly openedAt: Timestamp;
  readonly lastSeenAt: Timestamp;
  readonly closedAt: Timestamp | null;
  /** How often it was seen. */
  readonly count: number;
  /** JSON text of an object. */
  readonly detail: string;
}

export interface IncidentFilter {
  readonly kind?: IncidentKind;
  readonly isOpen?: boolean;
  readonly idPrefix?: string;
  /** Keyset page: rows with a smaller seq than this. */
  readonly beforeSeq?: number;
  readonly limit: number;
}

export interface IncidentMoves {
  readonly opened: readonly (Pick<Incident, 'id' | 'kind' | 'key' | 'count' | 'detail'> & {
    readonly emission: Emission;
  })[];
  /** Those that were seen again; the count is what comes on top. */
  readonly renewed: readonly Pick<Incident, 'id' | 'count' | 'detail'>[];
  readonly closed: readonly { readonly id: string; readonly emission: Emission }[];
}

export interface MovedIncidents {
  /** The ids of those that were opened and closed here, and not elsewhere. */
  readonly opened: readonly string[];
  readonly closed: readonly string[];
  readonly news: RunCommitEvents;
}

export interface QueueHeads {
  readonly now: Timestamp;
  /** The next in line of each plugin that has ready jobs, and since when it is. */
  readonly heads: readonly { readonly plugin: string; readonly readyAt: Timestamp }[];
  /** How many run, by plugin. */
  readonly running: ReadonlyMap<string, number>;
  /** Something was started or ended within the time that was asked about. */
  readonly isMoving: boolean;
}

/** `call_refused`: a token lacks a scope or isn't valid. `job_suppressed`: a dedupe key is taken. */
export type ObservationKind = 'call_refused' | 'job_suppressed';

export interface ObservationDraft {
  readonly kind: ObservationKind;
  readonly key: string;
  readonly count: number;
  /** JSON text of an object; the newest one counts. */
  readonly detail: string;
}

export interface Observation extends ObservationDraft {
  readonly firstAt: Timestamp;
  readonly lastAt: Timestamp;
}

export interface EndedRequest {
  /** Ended at this moment or later. */
  readonly since: Timestamp;
  /** Rows that are looked at, the newest first; of jobs for each plugin. */
  readonly visitMax: number;
  /** Plugins that are looked at. */
  readonly groupsMax: number;
}

export type DeadJob = Pick<
  Job,
  'id' | 'plugin' | 'command' | 'lastError' | 'attempt' | 'completedAt' | 'sourceEventId'
>;

export type HaltedRun = Pick<
  Run,
  'id' | 'pipeline' | 'haltReason' | 'haltMessage' | 'haltedAtStep' | 'completedAt'
>;

export interface OpenQuestion extends Pick<
  Step,
  'id' | 'runId' | 'node' | 'note' | 'startedAt' | 'dueAt'
> {
  readonly pipeline: string;
}
