import * as z from 'zod';
import { DuctileError } from '../base/errors.ts';
import { commandName, pluginName } from '../config/fields.ts';
import { submitters } from './job.ts';
import { epochOf, readCursor, writeCursor } from '../operation/cursor.ts';
import type { JobPage } from './page-types.ts';
import { defineOperation } from '../operation/define.ts';
import { figuresOf, type QueueFigures } from '../insight/figures.operations.ts';
import { limit, toFilter } from './operations.ts';
import { nextCursorField, pageFields } from '../operation/page.ts';
import type { Figure } from '../insight/shared-figure.service.ts';
import { jobShape, showJob } from './shapes.service.ts';

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
    cursor: pageFields.cursor,
    limit,
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
  async run({ engine: { ledger } }, { limit: rows, cursor, ...narrowing }) {
    const filter = { ...toFilter(narrowing), order: 'oldest' as const };
    const queue = await figuresOf(ledger).queue.get();
    const epoch = await epochOf(ledger);
    const from = cursor === undefined ? undefined : readPlace(epoch, cursor);
    const read = async (status: 'running' | 'queued', limitRows: number): Promise<JobPage> => {
      if (limitRows === 0 || (status === 'running' && from?.isQueued === true)) return nothing;
      const isFrom = from !== undefined && from.isQueued === (status === 'queued');
      const after = isFrom ? { beforeSeq: from.seq } : {};
      return await ledger.jobPage({ ...filter, ...after, status: [status], limit: limitRows });
    };
    const running = await read('running', rows);
    const left = rows - running.jobs.length;
    const queued = await read('queued', left);
    // A page of queued jobs may be short although there are more.
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

/** Running jobs come first, then queued ones; both by their order of acceptance. */
function readPlace(epoch: string, cursor: string): { isQueued: boolean; seq: number } {
  const numbers = readCursor(KIND, epoch, cursor, 2);
  if (numbers === 'reset') {
    throw new DuctileError('CURSOR_RESET', 'the cursor is from before the ledger was restored', {
      place: 'cursor',
    });
  }
  return { isQueued: numbers[0] === 1, seq: numbers[1] ?? 0 };
}
