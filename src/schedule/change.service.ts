import { fromTimestamp } from '../base/clock.ts';
import { DuctileError } from '../base/errors.ts';
import { suggest } from '../base/text.ts';
import { pluginNotFound } from '../plugin/catalog.ts';
import type { Config } from '../config/config.ts';
import {
  pauseScheduleType,
  resetBreakerType,
  resumeScheduleType,
  type BreakerChoice,
  type ScheduleChoice,
} from './change-directives.ts';
import type { Ledger, LedgerSubset } from '../ledger/ledger.ts';
import type { NextDue, ScheduleRow } from './types.ts';
import { firstSlot, makeTimedSchedule, nextSlot } from './plan.ts';
import type { DirectiveDefinition } from '../directive/define.service.ts';
import type { Directives } from '../directive/request.service.ts';
import { toNextDue } from './timetable.service.ts';
import type { LedgerContext } from '../engine/context.ts';

export function registerScheduleDirectives(directives: Directives, context: LedgerContext): void {
  directives.registerDirective(pauseScheduleDirective(context));
  directives.registerDirective(resumeScheduleDirective(context));
  directives.registerDirective(resetBreakerDirective(context));
}

function pauseScheduleDirective(context: LedgerContext): DirectiveDefinition<ScheduleChoice> {
  const { ledger } = context;
  return {
    ...pauseScheduleType,
    async plan(choice) {
      const { status } = await requireSchedule(choice, ledger, context.config);
      const name = nameOf(choice);
      if (status === 'paused') return [`${name} is paused already; nothing would change.`];
      return [`${name} would not fire until it is resumed; what it has queued would still run.`];
    },
    async prepare(choice) {
      const now = await ledger.now();
      return { work: { kind: 'schedule.pause', ...keyOf(choice), paused: true, now } };
    },
  };
}

function resumeScheduleDirective(context: LedgerContext): DirectiveDefinition<ScheduleChoice> {
  const { ledger, commits } = context;
  return {
    ...resumeScheduleType,
    async plan(choice) {
      const row = await requireSchedule(choice, ledger, context.config);
      const name = nameOf(choice);
      if (row.status !== 'paused') return [`${name} is ${row.status}; nothing would change.`];
      const now = await ledger.now();
      const ahead = row.nextDueAt !== null && row.nextDueAt >= now ? row.nextDueAt : undefined;
      const dueAt = ahead ?? nextAfterResume(context.config, choice, row, now)?.dueAt;
      return [`${name} would fire again${dueAt === undefined ? '' : `, at ${dueAt} first`}.`];
    },
    async prepare(choice) {
      const row = await requireSchedule(choice, ledger, context.config);
      const now = await ledger.now();
      const next = nextAfterResume(context.config, choice, row, now);
      const work = { kind: 'schedule.pause', ...keyOf(choice), paused: false, now } as const;
      return { work: next === undefined ? work : { ...work, next } };
    },
    after: () => commits.publish({ schedules: true }),
  };
}

function resetBreakerDirective(context: LedgerContext): DirectiveDefinition<BreakerChoice> {
  const { ledger, commits } = context;
  return {
    ...resetBreakerType,
    async plan({ plugin, command }) {
      if (!Object.hasOwn(context.config.plugins, plugin) && !context.catalog.plugins.has(plugin)) {
        throw pluginNotFound(context.catalog, plugin);
      }
      const breakers = await ledger.breakers.list({ plugin, ...(command && { command }) });
      const moved = breakers.filter(
        ({ state, failureCount }) => state !== 'closed' || failureCount > 0,
      );
      if (moved.length === 0) return [`No breaker of ${plugin} is open; nothing would change.`];
      return moved.map(
        ({ command: name, state, failureCount }) =>
          `The breaker of ${plugin} ${name}, ${state} after ${failureCount} failures, would be closed.`,
      );
    },
    prepare: ({ plugin, command }) => ({
      work: { kind: 'breaker.reset', plugin, ...(command && { command }) },
    }),
    after: () => commits.publish({ schedules: true }),
  };
}

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
    return new DuctileError('SCHEDULE_NOT_FOUND', `${message} on the ledger yet`, {
      hint: 'It is in the configuration, and begins when the service starts: `ductile system start`.',
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
