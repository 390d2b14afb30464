import * as z from 'zod';
import { duration } from '../base/fields.ts';
import { compact } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import { commandName, pluginName } from '../config/fields.ts';
import { defineOperation } from '../operation/define.ts';
import { direct, directErrors, planDirective, textIn } from '../operation/request-directive.ts';
import { historyKinds } from './bulk.ts';
import { requireJob, jobIdField, jobStatusField } from './operations.ts';
import { jobShape, showJob } from './shapes.service.ts';

const directiveId = z.string().describe('the record of this change');

export const cancelJobOperation = defineOperation({
  name: 'job.cancel',
  summary: 'Stop a job: a queued one never starts, a running one is stopped.',
  effect: 'destroy',
  scope: 'jobs:rw',
  input: z.strictObject({ id: jobIdField }),
  output: jobShape.extend({ directive_id: directiveId }),
  errors: [...directErrors, 'INPUT_INVALID', 'JOB_NOT_FOUND', 'LEDGER_UNAVAILABLE'],
  http: { method: 'POST', path: '/job/:id/cancel' },
  cli: {
    positionals: ['id'],
    examples: ['ductile job cancel 0199a1b2', 'ductile job cancel 0199a1b2 --dry-run'],
    exitCode: ({ status: state }) => (state === 'cancelled' || state === 'running' ? 0 : 1),
  },
  async run(context, { id }) {
    const job = await requireJob(context, id);
    const answer = await direct(context, 'job.cancel', { job_id: job.id });
    const now = await context.engine.waitFor(job.id, 0);
    return { ...showJob(now), directive_id: answer.id };
  },
  async plan(context, { id }) {
    const job = await requireJob(context, id);
    return planDirective(context, 'job.cancel', { job_id: job.id });
  },
});

export const retryJobOperation = defineOperation({
  name: 'job.retry',
  summary: 'Do the work of an ended job again, as a new job.',
  effect: 'write',
  scope: 'jobs:rw',
  input: z.strictObject({ id: jobIdField }),
  output: jobShape.extend({
    directive_id: directiveId,
    outcome: z.enum(['queued', 'under_way']).describe('`under_way`: this job does it already'),
  }),
  errors: [
    ...directErrors,
    'INPUT_INVALID',
    'JOB_NOT_FOUND',
    'JOB_OPEN',
    'LEDGER_UNAVAILABLE',
    'PLUGIN_NOT_FOUND',
    'TENANT_LIMIT',
    'TENANT_SUSPENDED',
  ],
  http: {
    method: 'POST',
    path: '/job/:id/retry',
    status: () => 202,
    statuses: [202],
    location: '/job/:job_id',
  },
  cli: {
    positionals: ['id'],
    examples: ['ductile job retry 0199a1b2', 'ductile job retry 0199a1b2 --dry-run'],
  },
  async run(context, { id }) {
    const job = await requireJob(context, id);
    const { id: made, result } = await direct(context, 'job.retry', { job_id: job.id });
    const next = await context.engine.waitFor(textIn(result, 'job_id'), 0);
    const outcome = result['outcome'] === 'queued' ? ('queued' as const) : ('under_way' as const);
    return { ...showJob(next), directive_id: made, outcome };
  },
  async plan(context, { id }) {
    const job = await requireJob(context, id);
    return planDirective(context, 'job.retry', { job_id: job.id });
  },
});

const filter = z
  .strictObject({
    plugin: pluginName().optional().describe('only jobs of this plugin'),
    command: commandName().optional().describe('only jobs of this command'),
    status: z.array(jobStatusField).min(1).optional().describe('only jobs in one of these states'),
    older_than: duration({ minMs: 0, maxMs: limits.delayMsMax })
      .optional()
      .describe('only jobs created longer ago than this'),
    limit: z
      .int()
      .min(1)
      .max(limits.bulkJobsMax)
      .default(limits.bulkJobsDefault)
      .describe(`how many jobs at most (${limits.bulkJobsDefault} unless told)`),
  })
  .refine(
    (set) => [set.plugin, set.command, set.status, set.older_than].some((one) => one !== undefined),
    {
      error: 'must say which jobs: plugin, command, status or older_than',
      params: { hint: 'Nothing was changed. With --dry-run it only counts what a filter finds.' },
    },
  );

const flags = {
  plugin: '-p, --plugin <name>',
  status: '-s, --status <states>',
  older_than: '--older-than <duration>',
  limit: '-n, --limit <count>',
};

export const cancelJobsOperation = defineOperation({
  name: 'jobs.cancel',
  summary: 'Stop all queued and running jobs that a filter finds.',
  effect: 'destroy',
  scope: 'jobs:rw',
  input: filter,
  output: z.object({
    directive_id: directiveId,
    jobs: z.int().describe('how many were found'),
    cancelled: z.int().describe('that never started'),
    requested: z.int().describe('running, and told to stop'),
    unchanged: z.int().describe('that had ended meanwhile'),
  }),
  errors: [...directErrors, 'INPUT_INVALID', 'LEDGER_UNAVAILABLE'],
  http: { method: 'POST', path: '/jobs/cancel' },
  cli: {
    flags,
    examples: [
      'ductile jobs cancel --plugin mail --status queued --dry-run',
      'ductile jobs cancel --older-than 2d',
    ],
  },
  async run(context, input) {
    const { id, result } = await direct(context, 'job.cancel', toParams(input));
    return {
      directive_id: id,
      jobs: countIn(result, 'jobs'),
      cancelled: countIn(result, 'cancelled'),
      requested: countIn(result, 'requested'),
      unchanged: countIn(result, 'unchanged'),
    };
  },
  plan: (context, input) => planDirective(context, 'job.cancel', toParams(input)),
});

export const retryJobsOperation = defineOperation({
  name: 'jobs.retry',
  summary: 'Do the work of all ended jobs again that a filter finds and nobody retried yet.',
  effect: 'write',
  scope: 'jobs:rw',
  input: filter,
  output: z.object({
    directive_id: directiveId,
    jobs: z.int().describe('how many were found, without those that are passed over'),
    queued: z.int().describe('new jobs'),
    under_way: z.int().describe('whose work another job does already'),
    unknown_plugin: z.int().describe('passed over: there is no such plugin any more'),
    init: z.int().describe('passed over: inits, which are asked for with `plugin init`'),
    run_step: z.int().describe('passed over: steps of runs, which `run revive` takes up'),
  }),
  errors: [
    ...directErrors,
    'INPUT_INVALID',
    'LEDGER_UNAVAILABLE',
    'TENANT_LIMIT',
    'TENANT_SUSPENDED',
  ],
  http: { method: 'POST', path: '/jobs/retry' },
  cli: {
    flags,
    examples: [
      'ductile jobs retry --plugin mail --dry-run',
      'ductile jobs retry --status dead,timed_out --limit 100',
    ],
  },
  async run(context, input) {
    const { id, result } = await direct(context, 'job.retry', toParams(input));
    return {
      directive_id: id,
      jobs: countIn(result, 'jobs'),
      queued: countIn(result, 'queued'),
      under_way: countIn(result, 'under_way'),
      unknown_plugin: countIn(result, 'unknown_plugin'),
      init: countIn(result, 'init'),
      run_step: countIn(result, 'run_step'),
    };
  },
  plan: (context, input) => planDirective(context, 'job.retry', toParams(input)),
});

function toParams({ older_than: olderThanMs, ...rest }: z.output<typeof filter>): object {
  return { ...rest, ...(olderThanMs === undefined ? {} : { older_than_ms: olderThanMs }) };
}

function countIn(result: Readonly<Record<string, unknown>>, name: string): number {
  return Number(result[name] ?? 0);
}

const pruneInput = z.strictObject({
  what: z.array(z.enum(historyKinds)).min(1).optional().describe('only these kinds of rows'),
  older_than: duration({ minMs: 0, maxMs: limits.delayMsMax })
    .optional()
    .describe('in place of the retention of the configuration; needs --what'),
});

export const systemPrune = defineOperation({
  name: 'system.prune',
  summary: 'Delete history that is past its retention, or older than told.',
  effect: 'destroy',
  scope: 'system:rw',
  input: pruneInput,
  output: z.object({
    directive_id: z.string().describe('the record of this change'),
    rows: z.record(z.string(), z.int()).describe('how many of each kind were deleted'),
  }),
  errors: [...directErrors, 'FORBIDDEN', 'INPUT_INVALID', 'LEDGER_UNAVAILABLE'],
  http: { method: 'POST', path: '/system/prune' },
  cli: {
    examples: [
      'ductile system prune --dry-run',
      'ductile system prune --what signals,attempts --older-than 7d',
    ],
  },
  async run(context, input) {
    const { id, result } = await direct(context, 'system.prune', toPruneParams(input));
    return { directive_id: id, rows: (result['rows'] ?? {}) as Record<string, number> };
  },
  plan: (context, input) => planDirective(context, 'system.prune', toPruneParams(input)),
});

function toPruneParams({ what, older_than: age }: z.output<typeof pruneInput>): object {
  return {
    ...compact({ what, older_than_ms: age }),
  };
}
