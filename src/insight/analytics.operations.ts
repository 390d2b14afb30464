import * as z from 'zod';
import { formatDuration } from '../base/quantity.ts';
import { duration } from '../base/fields.ts';
import { attemptStatuses } from '../job/attempt.ts';
import { defineOperation } from '../operation/define.ts';
import { figuresOf } from '../job/figures.operations.ts';
import { queueShape, showQueue } from '../job/operations.ts';

const DAY_MS = 24 * 60 * 60 * 1000;

const windowField = duration({ minMs: 1000, maxMs: 366 * DAY_MS })
  .default(DAY_MS)
  .describe('how far to look back (default: 1d)');

export const analyticsSummary = defineOperation({
  name: 'analytics.summary',
  summary: 'Count attempts for each command, directives and signals in a window of time.',
  effect: 'read',
  scope: 'jobs:status:ro',
  needs: 'ledger',
  input: z.strictObject({ window: windowField }),
  output: z.object({
    window: z.string(),
    stats: z.record(z.string(), z.int()).describe('number of attempts by status'),
    as_of: z.string().describe('time at which these figures were read'),
    truncated: z
      .boolean()
      .describe('true if there were more attempts; only the latest are counted'),
    directives: z
      .object({ requested: z.int(), completed: z.int(), failed: z.int(), cancelled: z.int() })
      .describe('directives that were requested, and that ended, in the window'),
    signals_emitted: z
      .int()
      .describe('signals in the window, counted up to the same limit as attempts'),
    commands: z.array(
      z.object({
        plugin: z.string(),
        command: z.string(),
        attempts: z.int(),
        succeeded: z.int(),
        failed: z.int().describe('attempts that failed, timed out or crashed'),
        mean_run_ms: z.number().nullable(),
        max_run_ms: z.number().nullable(),
        mean_queue_ms: z.number().nullable(),
      }),
    ),
  }),
  errors: ['INPUT_INVALID', 'LEDGER_UNAVAILABLE'],
  http: { method: 'GET', path: '/analytics/summary' },
  cli: {
    examples: ['ductile analytics summary', 'ductile analytics summary --window 7d'],
    isDefault: true,
    table: {
      rows: 'commands',
      columns: [
        ['PLUGIN', 'plugin'],
        ['COMMAND', 'command'],
        ['ATTEMPTS', 'attempts'],
        ['SUCCEEDED', 'succeeded'],
        ['MEAN MS', 'mean_run_ms'],
        ['MAX MS', 'max_run_ms'],
        ['WAITED MS', 'mean_queue_ms'],
      ],
      empty: 'No attempts ended in this window.',
    },
  },
  async run({ engine: { ledger } }, { window }) {
    const { value, at } = await figuresOf(ledger).window(window).get();
    const { groups, truncated } = value.attempts;
    const { requested, ended, signals } = value.directives;
    const { completed = 0, failed = 0, cancelled = 0 } = ended;
    const stats = Object.fromEntries(attemptStatuses.map((status) => [status, 0]));
    const commands = new Map<string, CommandTotals>();
    for (const group of groups) {
      stats[group.status] = (stats[group.status] ?? 0) + group.attempts;
      const key = JSON.stringify([group.plugin, group.command]);
      const totals = commands.get(key) ?? { ...zero, plugin: group.plugin, command: group.command };
      commands.set(key, {
        ...totals,
        attempts: totals.attempts + group.attempts,
        succeeded: totals.succeeded + (group.status === 'succeeded' ? group.attempts : 0),
        failed: totals.failed + (failures.has(group.status) ? group.attempts : 0),
        ran: totals.ran + group.ran,
        runMs: totals.runMs + group.runMs,
        maxRunMs: Math.max(totals.maxRunMs, group.maxRunMs),
        queueMs: totals.queueMs + group.queueMs,
      });
    }
    return {
      window: formatDuration(window),
      stats,
      as_of: at,
      truncated,
      directives: { requested, completed, failed, cancelled },
      signals_emitted: signals,
      commands: [...commands.values()].map(showTotals),
    };
  },
});

interface CommandTotals {
  readonly plugin: string;
  readonly command: string;
  readonly attempts: number;
  readonly succeeded: number;
  readonly failed: number;
  /** The number of attempts that had a process. */
  readonly ran: number;
  readonly runMs: number;
  readonly maxRunMs: number;
  readonly queueMs: number;
}

const failures: ReadonlySet<string> = new Set(['failed', 'timed_out', 'crashed']);

const zero = { attempts: 0, succeeded: 0, failed: 0, ran: 0, runMs: 0, maxRunMs: 0, queueMs: 0 };

function showTotals({ plugin, command, attempts, succeeded, failed, ran, ...sums }: CommandTotals) {
  return {
    plugin,
    command,
    attempts,
    succeeded,
    failed,
    mean_run_ms: ran === 0 ? null : Math.round(sums.runMs / ran),
    max_run_ms: ran === 0 ? null : sums.maxRunMs,
    mean_queue_ms: attempts === 0 ? null : Math.round(sums.queueMs / attempts),
  };
}

export const analyticsQueue = defineOperation({
  name: 'analytics.queue',
  summary: 'Count the ready, delayed and running jobs, in total and for each plugin.',
  effect: 'read',
  scope: 'jobs:status:ro',
  needs: 'ledger',
  input: z.strictObject({}),
  output: queueShape.extend({
    depth: z.int().describe('number of queued and running jobs'),
    dead: z.int().describe('number of jobs that ended as dead within the last day'),
    lanes: z.array(
      z.object({
        plugin: z.string(),
        ready: z.int(),
        delayed: z.int(),
        running: z.int(),
      }),
    ),
  }),
  errors: ['LEDGER_UNAVAILABLE'],
  http: { method: 'GET', path: '/analytics/queue' },
  cli: {
    examples: ['ductile analytics queue', 'ductile analytics queue --json'],
    watch: true,
    table: {
      rows: 'lanes',
      columns: [
        ['PLUGIN', 'plugin'],
        ['READY', 'ready'],
        ['DELAYED', 'delayed'],
        ['RUNNING', 'running'],
      ],
      empty: 'No jobs are queued or running.',
    },
  },
  async run({ engine: { ledger } }) {
    const queue = await figuresOf(ledger).queue.get();
    const { ready, delayed, running, dead, lanes } = queue.value;
    return {
      ...showQueue(queue),
      depth: ready + delayed + running,
      dead,
      lanes: lanes.map((lane) => ({ ...lane })),
    };
  },
});
