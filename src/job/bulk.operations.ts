import * as z from 'zod';
import { duration } from '../base/fields.ts';
import { compact } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import { commandName, pluginName } from '../config/fields.ts';
import type { Context } from '../operation/context.ts';
import { defineDirectiveOperation, directiveIdField } from '../operation/define-directive.ts';
import { cancelJobsDirective, retryJobsDirective } from './job.directives.ts';
import { jobStatusField } from './operations.ts';

/** The filter of operations over many jobs. */
const filter = z
  .strictObject({
    plugin: pluginName().optional().describe('only jobs of this plugin'),
    command: commandName().optional().describe('only jobs of this command'),
    status: z
      .array(jobStatusField)
      .min(1)
      .optional()
      .describe('only jobs with one of these statuses'),
    older_than: duration({ minMs: 0, maxMs: limits.delayMsMax })
      .optional()
      .describe('only jobs created longer ago than this'),
    limit: z
      .int()
      .min(1)
      .max(limits.bulkJobsMax)
      .default(limits.bulkJobsDefault)
      .describe(`maximum number of jobs (default: ${limits.bulkJobsDefault})`),
  })
  .refine(
    (set) => [set.plugin, set.command, set.status, set.older_than].some((one) => one !== undefined),
    {
      error: 'must select jobs by plugin, command, status or older_than',
      params: {
        hint: 'Nothing was changed. Use --dry-run to count the jobs that a filter matches.',
      },
    },
  );

const flags = {
  plugin: '-p, --plugin <name>',
  status: '-s, --status <states>',
  older_than: '--older-than <duration>',
  limit: '-n, --limit <count>',
};

export const cancelJobsOperation = defineDirectiveOperation(cancelJobsDirective, {
  name: 'jobs.cancel',
  summary: 'Cancel all queued and running jobs that match a filter.',
  effect: 'destroy',
  input: filter,
  output: z.object({
    directive_id: directiveIdField,
    jobs: z.int().describe('number of jobs found'),
    cancelled: z.int().describe('number of jobs cancelled before they started'),
    requested: z.int().describe('number of running jobs that are being stopped'),
    unchanged: z.int().describe('number of jobs that had ended in the meantime'),
  }),
  errors: ['INPUT_INVALID', 'LEDGER_UNAVAILABLE'],
  http: { method: 'POST', path: '/jobs/cancel' },
  cli: {
    flags,
    examples: [
      'ductile jobs cancel --plugin mail --status queued --dry-run',
      'ductile jobs cancel --older-than 2d',
    ],
  },
  toParams: toFilterParams,
  toOutput: (_context, { result }) => ({
    jobs: countIn(result, 'jobs'),
    cancelled: countIn(result, 'cancelled'),
    requested: countIn(result, 'requested'),
    unchanged: countIn(result, 'unchanged'),
  }),
});

export const retryJobsOperation = defineDirectiveOperation(retryJobsDirective, {
  name: 'jobs.retry',
  summary: 'Retry all finished jobs that match a filter and were not retried yet.',
  effect: 'write',
  input: filter,
  output: z.object({
    directive_id: directiveIdField,
    jobs: z.int().describe('number of jobs found, without the skipped ones'),
    queued: z.int().describe('number of new jobs'),
    under_way: z.int().describe('number of jobs whose work another job already repeats'),
    unknown_plugin: z
      .int()
      .describe('number of jobs skipped because their plugin no longer exists'),
    init: z.int().describe('number of inits skipped; repeat them with `plugin init`'),
    run_step: z.int().describe('number of steps of runs skipped; continue them with `run revive`'),
  }),
  errors: ['INPUT_INVALID', 'LEDGER_UNAVAILABLE', 'TENANT_LIMIT', 'TENANT_SUSPENDED'],
  http: { method: 'POST', path: '/jobs/retry' },
  cli: {
    flags,
    examples: [
      'ductile jobs retry --plugin mail --dry-run',
      'ductile jobs retry --status dead,timed_out --limit 100',
    ],
  },
  toParams: toFilterParams,
  toOutput: (_context, { result }) => ({
    jobs: countIn(result, 'jobs'),
    queued: countIn(result, 'queued'),
    under_way: countIn(result, 'under_way'),
    unknown_plugin: countIn(result, 'unknown_plugin'),
    init: countIn(result, 'init'),
    run_step: countIn(result, 'run_step'),
  }),
});

function toFilterParams(
  _context: Context,
  { older_than: olderThanMs, ...rest }: z.output<typeof filter>,
): object {
  return { ...rest, ...compact({ older_than_ms: olderThanMs }) };
}

function countIn(result: Readonly<Record<string, unknown>>, name: string): number {
  return Number(result[name] ?? 0);
}
