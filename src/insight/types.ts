import type { Timestamp } from '../base/clock.ts';
import type { JsonObject } from '../base/json.ts';
import { columnOf, table, type RowOf } from '../ledger/table.ts';
import type { Job } from '../job/job.ts';
import type { Emission, RunCommitEvents } from '../pipeline/run/types.ts';
import type { Run, Step } from '../pipeline/run/run.ts';

/** An ended job, as far as streaks of failures need it. */
export interface RecentJobEnd extends Pick<Job, 'id' | 'plugin' | 'command' | 'status'> {
  readonly error: string | null;
  /** It handled a signal of the service itself. */
  readonly isAlarm: boolean;
}

export const incidentTable = table('incidents', {
  seq: 'int',
  id: 'text',
  /** The kind of its finding. */
  kind: 'text',
  /** The object, such as `mail/handle`. For each kind and key, one incident is open at most. */
  key: 'text',
  openedAt: 'time',
  lastSeenAt: 'time',
  closedAt: 'time?',
  /** How often it happened. */
  count: 'int',
  /** JSON text of an object. */
  detail: 'text',
});

export type Incident = RowOf<typeof incidentTable>;

/** A problem that lasts now, or that happened since the last review. */
export interface IncidentDraft {
  readonly kind: string;
  readonly key: string;
  /** How often it happened since the last review. 0 for a problem that lasts. */
  readonly count: number;
  readonly detail: JsonObject;
  /** It is about a job that handled a signal of the service. It isn't routed, so that alarms can't loop. */
  readonly isAlarm?: boolean;
}

export interface IncidentFilter {
  readonly kind?: string;
  readonly isOpen?: boolean;
  readonly idPrefix?: string;
  /** Keyset page: rows with a smaller seq than this. */
  readonly beforeSeq?: number;
  readonly limit: number;
}

export interface IncidentChanges {
  readonly opened: readonly (Pick<Incident, 'id' | 'kind' | 'key' | 'count' | 'detail'> & {
    readonly emission: Emission;
  })[];
  /** Incidents that were found again. The count is added. */
  readonly renewed: readonly Pick<Incident, 'id' | 'count' | 'detail'>[];
  readonly closed: readonly { readonly id: string; readonly emission: Emission }[];
}

export interface IncidentResult {
  /** The ids of the incidents that this transaction opened and closed, and no other host. */
  readonly opened: readonly string[];
  readonly closed: readonly string[];
  readonly events: RunCommitEvents;
}

export interface QueueHeads {
  readonly now: Timestamp;
  /** The first ready job of each plugin, and since when it is ready. */
  readonly heads: readonly { readonly plugin: string; readonly readyAt: Timestamp }[];
  /** The number of running jobs, by plugin. */
  readonly running: ReadonlyMap<string, number>;
  /** A job started or ended within the requested time. */
  readonly isMoving: boolean;
}

/** `call_refused`: a token lacks a scope or isn't valid. `job_suppressed`: a dedupe key dropped it. */
export type ObservationKind = 'call_refused' | 'job_suppressed';

export const observationTable = table('observations', {
  kind: columnOf<ObservationKind>('text'),
  key: 'text',
  bucket: 'text',
  count: 'int',
  firstAt: 'time',
  lastAt: 'time',
  /** JSON text of an object. The newest one is kept. */
  detail: 'text',
});

/** The observations of one kind and key, summed up. */
export type Observation = Omit<RowOf<typeof observationTable>, 'bucket'>;

export type ObservationDraft = Omit<Observation, 'firstAt' | 'lastAt'>;

export interface FindingWindow {
  /** Only objects that ended at this moment or later. */
  readonly since: Timestamp;
  /** The most rows to read, newest first. For jobs: of each plugin. */
  readonly visitMax: number;
  /** The most plugins to read. */
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

/** A step of a running run that waits for an approval. */
export interface OpenQuestion extends Pick<
  Step,
  'id' | 'runId' | 'node' | 'note' | 'startedAt' | 'dueAt'
> {
  readonly pipeline: string;
}
