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

export const cancelJobsOperation = defineDirectiveOperation(cancelJobsDirective, {
  name: 'jobs.cancel',
  summary: 'Stop all queued and running jobs that a filter finds.',
  effect: 'destroy',
  input: filter,
  output: z.object({
    directive_id: directiveIdField,
    jobs: z.int().describe('how many were found'),
    cancelled: z.int().describe('that never started'),
    requested: z.int().describe('running, and told to stop'),
    unchanged: z.int().describe('that had ended meanwhile'),
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
  summary: 'Do the work of all ended jobs again that a filter finds and nobody retried yet.',
  effect: 'write',
  input: filter,
  output: z.object({
    directive_id: directiveIdField,
    jobs: z.int().describe('how many were found, without those that are passed over'),
    queued: z.int().describe('new jobs'),
    under_way: z.int().describe('whose work another job does already'),
    unknown_plugin: z.int().describe('passed over: there is no such plugin any more'),
    init: z.int().describe('passed over: inits, which are asked for with `plugin init`'),
    run_step: z.int().describe('passed over: steps of runs, which `run revive` takes up'),
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
