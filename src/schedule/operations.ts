import { compact } from '../base/json.ts';
import { showRow } from '../base/show-row.ts';
import * as z from 'zod';
import { fromTimestamp, toTimestamp } from '../base/clock.ts';
import { makeYield } from '../base/timer.ts';
import { DuctileError } from '../base/errors.ts';
import { limits } from '../base/limits.ts';
import { moment } from '../base/fields.ts';
import { pluginName } from '../config/fields.ts';
import { toScheduleKey, makeTimetable, type TimetableEntry } from './timetable.service.ts';
import { scheduleStatuses, type ScheduleRow } from './types.ts';
import type { TimedSchedule } from './plan.ts';
import { previewSchedules, type PreviewEntry } from './preview.ts';
import type { Context } from '../operation/context.ts';
import { defineOperation } from '../operation/define.ts';
import { cutPage, nextCursorField, pageFields } from '../operation/page.ts';
import {
  holdKinds,
  listScheduleHolds,
  computeNextStart,
  readScheduleFacts,
  type ScheduleFacts,
  type ScheduleHold,
} from '../insight/why/schedule-holds.ts';

const DAY_MS = 24 * 60 * 60 * 1000;

const plugin = pluginName().describe('the name of the plugin');
const time = z.string().describe('UTC, ISO 8601 with milliseconds');

const scheduleShape = z.object({
  plugin: z.string(),
  schedule_id: z.string(),
  command: z.string(),
  mode: z.enum(['every', 'cron', 'at', 'after']),
  timing: z.string().describe('as written in the configuration'),
  timezone: z.string(),
  status: z.enum(scheduleStatuses),
  reason: z
    .string()
    .nullable()
    .describe(
      'why it is not active; `other_definition`: another host, which loaded its configuration ' +
        'later, defines it differently',
    ),
  next_run_at: time
    .nullable()
    .describe('due time; for an interval, the earliest time while its job has not completed'),
  next_start_at: time.nullable().describe('actual next start; null if it depends on `held_by`'),
  held_by: z
    .object({
      kind: z.enum(holdKinds),
      message: z.string(),
      evidence: z.string(),
      until: time.nullable().describe('when the hold ends by itself'),
      commands: z.array(z.string()).describe('commands that end the hold, the best first'),
    })
    .nullable()
    .describe('why it does not start at `next_run_at`; fix this first'),
  last_fired_at: time.nullable(),
  last_job_id: z.string().nullable(),
  last_job_status: z.string().nullable(),
  last_skipped_at: time.nullable(),
  last_skip_reason: z.string().nullable(),
});

const listInput = z.strictObject({
  plugin: plugin.optional().describe('only schedules of this plugin'),
  retired: z.boolean().default(false).describe('include schedules that are no longer configured'),
  ...pageFields,
});

export const listSchedulesOperation = defineOperation({
  name: 'schedule.list',
  summary: 'List the schedules, with their status, next start and last job.',
  effect: 'read',
  scope: 'schedules:ro',
  input: listInput,
  output: z.object({ schedules: z.array(scheduleShape), next_cursor: nextCursorField }),
  errors: ['INPUT_INVALID', 'LEDGER_UNAVAILABLE'],
  http: { method: 'GET', path: '/schedules' },
  cli: {
    examples: ['ductile schedule list', 'ductile schedule --plugin mail --json'],
    isDefault: true,
    watch: true,
    table: {
      rows: 'schedules',
      columns: [
        ['PLUGIN', 'plugin'],
        ['SCHEDULE', 'schedule_id'],
        ['COMMAND', 'command'],
        ['WHEN', 'timing'],
        ['TIMEZONE', 'timezone', 'detail'],
        ['STATUS', 'status'],
        ['NEXT', 'next_start_at'],
        ['DUE', 'next_run_at', 'detail'],
        ['LAST', 'last_fired_at'],
        ['JOB', 'last_job_status'],
        ['SKIPPED', 'last_skip_reason', 'detail'],
        ['REASON', 'reason', 'detail'],
        ['HELD BY', 'held_by'],
      ],
      empty: 'No schedules. Configured schedules are added when the service starts.',
    },
  },
  async run(context, input) {
    const { page, next } = cutPage(await readAllSchedules(context, input), toScheduleKey, input);
    return { schedules: await showSchedules(context, page), next_cursor: next };
  },
});

export const listSchedulerJobs = defineOperation({
  name: 'schedule.jobs',
  summary: 'List the schedules. This is the older form of `schedule.list`.',
  effect: 'read',
  scope: 'jobs:ro',
  input: z.strictObject(pageFields),
  output: z.object({ jobs: z.array(scheduleShape), next_cursor: nextCursorField }),
  errors: ['INPUT_INVALID', 'LEDGER_UNAVAILABLE'],
  http: { method: 'GET', path: '/scheduler/jobs' },
  cli: { absent: '`schedule list` returns the same' },
  mcp: { absent: '`schedule_list` returns the same' },
  async run(context, input) {
    const { page, next } = cutPage(
      await readAllSchedules(context, { retired: false }),
      toScheduleKey,
      input,
    );
    return { jobs: await showSchedules(context, page), next_cursor: next };
  },
});

export const previewSchedule = defineOperation({
  name: 'schedule.preview',
  summary: 'Show which due times between two times fire, which are skipped, and why.',
  effect: 'read',
  scope: 'schedules:ro',
  input: z.strictObject({
    from: moment().optional().describe('start of the period (default: now)'),
    to: moment().optional().describe('end of the period (default: one day after `from`)'),
    plugin: plugin.optional().describe('only schedules of this plugin'),
  }),
  output: z.object({
    from: time,
    to: time,
    times: z.array(
      z.object({
        at: time,
        until: time.describe('the last of several times with the same reason'),
        count: z.int(),
        plugin: z.string(),
        schedule_id: z.string(),
        command: z.string(),
        fires: z.boolean(),
        reason: z.string().nullable().describe('why it is skipped or moved'),
      }),
    ),
    truncated: z.boolean().describe('true if there are more times than shown'),
  }),
  errors: ['INPUT_INVALID', 'LEDGER_UNAVAILABLE'],
  http: { method: 'GET', path: '/schedules/preview' },
  cli: {
    examples: [
      'ductile schedule preview',
      'ductile schedule preview --from 2027-03-28T00:00:00Z --to 2027-03-29T00:00:00Z',
    ],
    table: {
      rows: 'times',
      columns: [
        ['AT', 'at'],
        ['UNTIL', 'until', 'detail'],
        ['TIMES', 'count'],
        ['PLUGIN', 'plugin'],
        ['SCHEDULE', 'schedule_id'],
        ['COMMAND', 'command'],
        ['FIRES', 'fires'],
        ['REASON', 'reason'],
      ],
      empty: 'Nothing is due.',
      truncated: 'Not all times are shown. Choose a shorter period, or one plugin.',
    },
  },
  async run(context, input) {
    const nowMs = fromTimestamp(await context.engine.ledger.now());
    const fromMs = input.from === undefined ? nowMs : fromTimestamp(input.from);
    const toMs = input.to === undefined ? fromMs + DAY_MS : fromTimestamp(input.to);
    if (toMs < fromMs) {
      throw new DuctileError('INPUT_INVALID', 'to must not be earlier than from', { place: 'to' });
    }
    const entries = await readPreviewEntries(context, input.plugin, { fromMs, nowMs });
    const { rows, truncated } = await previewSchedules(entries, fromMs, toMs, makeYield());
    return {
      from: toTimestamp(fromMs),
      to: toTimestamp(toMs),
      times: rows.map((row) => ({
        at: toTimestamp(row.atMs),
        until: toTimestamp(row.untilMs),
        count: row.count,
        plugin: row.plugin,
        schedule_id: row.scheduleId,
        command: row.command,
        fires: row.fires,
        reason: row.reason ?? null,
      })),
      truncated,
    };
  },
});

/** Reads the rows of all schedules, page by page. */
export async function readAllSchedules(
  { engine: { ledger } }: Context,
  {
    plugin: onlyPlugin,
    retired,
  }: { readonly plugin?: string | undefined; readonly retired: boolean },
): Promise<ScheduleRow[]> {
  const status = scheduleStatuses.filter((one) => retired || one !== 'retired');
  const found: ScheduleRow[] = [];
  for (;;) {
    const after = found.at(-1);
    const rows = await ledger.schedules.list({
      status,
      ...compact({ plugin: onlyPlugin, after }),
      limit: limits.pageRowsMax,
    });
    found.push(...rows);
    if (rows.length < limits.pageRowsMax) return found;
  }
}

/** Combines the schedules of the configuration with their rows in the ledger. */
async function readPreviewEntries(
  context: Context,
  onlyPlugin: string | undefined,
  times: PreviewTimes,
): Promise<PreviewEntry[]> {
  const { config, catalog } = context.engine;
  const rows = await readAllSchedules(context, { plugin: onlyPlugin, retired: false });
  const byKey = new Map(rows.map((row) => [toScheduleKey(row), row]));
  const timetable = await makeTimetable(config, catalog);
  return [...timetable]
    .filter(([, { timed }]) => onlyPlugin === undefined || timed.plugin === onlyPlugin)
    .flatMap(([key, entry]) => toPreviewEntries(entry, byKey.get(key), times));
}

interface PreviewTimes {
  readonly fromMs: number;
  readonly nowMs: number;
}

function toPreviewEntries(
  { timed, invalid }: TimetableEntry,
  row: ScheduleRow | undefined,
  { fromMs, nowMs }: PreviewTimes,
): PreviewEntry[] {
  if (invalid !== undefined) return [{ timed, held: invalid }];
  if (row === undefined) return [{ timed }];
  const held = row.status === 'active' ? {} : { held: row.reason ?? row.status };
  if (row.generation !== timed.generation) {
    return [{ timed, ...(keepsStatus(row, timed) ? held : {}) }];
  }
  const { nextSlotAt: slotAt, nextDueAt: dueAt, seq } = row;
  if (slotAt === null || dueAt === null) return [{ timed, ...held }];
  const state = { slotMs: fromTimestamp(slotAt), dueMs: fromTimestamp(dueAt), seq };
  if (state.dueMs >= fromMs) return [{ timed, ...held, state }];
  // It is due before the first time of the preview, and a time that comes only once doesn't come
  // again.
  const isOver = state.dueMs > nowMs && ['at', 'after'].includes(row.mode);
  return isOver ? [] : [{ timed, ...held }];
}

/** Returns whether a row keeps its status when its definition changes, as `syncSchedules` decides it. */
function keepsStatus(
  { status, mode, timing, command }: ScheduleRow,
  { schedule }: TimedSchedule,
): boolean {
  if (status !== 'exhausted') return status === 'paused';
  const isOnce = mode === 'at' || mode === 'after';
  return isOnce && timing === schedule.timing.text && command === schedule.command;
}

async function showSchedules(
  { engine }: Context,
  rows: readonly ScheduleRow[],
): Promise<z.output<typeof scheduleShape>[]> {
  if (rows.length === 0) return [];
  const factsOf = await readScheduleFacts(engine);
  return rows.map((row) => showSchedule(factsOf(row)));
}

function showSchedule(facts: ScheduleFacts): z.output<typeof scheduleShape> {
  const { row } = facts;
  const holds = listScheduleHolds(facts);
  return showRow(scheduleShape, row, {
    reason: row.reason ?? (facts.isDefinedElsewhere ? 'other_definition' : null),
    next_run_at: row.status === 'active' ? row.nextDueAt : null,
    next_start_at: computeNextStart(facts, holds),
    held_by: describeHold(holds),
  });
}

function describeHold([first]: readonly ScheduleHold[]) {
  if (first === undefined) return null;
  const { kind, cause } = first;
  return {
    kind,
    message: cause.fact,
    evidence: cause.evidence,
    until: cause.movesAt ?? null,
    commands: [...(cause.commands ?? [])],
  };
}
