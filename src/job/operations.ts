import * as z from 'zod';
import { DuctileError, toDuctileError } from '../base/errors.ts';
import { moment, nonBlankText } from '../base/fields.ts';
import { compact, parseStoredJson } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import { commandName, pluginName } from '../config/fields.ts';
import type { Ledger } from '../ledger/ledger.ts';
import type { Context } from '../operation/context.ts';
import { defineOperation } from '../operation/define.ts';
import { findById } from '../operation/find-by-id.ts';
import {
  cursorField,
  limitField,
  readSeqCursor,
  readEpoch,
  writeCursor,
  readCursor,
  nextCursorField,
  pageFields,
} from '../operation/page.ts';
import { isVisible } from '../operation/visibility.ts';
import { figuresOf, type QueueFigures, type Figure } from './figures.operations.ts';
import { submitters, jobStatuses, type Job, type JobStatus } from './job.ts';
import {
  findRetries,
  jobActions,
  listedJobShape,
  listJobActions,
  showListedJobs,
  attemptShape,
  jobShape,
  showAttempt,
  showJob,
  showSignal,
  signalShape,
} from './shapes.service.ts';
import type { JobFilter, JobPage } from './types.ts';

export const jobIdField = z
  .string()
  .toLowerCase()
  .regex(/^[0-9a-f-]{4,36}$/, 'must be the id of a job, or at least its first 4 characters')
  .describe('the id of a job, or a prefix that matches only one recent job');

const totalIs = z
  .enum(['exact', 'at_least'])
  .describe(`\`at_least\` if there are more; counting stops after ${limits.countRowsMax} rows`);

const nextCursor = z
  .string()
  .nullable()
  .describe(
    'the cursor of the next page; null at the end. ' +
      `A page ends early, even empty, after ${limits.listVisitMax} rows that don't match`,
  );

/** Synonyms that users and older programs send. */
const synonyms: Readonly<Record<string, JobStatus>> = {
  pending: 'queued',
  ok: 'succeeded',
  error: 'failed',
};

export const jobStatusField = z
  .enum([...jobStatuses, 'pending', 'ok', 'error'])
  .transform((word) => synonyms[word] ?? (word as JobStatus));

export const listJobsOperation = defineOperation({
  name: 'job.list',
  summary: 'List jobs, newest first.',
  effect: 'read',
  needs: 'ledger',
  scope: 'jobs:ro',
  input: z.strictObject({
    plugin: pluginName().optional().describe('only jobs of this plugin'),
    command: commandName().optional().describe('only jobs of this command'),
    status: z
      .array(jobStatusField)
      .min(1)
      .optional()
      .describe('only jobs with one of these statuses'),
    submitted_by: z.enum(submitters).optional().describe('only jobs submitted this way'),
    from: moment().optional().describe('only jobs created at this time or later'),
    to: moment().optional().describe('only jobs created before this time'),
    query: nonBlankText().optional().describe('only jobs whose last error contains this text'),
    limit: limitField,
    cursor: cursorField.optional(),
  }),
  output: z.object({
    jobs: z.array(listedJobShape),
    total: z.int().describe('number of jobs on all pages, or a lower bound: see `total_is`'),
    total_is: totalIs,
    next_cursor: nextCursor,
  }),
  errors: ['CURSOR_RESET', 'INPUT_INVALID', 'LEDGER_UNAVAILABLE'],
  http: { method: 'GET', path: '/jobs' },
  cli: {
    flags: {
      plugin: '-p, --plugin <name>',
      status: '-s, --status <states>',
      limit: '-n, --limit <count>',
    },
    examples: ['ductile job list', 'ductile job list --plugin mail --status failed,dead -n 10'],
    watch: true,
    table: {
      rows: 'jobs',
      columns: [
        ['ID', 'job_id'],
        ['PLUGIN', 'plugin'],
        ['COMMAND', 'command'],
        ['STATUS', 'status'],
        ['ATTEMPT', 'attempt'],
        ['CREATED', 'created_at'],
        ['COMPLETED', 'completed_at'],
        ['BY', 'submitted_by', 'detail'],
        ['ACTOR', 'actor', 'detail'],
        ['DEPENDENCY', 'dependency', 'detail'],
        ['REASON', 'reason', 'detail'],
        ['RETRIED AS', 'retried_as', 'detail'],
        ['ERROR', 'last_error'],
      ],
      empty: 'There are no such jobs.',
    },
  },
  async run({ engine: { ledger } }, { cursor: after, status: states, limit: rows, ...rest }) {
    const filter = {
      ...toFilter(rest),
      ...compact({ status: states }),
    };
    const epoch = await readEpoch(ledger);
    const beforeSeq = after === undefined ? {} : { beforeSeq: readSeqCursor('j', epoch, after) };
    const [{ jobs, next }, total] = await Promise.all([
      ledger.jobs.page({ ...filter, ...beforeSeq, limit: rows }),
      ledger.jobs.countPage({ ...filter, limit: rows, visitMax: limits.countRowsMax }),
    ]);
    return {
      jobs: await showListedJobs(ledger, jobs),
      total: total.count,
      total_is: total.isExact ? ('exact' as const) : ('at_least' as const),
      next_cursor: next === undefined ? null : writeCursor('j', epoch, [next]),
    };
  },
});

export const inspectJob = defineOperation({
  name: 'job.inspect',
  summary: 'Show a job with its attempts, its signals, its cause and the jobs that it caused.',
  effect: 'read',
  needs: 'ledger',
  scope: 'jobs:ro',
  input: z.strictObject({ id: jobIdField }),
  output: listedJobShape.extend({
    actions: z
      .array(z.enum(jobActions))
      .describe('actions that are possible now; `revive` is for its run'),
    waiting: z
      .string()
      .nullable()
      .describe(
        'set while it waits for a dependency, such as `dependency <key>, held by job <id>`',
      ),
    payload: z
      .unknown()
      .describe(
        'secrets are masked for all but its caller and administrators; null if its signal is hidden',
      ),
    result: z.unknown().describe('the result of the last attempt, masked like the payload'),
    attempts: z.array(attemptShape),
    signals: z.array(signalShape).describe('the signals that it emitted'),
    cause: signalShape.nullable().describe('the signal that caused it'),
    parent: jobShape.nullable(),
    children: z.array(jobShape).describe('the jobs that its signals caused'),
  }),
  errors: ['INPUT_INVALID', 'JOB_NOT_FOUND', 'LEDGER_UNAVAILABLE'],
  http: { method: 'GET', path: '/job/:id' },
  cli: {
    command: 'job show',
    positionals: ['id'],
    examples: ['ductile job show 0199a1b2', 'ductile job show 0199a1b2 -v'],
  },
  async run({ engine, principal }, { id }) {
    const job = await requireJob({ engine }, id);
    const { ledger } = engine;
    const { parentJobId, sourceEventId } = job;
    const page = { limit: limits.pageRowsMax };
    const [waiting, retried, attempts, signals, children, parent, [cause]] = await Promise.all([
      findHolder(ledger, job),
      findRetries(ledger, [job]),
      ledger.attempts.listByJob([job.id]),
      ledger.signals.list({ jobId: job.id, ...page }),
      ledger.jobs.list({ parentJobId: job.id, order: 'oldest', ...page }),
      parentJobId === null ? undefined : ledger.jobs.find(parentJobId),
      sourceEventId === null ? [] : ledger.signals.list({ id: sourceEventId, limit: 1 }),
    ]);
    return {
      ...showJob(job),
      retried_as: retried.get(job.id) ?? null,
      actions: await listJobActions(ledger, job, retried.has(job.id)),
      waiting,
      payload: parseStoredJson(job.payload),
      result: parseStoredJson(attempts.at(-1)?.result ?? null),
      attempts: attempts.map(showAttempt),
      signals: signals.filter((signal) => isVisible(signal, principal)).map(showSignal),
      cause: cause === undefined || !isVisible(cause, principal) ? null : showSignal(cause),
      parent: parent === undefined ? null : showJob(parent),
      children: children.map(showJob),
    };
  },
});

/** Describes the job that holds the dependency key for which a job waits. */
async function findHolder(ledger: Ledger, job: Job): Promise<string | null> {
  const { dependencyKey, status: now, nextRetryAt } = job;
  if (dependencyKey === null || now !== 'queued' || nextRetryAt !== null) return null;
  const holder = await ledger.jobs.findDependencyHolder(dependencyKey);
  if (holder === undefined || holder.id === job.id) return null;
  const how = holder.isRunning ? 'held by job' : 'first in line is job';
  return `dependency ${dependencyKey}, ${how} ${holder.id}`;
}

/** The filters of job lists, except the status, as they are in the input. */
interface JobFilterInput {
  readonly plugin?: string | undefined;
  readonly command?: string | undefined;
  readonly submitted_by?: string | undefined;
  readonly from?: string | undefined;
  readonly to?: string | undefined;
  readonly query?: string | undefined;
}

function toFilter({ submitted_by: submittedBy, ...rest }: JobFilterInput): Partial<JobFilter> {
  const given = Object.entries({ ...rest, submittedBy }).filter(([, value]) => value !== undefined);
  return Object.fromEntries(given);
}

/**
 * Finds a job by its id or a unique prefix, or throws. The error says if the id is that of a run.
 */
export async function requireJob(
  { engine: { ledger } }: Pick<Context, 'engine'>,
  id: string,
): Promise<Job> {
  try {
    return await findById(id, {
      noun: 'job',
      errorCode: 'JOB_NOT_FOUND',
      findExact: () => ledger.jobs.find(id),
      listByPrefix: (page) => ledger.jobs.list(page),
    });
  } catch (thrown) {
    const { code } = toDuctileError(thrown);
    const isRun = code === 'JOB_NOT_FOUND' && (await ledger.runs.find(id)) !== undefined;
    if (!isRun) throw thrown;
    const hint = `It is the id of a run. Use GET /runs/${id} or \`ductile run show ${id}\`.`;
    throw new DuctileError(code, `there is no job ${id}`, { place: id, hint });
  }
}

export const queueShape = z.object({
  ready: z.int().describe('queued jobs that may start now'),
  delayed: z.int().describe('queued jobs that wait for their start time or next attempt'),
  running: z.int(),
  oldest_ready_at: z.string().nullable(),
  as_of: z
    .string()
    .describe('when these figures were read; a long queue is counted once a second at most'),
});

export const listQueue = defineOperation({
  name: 'queue.list',
  summary: 'List running and queued jobs, oldest first.',
  effect: 'read',
  needs: 'ledger',
  scope: 'jobs:ro',
  input: z.strictObject({
    plugin: pluginName().optional().describe('only jobs of this plugin'),
    command: commandName().optional().describe('only jobs of this command'),
    submitted_by: z.enum(submitters).optional().describe('only jobs submitted this way'),
    cursor: pageFields.cursor,
    limit: limitField,
  }),
  output: queueShape.extend({ jobs: z.array(jobShape), next_cursor: nextCursorField }),
  errors: ['CURSOR_RESET', 'INPUT_INVALID', 'LEDGER_UNAVAILABLE'],
  http: { method: 'GET', path: '/queue' },
  cli: {
    flags: { limit: '-n, --limit <count>' },
    examples: ['ductile queue list', 'ductile queue'],
    isDefault: true,
    watch: true,
    table: {
      rows: 'jobs',
      columns: [
        ['ID', 'job_id'],
        ['PLUGIN', 'plugin'],
        ['COMMAND', 'command'],
        ['STATUS', 'status'],
        ['ATTEMPT', 'attempt'],
        ['WAITING SINCE', 'ready_at'],
        ['NEXT RETRY', 'next_retry_at'],
        ['DEPENDENCY', 'dependency', 'detail'],
        ['STARTED', 'started_at', 'detail'],
        ['PROCESS', 'claimed_by', 'detail'],
        ['ERROR', 'last_error'],
      ],
      empty: 'The queue is empty.',
    },
  },
  async run({ engine: { ledger } }, { limit: rows, cursor, ...input }) {
    const filter = { ...toFilter(input), order: 'oldest' as const };
    const queue = await figuresOf(ledger).queue.get();
    const epoch = await readEpoch(ledger);
    const from = cursor === undefined ? undefined : readPosition(epoch, cursor);
    const read = async (status: 'running' | 'queued', limitRows: number): Promise<JobPage> => {
      if (limitRows === 0 || (status === 'running' && from?.isQueued === true)) return nothing;
      const isFrom = from !== undefined && from.isQueued === (status === 'queued');
      const after = isFrom ? { beforeSeq: from.seq } : {};
      return await ledger.jobs.page({ ...filter, ...after, status: [status], limit: limitRows });
    };
    const running = await read('running', rows);
    const left = rows - running.jobs.length;
    const queued = await read('queued', left);
    // A page of queued jobs can be short although more follow.
    const next =
      queued.next === undefined ? (left === 0 ? [0, running.next] : []) : [1, queued.next];
    return {
      ...showQueue(queue),
      jobs: [...running.jobs, ...queued.jobs].map(showJob),
      next_cursor: next[1] === undefined ? null : writeCursor(KIND, epoch, [next[0] ?? 0, next[1]]),
    };
  },
});

export function showQueue({ value, at }: Figure<QueueFigures>): z.output<typeof queueShape> {
  return {
    ready: value.ready,
    delayed: value.delayed,
    running: value.running,
    oldest_ready_at: value.oldestReadyAt,
    as_of: at,
  };
}

const KIND = 'queue';

const nothing: JobPage = { jobs: [], next: undefined };

/** Reads the position at which a page ended. Running jobs come before queued ones. */
function readPosition(epoch: string, cursor: string): { isQueued: boolean; seq: number } {
  const numbers = readCursor(KIND, epoch, cursor, 2);
  if (numbers === 'reset') {
    throw new DuctileError('CURSOR_RESET', 'the cursor is from before the ledger was restored', {
      place: 'cursor',
    });
  }
  return { isQueued: numbers[0] === 1, seq: numbers[1] ?? 0 };
}
