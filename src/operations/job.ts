import * as z from 'zod';
import { DuctileError } from '../base/errors.ts';
import { limits } from '../base/limits.ts';
import { commandName, pluginName } from '../config/fields.ts';
import { attemptStatuses } from '../job/attempt.ts';
import type { Job } from '../job/job.ts';
import { isTerminal, jobStatuses } from '../job/state.ts';
import type { JobStatus } from '../job/state.ts';
import type { Context } from './context.ts';
import { defineOperation } from './define.ts';
import {
  attemptShape,
  jobShape,
  parseStored,
  showAttempt,
  showJob,
  showSignal,
  signalShape,
} from './shapes.ts';

const ROWS_USUAL = 50;
const ID_LENGTH = 36;

/** A job's id, or the beginning of one. */
export const jobId = z
  .string()
  .toLowerCase()
  .regex(/^[0-9a-f-]{4,36}$/, 'must be the id of a job, or at least its first 4 characters')
  .describe('the id of a job, or its beginning when that fits only one recent job');

export const limit = z
  .int()
  .min(1)
  .max(limits.pageRowsMax)
  .default(ROWS_USUAL)
  .describe(`how many rows at most (${ROWS_USUAL} unless told)`);

/** Other words for a status that people and older programs use. */
const synonyms: Readonly<Record<string, JobStatus>> = {
  pending: 'queued',
  ok: 'succeeded',
  error: 'failed',
};

const status = z
  .enum([...jobStatuses, 'pending', 'ok', 'error'])
  .transform((word) => synonyms[word] ?? (word as JobStatus));

export const listJobs = defineOperation({
  name: 'job.list',
  summary: 'List jobs, newest first.',
  effect: 'read',
  scope: 'jobs:ro',
  input: z.strictObject({
    plugin: pluginName().optional().describe('only jobs of this plugin'),
    command: commandName().optional().describe('only jobs of this command'),
    status: z.array(status).min(1).optional().describe('only jobs in one of these states'),
    limit,
    before: z.int().optional().describe('go on after a page: its `next_before`'),
  }),
  output: z.object({
    jobs: z.array(jobShape),
    next_before: z.int().nullable().describe('the cursor of the next page; null at the end'),
  }),
  errors: ['INPUT_INVALID', 'LEDGER_UNAVAILABLE'],
  http: { method: 'GET', path: '/jobs' },
  cli: {
    flags: {
      plugin: '-p, --plugin <name>',
      status: '-s, --status <states>',
      limit: '-n, --limit <count>',
    },
    examples: ['ductile job list', 'ductile job list --plugin mail --status failed,dead -n 10'],
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
        ['REASON', 'reason', 'detail'],
        ['ERROR', 'last_error'],
      ],
      empty: 'There are no such jobs.',
    },
  },
  async run({ engine }, { before, status: states, plugin, command, limit: rows }) {
    const jobs = await engine.ledger.jobs({
      limit: rows,
      ...(plugin === undefined ? {} : { plugin }),
      ...(command === undefined ? {} : { command }),
      ...(states === undefined ? {} : { status: states }),
      ...(before === undefined ? {} : { beforeSeq: before }),
    });
    const last = jobs.length === rows ? jobs.at(-1) : undefined;
    return { jobs: jobs.map(showJob), next_before: last?.seq ?? null };
  },
});

export const inspectJob = defineOperation({
  name: 'job.inspect',
  summary: 'Tell the whole story of one job.',
  effect: 'read',
  scope: 'jobs:ro',
  input: z.strictObject({ id: jobId }),
  output: jobShape.extend({
    payload: z.unknown(),
    result: z.unknown().describe('what the last attempt answered'),
    attempts: z.array(attemptShape),
    signals: z.array(signalShape).describe('what it emitted'),
    cause: signalShape.nullable().describe('the signal that caused it'),
    parent: jobShape.nullable(),
    children: z.array(jobShape).describe('the jobs that its signals caused'),
  }),
  errors: ['INPUT_INVALID', 'JOB_NOT_FOUND', 'LEDGER_UNAVAILABLE'],
  http: { method: 'GET', path: '/job/:id' },
  cli: {
    positionals: ['id'],
    examples: ['ductile job inspect 0199a1b2', 'ductile job inspect 0199a1b2 -v'],
  },
  async run({ engine }, { id }) {
    const job = await findJob({ engine }, id);
    const { ledger } = engine;
    const { parentJobId, sourceEventId } = job;
    const page = { limit: limits.pageRowsMax };
    const [attempts, signals, children, parent, [cause]] = await Promise.all([
      ledger.attempts([job.id]),
      ledger.signals({ jobId: job.id, ...page }),
      ledger.jobs({ parentJobId: job.id, order: 'oldest', ...page }),
      parentJobId === null ? undefined : ledger.job(parentJobId),
      sourceEventId === null ? [] : ledger.signals({ id: sourceEventId, limit: 1 }),
    ]);
    return {
      ...showJob(job),
      payload: parseStored(job.payload),
      result: parseStored(attempts.at(-1)?.result ?? null),
      attempts: attempts.map(showAttempt),
      signals: signals.map(showSignal),
      cause: cause === undefined ? null : showSignal(cause),
      parent: parent === undefined ? null : showJob(parent),
      children: children.map(showJob),
    };
  },
});

export const listLogs = defineOperation({
  name: 'job.logs',
  summary: 'List finished attempts with what they said, newest first.',
  effect: 'read',
  scope: 'jobs:ro',
  input: z.strictObject({
    plugin: pluginName().optional().describe('only attempts of this plugin'),
    job_id: jobId.optional(),
    status: z.enum(attemptStatuses).optional().describe('only attempts that ended so'),
    limit,
  }),
  output: z.object({ logs: z.array(attemptShape) }),
  errors: ['INPUT_INVALID', 'JOB_NOT_FOUND', 'LEDGER_UNAVAILABLE'],
  http: { method: 'GET', path: '/job-logs' },
  cli: {
    flags: {
      plugin: '-p, --plugin <name>',
      job_id: '-j, --job <id>',
      status: '-s, --status <state>',
      limit: '-n, --limit <count>',
    },
    examples: ['ductile job logs --plugin mail -v', 'ductile job logs --job 0199a1b2'],
    alias: { name: 'logs', positionals: ['plugin'] },
  },
  async run({ engine }, { plugin, job_id: id, status: end, limit: rows }) {
    // An attempt may outlive its job's row, so a whole id is not looked up.
    const whole =
      id === undefined || id.length === ID_LENGTH ? id : (await findJob({ engine }, id)).id;
    const attempts = await engine.ledger.attemptsOf({
      limit: rows,
      ...(plugin === undefined ? {} : { plugin }),
      ...(whole === undefined ? {} : { jobId: whole }),
      ...(end === undefined ? {} : { status: end }),
    });
    return { logs: attempts.map(showAttempt) };
  },
});

export const cancelJob = defineOperation({
  name: 'job.cancel',
  summary: 'Stop a job: a queued one never starts, a running one is stopped.',
  effect: 'destroy',
  scope: 'jobs:rw',
  input: z.strictObject({ id: jobId }),
  output: jobShape,
  errors: ['INPUT_INVALID', 'JOB_NOT_FOUND', 'LEDGER_UNAVAILABLE'],
  http: { method: 'POST', path: '/job/:id/cancel' },
  cli: {
    positionals: ['id'],
    examples: ['ductile job cancel 0199a1b2', 'ductile job cancel 0199a1b2 --dry-run'],
    exitCode: ({ status: state }) => (state === 'cancelled' || state === 'running' ? 0 : 1),
  },
  async run({ engine }, { id }) {
    const job = await findJob({ engine }, id);
    return showJob(await engine.cancel(job.id));
  },
  async plan({ engine }, { id }) {
    const job = await findJob({ engine }, id);
    const name = `job ${job.id} (${job.plugin} ${job.command})`;
    if (isTerminal(job.status)) return [`${name} is ${job.status} already; nothing would change.`];
    if (job.status === 'queued') return [`${name} would be cancelled before it starts.`];
    return [`${name} is running; its process would be stopped.`];
  },
});

/** The job with this id, or the only one whose id begins so. */
async function findJob({ engine }: Pick<Context, 'engine'>, id: string): Promise<Job> {
  const exact = await engine.ledger.job(id);
  if (exact !== undefined) return exact;
  const page = { idPrefix: id, limit: limits.pageRowsMax };
  const found = id.length === ID_LENGTH ? [] : await engine.ledger.jobs(page);
  const [only] = found;
  if (only !== undefined && found.length === 1) return only;
  if (only === undefined) {
    throw new DuctileError('JOB_NOT_FOUND', `there is no job ${id}`, { place: id });
  }
  throw new DuctileError(
    'INPUT_INVALID',
    `${found.length} jobs have an id that begins with ${id}`,
    {
      place: 'id',
      hint: 'Give more of the id.',
      details: { newest: found.slice(0, 5).map((job) => job.id) },
    },
  );
}
