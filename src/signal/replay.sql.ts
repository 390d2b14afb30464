import type { JobDraft } from '../job/job.ts';
import { defineRows, type Transaction } from '../ledger/dialect.ts';
import { noRunEvents } from '../pipeline/run/changes.ts';
import type { Emission, Followers, RunCommitEvents, RunDraft } from '../pipeline/run/types.ts';
import { lockDirectives } from '../directive/directive.sql.ts';
import { enqueueJobs, insertContexts } from '../job/enqueue.sql.ts';
import { lockProgress, writeProgress } from '../directive/lifecycle.sql.ts';
import { text } from '../ledger/row.ts';
import { createRuns } from '../pipeline/run/advance.sql.ts';

export interface ReplayStep extends Followers, Pick<Emission, 'contexts'> {
  readonly directiveId: string;
  readonly processId: string;
  /** Includes handlers that succeeded for the same signal before, or are running. */
  readonly force: boolean;
  readonly before: ReplayProgress;
  /** The last signal of this step. */
  readonly cursor: number;
  /** The number of signals in this step, and of those that nothing handles. */
  readonly signals: number;
  readonly unhandled: number;
  /**
   * The number of signals in this step that were skipped because their masked payload can't be
   * opened.
   */
  readonly unopened: number;
}

/** The progress of a replay. */
export interface ReplayProgress {
  /** The last signal that was processed, and the newest one when the replay started. */
  readonly cursor: number;
  readonly upTo: number;
  readonly signals: number;
  readonly jobs: number;
  readonly runs: number;
  /** Jobs and runs that were skipped: an equal one succeeded or is running. */
  readonly skipped: number;
  readonly unhandled: number;
  /** Signals that were skipped because their masked payload can't be opened. */
  readonly unopened: number;
}

export interface ReplayStepResult {
  readonly progress: ReplayProgress;
  readonly events: RunCommitEvents;
}

/**
 * Starts the handlers of some signals again and records the directive's progress, in one commit.
 */
export async function replayStep(
  tx: Transaction,
  step: ReplayStep,
): Promise<ReplayStepResult | undefined> {
  // Only one replay at a time over all hosts: two could both find the same handler missing.
  await lockDirectives(tx);
  const stored = await lockProgress<ReplayProgress>(tx, step);
  if (stored === undefined) return undefined;
  // A repeated call after a lost response: what it started must still wake the services.
  if (stored !== null && stored.cursor >= step.cursor) {
    return { progress: stored, events: { ...noRunEvents, advancing: true, queued: true } };
  }
  const { jobs, runs } = step.force ? step : await withoutHandled(tx, step);
  const used = new Set([...jobs, ...runs].map(({ eventContextId }) => eventContextId));
  insertContexts(
    tx,
    (step.contexts ?? []).filter(({ id }) => used.has(id)),
  );
  await enqueueJobs(tx, { jobs });
  const events = runs.length === 0 ? noRunEvents : (await createRuns(tx, runs)).events;
  const { before } = step;
  const progress: ReplayProgress = {
    cursor: step.cursor,
    upTo: before.upTo,
    signals: before.signals + step.signals,
    jobs: before.jobs + jobs.length,
    runs: before.runs + runs.length,
    skipped: before.skipped + step.jobs.length + step.runs.length - jobs.length - runs.length,
    unhandled: before.unhandled + step.unhandled,
    unopened: before.unopened + step.unopened,
  };
  await writeProgress(tx, step, progress);
  return { progress, events: { ...events, queued: events.queued || jobs.length > 0 } };
}

async function withoutHandled(tx: Transaction, { jobs, runs }: ReplayStep): Promise<Followers> {
  const doneJobs = keysOf(
    await tx.each(
      handledJobs,
      jobs.map((job) => ({
        signal_id: job.sourceEventId ?? '',
        plugin: job.plugin,
        command: job.command,
      })),
    ),
    ['signal_id', 'plugin', 'command'],
  );
  const doneRuns = keysOf(
    await tx.each(
      handledRuns,
      runs.map((run) => ({ signal_id: run.sourceEventId ?? '', pipeline: run.pipeline })),
    ),
    ['signal_id', 'pipeline'],
  );
  const isNewJob = ({ sourceEventId, plugin, command }: JobDraft): boolean =>
    !doneJobs.has(JSON.stringify([sourceEventId, plugin, command]));
  const isNewRun = ({ sourceEventId, pipeline }: RunDraft): boolean =>
    !doneRuns.has(JSON.stringify([sourceEventId, pipeline]));
  return { jobs: jobs.filter(isNewJob), runs: runs.filter(isNewRun) };
}

function keysOf(
  rows: Awaited<ReturnType<Transaction['each']>>,
  columns: readonly string[],
): ReadonlySet<string> {
  return new Set(rows.map((row) => JSON.stringify(columns.map((column) => text(row, column)))));
}

const handledJobs = defineRows({
  columns: { signal_id: 'text', plugin: 'text', command: 'text' },
  sql: (r, d) =>
    `select q.signal_id, q.plugin, q.command from ${r.lateral(
      `select j.source_event_id as signal_id, j.plugin, j.command from ${d.table('job_queue')} j
        where j.source_event_id = ${r('signal_id')} and j.plugin = ${r('plugin')}
          and j.command = ${r('command')}
          and (j.completed_at is null or j.status = 'succeeded') limit 1`,
    )}`,
});

const handledRuns = defineRows({
  columns: { signal_id: 'text', pipeline: 'text' },
  sql: (r, d) =>
    `select q.signal_id, q.pipeline from ${r.lateral(
      `select p.source_event_id as signal_id, p.pipeline from ${d.table('pipeline_runs')} p
        where p.source_event_id = ${r('signal_id')} and p.pipeline = ${r('pipeline')}
          and (p.completed_at is null or p.status = 'succeeded') limit 1`,
    )}`,
});
