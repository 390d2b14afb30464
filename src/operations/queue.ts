import * as z from 'zod';
import { commandName, pluginName } from '../config/fields.ts';
import { submitters } from '../job/job.ts';
import { defineOperation } from './define.ts';
import { figuresOf, type QueueFigures } from './figures.ts';
import { limit, toFilter } from './job.ts';
import type { Figure } from './shared-figure.ts';
import { jobShape, showJob } from './shapes.ts';

export const queueShape = z.object({
  ready: z.int().describe('queued jobs that may start now'),
  delayed: z.int().describe('queued jobs that wait for their next try'),
  running: z.int(),
  oldest_ready_at: z.string().nullable(),
  as_of: z
    .string()
    .describe('when these figures were read; a long queue is counted once a second at most'),
});

export const listQueue = defineOperation({
  name: 'queue.list',
  summary: 'List what is running and what waits, oldest first.',
  effect: 'read',
  needs: 'ledger',
  scope: 'jobs:ro',
  input: z.strictObject({
    plugin: pluginName().optional().describe('only jobs of this plugin'),
    command: commandName().optional().describe('only jobs of this command'),
    submitted_by: z.enum(submitters).optional().describe('only jobs that came this way'),
    limit,
  }),
  output: queueShape.extend({ jobs: z.array(jobShape) }),
  errors: ['INPUT_INVALID', 'LEDGER_UNAVAILABLE'],
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
  async run({ engine: { ledger } }, { limit: rows, ...narrowing }) {
    const filter = { ...toFilter(narrowing), order: 'oldest' as const };
    const queue = await figuresOf(ledger).queue.get();
    const { jobs: running } = await ledger.jobPage({ ...filter, status: ['running'], limit: rows });
    const left = rows - running.length;
    const { jobs: queued } =
      left === 0
        ? { jobs: [] }
        : await ledger.jobPage({ ...filter, status: ['queued'], limit: left });
    return {
      ...showQueue(queue),
      jobs: [...running, ...queued].map(showJob),
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
