import * as z from 'zod';
import { fromTimestamp } from '../base/clock.ts';
import { DuctileError } from '../base/errors.ts';
import { suggest } from '../base/text.ts';
import type { Config } from '../config/config.ts';
import { pluginName } from '../config/fields.ts';
import type { Ledger, LedgerSubset } from '../ledger/ledger.ts';
import { defineDirective, directiveIdField } from '../operation/define-directive.ts';
import { firstSlot, makeTimedSchedule, nextSlot } from './plan.ts';
import { pauseSchedule } from './schedule.sql.ts';
import { toNextDue } from './timetable.service.ts';
import type { NextDue, ScheduleRow } from './types.ts';

const params = z.strictObject({
  plugin: pluginName().describe('the name of the plugin'),
  schedule_id: z.string().min(1).default('default').describe('the id of its schedule'),
});

type ScheduleChoice = z.output<typeof params>;

const common = {
  scope: 'schedule:rw',
  params,
  isForHandlers: true,
  sameness: () => 'toggle' as const,
  target: nameOf,
} as const;

const commonOperation = {
  effect: 'write',
  scope: 'schedules:rw',
  output: z.object({
    plugin: z.string(),
    schedule_id: z.string(),
    paused: z.boolean(),
    directive_id: directiveIdField,
  }),
  errors: ['INPUT_INVALID', 'LEDGER_UNAVAILABLE', 'SCHEDULE_NOT_FOUND'],
} as const;

export const pauseScheduleDirective = defineDirective({
  ...common,
  type: 'schedule.pause',
  summary: 'Pause a schedule. Its due times are skipped until you resume it.',
  async plan({ ledger, config }, choice) {
    const { status } = await requireSchedule(choice, ledger, config);
    const name = nameOf(choice);
    if (status === 'paused') return [`${name} is already paused; nothing would change.`];
    return [`${name} will not fire until you resume it. Its queued jobs will still run.`];
  },
  async prepare({ ledger }, choice) {
    const now = await ledger.now();
    return { work: (tx) => pauseSchedule(tx, { ...keyOf(choice), paused: true, now }) };
  },
  operation: {
    ...commonOperation,
    http: { method: 'POST', path: '/schedules/:plugin/pause' },
    cli: {
      positionals: ['plugin', 'schedule_id'],
      examples: ['ductile schedule pause mail', 'ductile schedule pause mail nightly --dry-run'],
    },
  },
});

export const resumeScheduleDirective = defineDirective({
  ...common,
  type: 'schedule.resume',
  summary: 'Resume a paused schedule. It fires again from now on.',
  async plan({ ledger, config }, choice) {
    const row = await requireSchedule(choice, ledger, config);
    const name = nameOf(choice);
    if (row.status !== 'paused') return [`${name} is ${row.status}; nothing would change.`];
    const now = await ledger.now();
    const ahead = row.nextDueAt !== null && row.nextDueAt >= now ? row.nextDueAt : undefined;
    const dueAt = ahead ?? nextAfterResume(config, choice, row, now)?.dueAt;
    return [`${name} will fire again${dueAt === undefined ? '' : `, first at ${dueAt}`}.`];
  },
  async prepare({ ledger, config }, choice) {
    const row = await requireSchedule(choice, ledger, config);
    const now = await ledger.now();
    const next = nextAfterResume(config, choice, row, now);
    const request = { ...keyOf(choice), paused: false, now, ...(next && { next }) };
    return { work: (tx) => pauseSchedule(tx, request) };
  },
  after: ({ commits }) => commits.publish({ schedules: true }),
  operation: {
    ...commonOperation,
    http: { method: 'POST', path: '/schedules/:plugin/resume' },
    cli: {
      positionals: ['plugin', 'schedule_id'],
      examples: ['ductile schedule resume mail nightly'],
    },
  },
});

/**
 * Computes the due time after a resume. Times that were missed during the pause aren't caught up,
 * unless the schedule is due only once.
 */
function nextAfterResume(
  config: Config,
  choice: ScheduleChoice,
  row: ScheduleRow,
  now: string,
): NextDue | undefined {
  const found = config.plugins[choice.plugin]?.schedules.find(
    ({ id }) => id === choice.schedule_id,
  );
  if (found === undefined) return undefined;
  const timed = makeTimedSchedule(choice.plugin, found, config.service);
  const nowMs = fromTimestamp(now);
  const slot =
    found.timing.mode === 'cron'
      ? nextSlot(timed, row.seq, nowMs)
      : firstSlot(
          timed,
          row.seq,
          fromTimestamp(found.timing.mode === 'every' ? now : row.firstSeenAt),
        );
  return slot === undefined ? undefined : toNextDue(slot);
}

async function requireSchedule(
  choice: ScheduleChoice,
  ledger: Ledger,
  config: Config,
): Promise<ScheduleRow> {
  const [row] = await ledger.schedules.list({ ...keyOf(choice), limit: 1 });
  if (row !== undefined && row.status !== 'retired') return row;
  throw await scheduleNotFound(keyOf(choice), config, ledger);
}

function keyOf(choice: ScheduleChoice): { plugin: string; scheduleId: string } {
  return { plugin: choice.plugin, scheduleId: choice.schedule_id };
}

function nameOf({ plugin, schedule_id: id }: ScheduleChoice): string {
  return `${plugin}/${id}`;
}

export interface ScheduleName {
  readonly plugin: string;
  readonly scheduleId: string;
}

/** Creates the error about a schedule that isn't in the ledger. */
export async function scheduleNotFound(
  name: ScheduleName,
  config: Config,
  ledger: LedgerSubset<'schedules.list'>,
): Promise<DuctileError> {
  const { plugin, scheduleId } = name;
  const message = `there is no schedule ${plugin}/${scheduleId}`;
  if (isDeclared(name, config)) {
    return new DuctileError('SCHEDULE_NOT_FOUND', `${message} in the database yet`, {
      hint: 'It is configured, and is added when the service starts. Run `ductile system start`.',
    });
  }
  const ids = (await ledger.schedules.list({ plugin, limit: SUGGESTED_MAX })).map(
    (one) => one.scheduleId,
  );
  const hint =
    ids.length === 0 ? {} : { hint: suggest(scheduleId, ids, 'schedules of this plugin') };
  return new DuctileError('SCHEDULE_NOT_FOUND', message, hint);
}

const SUGGESTED_MAX = 20;

/** Returns whether the configuration has the schedule, even if the service hasn't loaded it yet. */
export function isDeclared({ plugin, scheduleId }: ScheduleName, { plugins }: Config): boolean {
  const { schedules = [] } = Object.hasOwn(plugins, plugin) ? (plugins[plugin] ?? {}) : {};
  return schedules.some(({ id }) => id === scheduleId);
}
