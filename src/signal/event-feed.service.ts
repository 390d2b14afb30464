import * as z from 'zod';
import type { Timestamp } from '../base/clock.ts';
import { maskText } from '../base/secrets.ts';
import type {
  AttemptEvent,
  EventCursor,
  EventRows,
  JobEvent,
  Position,
  RunEvent,
  SignalEvent,
} from './event-feed.sql.ts';
import { RUNTIME_SOURCE } from './signal.ts';
import { showAttempt, showSignal, signalShape } from '../job/shapes.service.ts';

export const feedEventShape = signalShape
  .pick({ type: true, source: true, data: true, correlation_id: true, job_id: true })
  .extend({
    event_id: z.string().describe('the id of the signal, job, attempt or run that it is about'),
    signal_id: z.string().nullable().describe('null unless it is a signal'),
    occurred_at: signalShape.shape.occurred_at,
  });

type ShownEvent = z.output<typeof feedEventShape>;

/** An event with its position in the feed. */
export interface FeedEvent {
  readonly event: ShownEvent;
  readonly isHidden: boolean;
  /** The cursor after this event. */
  readonly cursor: EventCursor;
}

export interface MergedEvents {
  readonly merged: readonly FeedEvent[];
  readonly end: EventCursor;
  readonly more: boolean;
  readonly isPending: boolean;
}

/**
 * Merges the rows of all kinds by time. The order within a kind stays. If a kind has more rows than
 * were read, the page ends with the last one that was: later events of other kinds might come too early.
 */
export function mergeEvents(rows: EventRows, from: EventCursor): MergedEvents {
  const { jobs, signals, attempts, runs, isPending } = rows;
  const queues: RowQueue[] = [
    { kind: 'jobs', at: 0, isCut: jobs.isCut, rows: jobs.rows.map(fromJob) },
    { kind: 'signals', at: 0, isCut: signals.isCut, rows: signals.rows.map(fromSignal) },
    { kind: 'attempts', at: 0, isCut: attempts.isCut, rows: attempts.rows.map(fromAttempt) },
    { kind: 'runs', at: 0, isCut: runs.isCut, rows: runs.rows.map(fromRun) },
  ];
  const merged: FeedEvent[] = [];
  let cursor = from;
  for (;;) {
    if (queues.some(({ rows: own, at, isCut }) => isCut && at === own.length)) {
      return { merged, end: cursor, more: true, isPending };
    }
    const queue = findEarliest(queues);
    const row = queue?.rows[queue.at];
    if (queue === undefined || row === undefined) break;
    queue.at += 1;
    // Keep the transaction of the jobs' cursor: it says from which transaction on jobs are wanted.
    const position = queue.kind === 'jobs' ? { ...row.position, tx: cursor.jobs.tx } : row.position;
    cursor = { ...cursor, [queue.kind]: position };
    merged.push({ event: row.event, isHidden: row.isHidden, cursor });
  }
  const end = { jobs: jobs.end, signals: signals.end, attempts: attempts.end, runs: runs.end };
  return { merged, end, more: false, isPending };
}

/** The latest event of its type, and the number of events of this type. */
export interface FoldedEvent extends FeedEvent {
  readonly count: number;
}

/** Merged events, folded to sums. */
export interface FoldedEvents extends MergedEvents {
  readonly merged: readonly FoldedEvent[];
}

/** Folds events to the latest of each type with its count, in the order of the latest ones. */
export function foldEvents(
  merged: readonly (FeedEvent | FoldedEvent)[],
  keyOf: (one: FeedEvent) => string = ({ event }) => event.type,
): FoldedEvent[] {
  const latest = new Map<string, FoldedEvent>();
  for (const one of merged) {
    const key = keyOf(one);
    const before = latest.get(key)?.count ?? 0;
    latest.delete(key);
    latest.set(key, { ...one, count: before + ('count' in one ? one.count : 1) });
  }
  return [...latest.values()];
}

/** The rows of one kind, and the index of the next one to merge. */
interface RowQueue {
  readonly kind: keyof EventCursor;
  readonly rows: readonly FeedRow[];
  readonly isCut: boolean;
  at: number;
}

interface FeedRow {
  readonly recordedAt: Timestamp;
  readonly position: Position;
  readonly event: ShownEvent;
  readonly isHidden: boolean;
}

function findEarliest(queues: readonly RowQueue[]): RowQueue | undefined {
  let first: RowQueue | undefined;
  for (const queue of queues) {
    const time = queue.rows[queue.at]?.recordedAt;
    const known = first?.rows[first.at]?.recordedAt;
    if (time !== undefined && (known === undefined || time < known)) first = queue;
  }
  return first;
}

function fromJob(job: JobEvent): FeedRow {
  const data = {
    job_id: job.id,
    plugin: job.plugin,
    command: job.command,
    max_attempts: job.maxAttempts,
    submitted_by: job.submittedBy,
    actor: job.actor,
    created_at: job.createdAt,
    dedupe_key: job.dedupeKey,
    parent_job_id: job.parentJobId,
    source_event_id: job.sourceEventId,
    root_job_id: job.rootJobId,
    retry_of: job.retryOf,
    schedule_id: job.scheduleId,
  };
  return toServiceRow(job, { type: 'job.enqueued', data, jobId: job.id, at: job.createdAt });
}

function fromSignal(signal: SignalEvent): FeedRow {
  const { signal_id, type, source, data, correlation_id, job_id, occurred_at } = showSignal(signal);
  return {
    recordedAt: signal.insertedAt,
    position: signal.position,
    event: {
      event_id: signal_id,
      signal_id,
      type,
      source,
      data,
      correlation_id,
      job_id,
      occurred_at,
    },
    isHidden: signal.visibility === 'admin_only',
  };
}

/** The end of an attempt is an event of the service. Its output isn't part of the event. */
function fromAttempt(attempt: AttemptEvent): FeedRow {
  const { result: _result, stderr: _stderr, logs: _logs, ...rest } = showAttempt(attempt);
  // All followers share this event, so the error is masked for all of them.
  const error = rest.last_error === null ? null : maskText(rest.last_error);
  const data = { ...rest, last_error: error };
  const { jobId, completedAt: at } = attempt;
  return toServiceRow(attempt, { type: `job.${attempt.status}`, data, jobId, at });
}

/** The end of a run. A run that halts has a signal of its own instead. */
function fromRun(run: RunEvent): FeedRow {
  const data = {
    run_id: run.id,
    pipeline: run.pipeline,
    status: run.status,
    submitted_by: run.submittedBy,
    actor: run.actor,
    created_at: run.createdAt,
    started_at: run.startedAt,
    completed_at: run.completedAt,
    parent_job_id: run.parentJobId,
    source_event_id: run.sourceEventId,
    root_job_id: run.rootJobId,
    revived_from: run.revivedFrom,
  };
  return toServiceRow(run, { type: `run.${run.status}`, data, jobId: null, at: run.completedAt });
}

/** Makes an event of the service, which isn't stored as a signal. */
function toServiceRow(
  { id, position, correlationId }: Pick<JobEvent, 'id' | 'position' | 'correlationId'>,
  about: Pick<ShownEvent, 'type' | 'data'> & {
    readonly jobId: string | null;
    readonly at: Timestamp;
  },
): FeedRow {
  const { type, data, jobId, at } = about;
  const event = {
    event_id: id,
    signal_id: null,
    type,
    source: RUNTIME_SOURCE,
    data,
    correlation_id: correlationId,
    job_id: jobId,
    occurred_at: at,
  };
  return { recordedAt: at, position, event, isHidden: false };
}

/** Wakes readers of events after a write of this process. Other processes write without waking them. */
export interface Activity {
  /** Resolves soon after the next write of this process, and otherwise after this time. */
  wait(ms: number, signal?: AbortSignal): Promise<void>;
  /** Reports a write. */
  notice(): void;
}

/** The shortest time between two wake-ups, however much is written. */
const COALESCE_MS = 20;

export function makeActivity(): Activity {
  const waiting = new Set<() => void>();
  let coming: NodeJS.Timeout | undefined;
  return {
    wait(ms, signal) {
      return new Promise((resolve) => {
        const done = (): void => {
          clearTimeout(timer);
          waiting.delete(done);
          signal?.removeEventListener('abort', done);
          resolve();
        };
        const timer = setTimeout(done, ms);
        waiting.add(done);
        signal?.addEventListener('abort', done);
        if (signal?.aborted === true) done();
      });
    },
    notice() {
      if (waiting.size === 0) return;
      coming ??= setTimeout(() => {
        coming = undefined;
        // Each call removes itself from the set, which is allowed during the iteration.
        for (const done of waiting) done();
      }, COALESCE_MS);
    },
  };
}
