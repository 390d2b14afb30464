import * as z from 'zod';
import type { Timestamp } from '../base/clock.ts';
import { isObject, parseStoredJson } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import { showRow } from '../base/show-row.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { pluginLogLevels, readPluginLogs } from '../plugin/response.ts';
import type { Signal } from '../signal/signal.ts';
import { attemptStatuses, attemptCauses, type Attempt } from './attempt.ts';
import { jobStatuses, isTerminal, type Job } from './job.ts';

/** The form of jobs, attempts and signals in responses: snake_case, times as they are stored. */

const idField = z.string();
const time = z.string().describe('UTC, ISO 8601 with milliseconds') satisfies z.ZodType<Timestamp>;
const ms = z.number().nullable();

const jobFields = {
  job_id: idField,
  seq: z.int().describe('the order of acceptance, and the cursor of lists'),
  plugin: z.string(),
  command: z.string(),
  status: z.enum(jobStatuses),
  reason: z.string().nullable().describe('the reason for its status, in one word'),
  attempt: z.int(),
  max_attempts: z.int(),
  retry_count: z.int(),
  crash_count: z.int(),
  submitted_by: z.string(),
  actor: z.string(),
  created_at: time,
  ready_at: time,
  started_at: time.nullable(),
  completed_at: time.nullable(),
  next_retry_at: time.nullable(),
  cancel_requested_at: time.nullable(),
  claimed_by: z.string().nullable(),
  last_error: z.string().nullable(),
  dedupe_key: z.string().nullable(),
  dependency: z.string().nullable().describe('a key; jobs with the same key run one at a time'),
  parent_job_id: idField.nullable(),
  source_event_id: idField.nullable(),
  root_job_id: idField,
  retry_of: idField.nullable(),
  idempotency_key: z.string(),
  hops: z.int(),
  config_snapshot_id: idField
    .nullable()
    .describe('the configuration under which it was last claimed'),
  run_id: idField.nullable().describe('the run that it is a step of'),
  step: z.string().nullable().describe("that step's id in the pipeline"),
  step_id: z.string().nullable().meta({ deprecated: true }).describe('the older name of `step`'),
  schedule_id: z.string().nullable().describe('the schedule of its plugin that started it'),
};

export const jobShape = z.object(jobFields);

export function showJob(job: Job): z.output<typeof jobShape> {
  return showRow(jobShape, job, {
    job_id: job.id,
    dependency: job.dependencyKey,
    step: job.stepId,
  });
}

export const attemptShape = z.object({
  log_id: idField,
  job_id: idField,
  plugin: z.string(),
  command: z.string(),
  attempt: z.int(),
  status: z.enum(attemptStatuses),
  cause: z.enum(attemptCauses),
  last_error: z.string().nullable(),
  submitted_by: z.string(),
  created_at: time,
  started_at: time.nullable(),
  completed_at: time,
  queue_ms: ms,
  spawn_ms: ms,
  run_ms: ms,
  cpu_ms: ms.describe('CPU time of the plugin process; null when it was not measured'),
  memory_peak_bytes: z
    .int()
    .nullable()
    .describe('peak memory of the attempt; null when it was not measured'),
  settle_ms: ms,
  exit_code: z.int().nullable().describe('exit code of the plugin process'),
  command_exit_code: z
    .int()
    .nullable()
    .describe('`exit_code` in the response: the exit code of a program that the plugin ran'),
  signal: z.string().nullable(),
  pid: z.int().nullable(),
  process_id: z.string().nullable(),
  config_snapshot_id: idField.nullable().describe('the configuration that it ran with'),
  result: z.unknown().describe('the response of the plugin; text when it was not JSON'),
  logs: z
    .array(z.object({ level: z.enum(pluginLogLevels), message: z.string() }))
    .describe("the log entries of the plugin's response"),
  stderr: z.string().nullable(),
  stderr_truncated: z.boolean(),
});

export function showAttempt(attempt: Attempt): z.output<typeof attemptShape> {
  const result = parseStoredJson(attempt.result);
  return showRow(attemptShape, attempt, {
    log_id: attempt.id,
    last_error: attempt.error,
    command_exit_code: readCommandExit(result),
    result,
    logs: isObject(result) ? readPluginLogs(result['logs']) : [],
  });
}

/** Reads the exit code of a program that the plugin ran: of a failure, or from its only event. */
function readCommandExit(response: unknown): number | null {
  if (!isObject(response)) return null;
  const events: unknown = response['events'];
  const [event] = Array.isArray(events) && events.length === 1 ? (events as unknown[]) : [];
  const payload = isObject(event) ? event['payload'] : undefined;
  const code = response['exit_code'] ?? (isObject(payload) ? payload['exit_code'] : undefined);
  return Number.isInteger(code) ? Number(code) : null;
}

export const signalShape = z.object({
  signal_id: idField,
  type: z.string(),
  source: z.string(),
  subject_type: z.string().nullable(),
  subject_id: z.string().nullable(),
  data: z.unknown(),
  metadata: z.unknown(),
  hops: z.int(),
  correlation_id: idField,
  causation_id: idField.nullable(),
  job_id: idField.nullable(),
  job_attempt: z.int().nullable(),
  visibility: z.string().describe('`admin_only` signals are shown only to administrators'),
  dedupe_key: z.string().nullable(),
  source_event_id: z.string().nullable().describe("the source's own id for it"),
  occurred_at: time,
  inserted_at: time,
});

export function showSignal(signal: Signal): z.output<typeof signalShape> {
  return showRow(signalShape, signal, {
    signal_id: signal.id,
    data: parseStoredJson(signal.data),
    metadata: parseStoredJson(signal.metadata),
  });
}

export const listedJobShape = jobShape.extend({
  retried_as: z.string().nullable().describe('the newest job that repeats its work'),
});

/** Finds the newest retry of each of these jobs that has one. */
export async function findRetries(
  ledger: Ledger,
  jobs: readonly Pick<Job, 'id' | 'status'>[],
): Promise<ReadonlyMap<string, string>> {
  const ended = jobs.flatMap(({ id, status }) => (isTerminal(status) ? id : []));
  if (ended.length === 0) return new Map();
  const retries = await ledger.jobs.list({ retryOf: ended, limit: limits.pageRowsMax });
  // The newest retry comes first in the list. In a map, the last entry of a key counts.
  return new Map(retries.toReversed().map(({ retryOf, id }) => [retryOf ?? '', id]));
}

export async function showListedJobs(
  ledger: Ledger,
  jobs: readonly Job[],
): Promise<z.output<typeof listedJobShape>[]> {
  const retries = await findRetries(ledger, jobs);
  return jobs.map((job) => ({ ...showJob(job), retried_as: retries.get(job.id) ?? null }));
}

export const jobActions = ['cancel', 'retry', 'revive'] as const;
type JobAction = (typeof jobActions)[number];

/** Lists the actions that would work now. A step is repeated by reviving its run, an init by `plugin init`. */
export async function listJobActions(
  ledger: Ledger,
  job: Job,
  isRetried: boolean,
): Promise<JobAction[]> {
  if (!isTerminal(job.status)) return ['cancel'];
  if (job.runId !== null) return (await isRevivable(ledger, job.runId)) ? ['revive'] : [];
  return isRetried || job.command === 'init' ? [] : ['retry'];
}

async function isRevivable(ledger: Ledger, runId: string): Promise<boolean> {
  const run = await ledger.runs.find(runId);
  if (run?.status !== 'halted') return false;
  return (await ledger.runs.list({ revivedFrom: runId, limit: 1 })).length === 0;
}
