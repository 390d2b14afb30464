import { setImmediate as turn } from 'node:timers/promises';
import { toTimestamp } from '../base/clock.ts';
import { describeUnsafeJson } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import type { Config, PluginConfig } from '../config/config.ts';
import type { NextDue, ScheduleDraft, ScheduleKey, ScheduleStatus } from './types.ts';
import { lookupCommand, type Catalog } from '../plugin/catalog.ts';
import { firstSlot, makeTimed, type Slot, type Timed } from './plan.ts';
import type { Schedule } from './schedule.ts';

/** A schedule of the configuration in force, with all that firing it takes. */
export interface Entry {
  readonly timed: Timed;
  readonly settings: PluginConfig;
  /** JSON text. */
  readonly payload: string;
  readonly maxAttempts: number;
  /** Why it cannot be fired. */
  readonly invalid: string | undefined;
}

export type Timetable = ReadonlyMap<string, Entry>;

export function keyOf({ plugin, scheduleId }: ScheduleKey): string {
  return `${plugin}/${scheduleId}`;
}

/** All schedules of the plugins that are not switched off, made in slices of the event loop. */
export async function makeTimetable(config: Config, catalog: Catalog): Promise<Timetable> {
  const entries = new Map<string, Entry>();
  for (const [plugin, settings] of Object.entries(config.plugins)) {
    if (!settings.enabled) continue;
    for (const schedule of settings.schedules) {
      const key = keyOf({ plugin, scheduleId: schedule.id });
      entries.set(key, makeEntry({ plugin, schedule, settings }, config, catalog));
      if (entries.size % limits.scheduleSliceMax === 0) await turn();
    }
  }
  return entries;
}

interface Parts {
  readonly plugin: string;
  readonly schedule: Schedule;
  readonly settings: PluginConfig;
}

export function makeEntry(
  { plugin, schedule, settings }: Parts,
  config: Config,
  catalog: Catalog,
): Entry {
  const payload = JSON.stringify(schedule.payload);
  return {
    timed: makeTimed(plugin, schedule, config.service),
    settings,
    payload,
    maxAttempts: settings.retry.maxAttempts,
    invalid: findFault(plugin, schedule, payload, catalog),
  };
}

function findFault(
  plugin: string,
  { command, payload }: Schedule,
  text: string,
  catalog: Catalog,
): string | undefined {
  const known = catalog.plugins.get(plugin);
  if (known === undefined) {
    const problem = catalog.problems.find((one) => one.plugin === plugin);
    return problem === undefined ? 'plugin_not_found' : `plugin_not_loaded: ${problem.message}`;
  }
  if (lookupCommand(known, command) === undefined) return `command_not_supported: ${command}`;
  const unsafe = describeUnsafeJson(payload, limits.jsonDepthMax);
  if (unsafe !== undefined) return `payload_invalid: ${unsafe}`;
  return Buffer.byteLength(text) > limits.payloadBytesMax ? 'payload_too_large' : undefined;
}

/** Whether the row of a schedule that this host has too is as a host defines it that was loaded later. */
export function isOtherwise(
  config: Config,
  row: ScheduleKey & { readonly generation: string; readonly status: ScheduleStatus },
): boolean {
  const settings = config.plugins[row.plugin];
  const schedule = settings?.schedules.find(({ id }) => id === row.scheduleId);
  if (settings?.enabled !== true || schedule === undefined || row.status === 'retired')
    return false;
  return makeTimed(row.plugin, schedule, config.service).generation !== row.generation;
}

/** The row of an entry as it is when the ledger sees it for the first time. */
export function toDraft({ timed, invalid }: Entry, nowMs: number): ScheduleDraft {
  const { plugin, schedule, zone, generation } = timed;
  const first = invalid === undefined ? firstSlot(timed, 0, nowMs) : undefined;
  const never = invalid === undefined && first === undefined;
  return {
    plugin,
    scheduleId: schedule.id,
    command: schedule.command,
    mode: schedule.timing.mode,
    timing: schedule.timing.text,
    timezone: zone.name,
    generation,
    invalid: never ? 'never_due' : invalid,
    next: first === undefined ? undefined : toNextDue(first),
    seenAt: toTimestamp(nowMs),
  };
}

export function toNextDue({ slotMs, dueMs }: Slot): NextDue {
  return { slotAt: toTimestamp(slotMs), dueAt: toTimestamp(dueMs) };
}
