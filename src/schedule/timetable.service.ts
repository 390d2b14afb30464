import type { Ledger, LedgerSubset } from '../ledger/ledger.ts';
import { setImmediate as turn } from 'node:timers/promises';
import { toTimestamp, fromTimestamp } from '../base/clock.ts';
import { describeUnsafeJson } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import type { Config, PluginConfig } from '../config/config.ts';
import type { NextDue, ScheduleDraft, ScheduleKey, ScheduleStatus } from './types.ts';
import { findPluginCommand, type Catalog } from '../plugin/catalog.ts';
import { firstSlot, makeTimedSchedule, type ScheduleSlot, type TimedSchedule } from './plan.ts';
import type { Schedule } from './schedule.ts';
import type { Log } from '../base/log.ts';
import type { LedgerContext } from '../engine/context.ts';

/** A schedule of the configuration in force, with all that firing it takes. */
export interface TimetableEntry {
  readonly timed: TimedSchedule;
  readonly settings: PluginConfig;
  /** JSON text. */
  readonly payload: string;
  readonly maxAttempts: number;
  /** Why it cannot be fired. */
  readonly invalid: string | undefined;
}

export type Timetable = ReadonlyMap<string, TimetableEntry>;

export function toScheduleKey({ plugin, scheduleId }: ScheduleKey): string {
  return `${plugin}/${scheduleId}`;
}

/** All schedules of the plugins that are not switched off, made in slices of the event loop. */
export async function makeTimetable(config: Config, catalog: Catalog): Promise<Timetable> {
  const entries = new Map<string, TimetableEntry>();
  for (const [plugin, settings] of Object.entries(config.plugins)) {
    if (!settings.enabled) continue;
    for (const schedule of settings.schedules) {
      const key = toScheduleKey({ plugin, scheduleId: schedule.id });
      entries.set(key, makeEntry(plugin, schedule, settings, { config, catalog }));
      if (entries.size % limits.scheduleSliceMax === 0) await turn();
    }
  }
  return entries;
}

function makeEntry(
  plugin: string,
  schedule: Schedule,
  settings: PluginConfig,
  { config, catalog }: { readonly config: Config; readonly catalog: Catalog },
): TimetableEntry {
  const payload = JSON.stringify(schedule.payload);
  return {
    timed: makeTimedSchedule(plugin, schedule, config.service),
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
  if (findPluginCommand(known, command) === undefined) return `command_not_supported: ${command}`;
  const unsafe = describeUnsafeJson(payload, limits.jsonDepthMax);
  if (unsafe !== undefined) return `payload_invalid: ${unsafe}`;
  return Buffer.byteLength(text) > limits.payloadBytesMax ? 'payload_too_large' : undefined;
}

/** Returns whether the row has the definition of another host that was loaded later. */
export function isOtherwise(
  config: Config,
  row: ScheduleKey & { readonly generation: string; readonly status: ScheduleStatus },
): boolean {
  const settings = config.plugins[row.plugin];
  const schedule = settings?.schedules.find(({ id }) => id === row.scheduleId);
  if (settings?.enabled !== true || schedule === undefined || row.status === 'retired')
    return false;
  return makeTimedSchedule(row.plugin, schedule, config.service).generation !== row.generation;
}

/** The row of an entry as it is when the ledger sees it for the first time. */
function toDraft({ timed, invalid }: TimetableEntry, nowMs: number): ScheduleDraft {
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

export function toNextDue({ slotMs, dueMs }: ScheduleSlot): NextDue {
  return { slotAt: toTimestamp(slotMs), dueAt: toTimestamp(dueMs) };
}

interface Fitted {
  readonly timetable: Timetable;
  /** When to look at the rows again at the latest, because some were left to other hosts. */
  readonly reviewMs: number;
}

/** The rows of schedules in the ledger, as far as this host speaks for them. */
interface ScheduleRows {
  /** Makes them those of the configuration where they have to be. */
  fit(nowMs: number): Promise<Fitted>;
}

export function makeScheduleRows(context: LedgerContext, log: Log): ScheduleRows {
  const { ledger } = context;
  const inheritance = makeInheritance(context);
  let known: { readonly config: Config; readonly catalog: Catalog } | undefined;
  let timetable: Timetable = new Map();
  /** Plugins that were left to other hosts, and when to see whether those are still there. */
  let left: ReadonlySet<string> = new Set();
  let reviewMs = Infinity;

  const isStale = (): boolean =>
    known?.config !== context.config || known.catalog !== context.catalog;

  const adopt = async (nowMs: number, unfired?: ReadonlyMap<string, number>): Promise<void> => {
    const taken = { config: context.config, catalog: context.catalog };
    if (isStale()) timetable = await makeTimetable(taken.config, taken.catalog);
    // A review is only of what was left: the rest may be what a host that was loaded later has made it.
    const plugins = isStale() || unfired !== undefined ? undefined : left;
    const seenAt = (entry: TimetableEntry): number =>
      unfired?.get(toScheduleKey(nameOf(entry))) ?? nowMs;
    left = await sync({ ledger, log }, { timetable, plugins, seenAt }, taken);
    reviewMs = left.size > 0 ? nowMs + taken.config.service.reapAfterMs : Infinity;
    if (plugins === undefined) inheritance.settle(nowMs);
    known = taken;
  };

  return {
    async fit(nowMs) {
      if (isStale()) await adopt(nowMs);
      else if (await inheritance.falls(nowMs)) await adopt(nowMs, await readUnfired(ledger, nowMs));
      else if (nowMs >= reviewMs) await adopt(nowMs);
      return { timetable, reviewMs };
    },
  };
}

interface Inheritance {
  /** All rows were made to fit what is loaded here. */
  settle(nowMs: number): void;
  /** Returns whether the rows must be updated again. */
  falls(nowMs: number): Promise<boolean>;
}

/**
 * The host that was loaded last owns the rows, and no other host fires them. When it is gone, they
 * belong to the live host that was loaded last, however long ago.
 */
function makeInheritance(context: LedgerContext): Inheritance {
  const { ledger, processId } = context;
  let askedMs = 0;
  /**
   * The snapshot that was loaded last by any host: at the last check, and when this host took the
   * rows.
   */
  let seen: string | undefined;
  let settled: string | undefined;
  return {
    settle(nowMs) {
      askedMs = nowMs;
      settled = seen;
    },
    async falls(nowMs) {
      const { reapAfterMs } = context.config.service;
      if (nowMs - askedMs < reapAfterMs) return false;
      askedMs = nowMs;
      const { snapshotId, liveProcessId } = await ledger.processes.findLastLoaded(reapAfterMs);
      seen = snapshotId;
      return liveProcessId === processId && seen !== settled;
    },
  };
}

interface RowWriter {
  readonly ledger: Ledger;
  readonly log: Log;
}

interface Scope {
  readonly timetable: Timetable;
  /** All unless told. */
  readonly plugins: ReadonlySet<string> | undefined;
  /** When a schedule counts as first seen, if it is new or another one. */
  readonly seenAt: (entry: TimetableEntry) => number;
}

function nameOf({ timed: { plugin, schedule } }: TimetableEntry): ScheduleKey {
  return { plugin, scheduleId: schedule.id };
}

/** Just before the times that nobody met: as if they had been ours, they are met or missed here. */
async function readUnfired(
  ledger: LedgerSubset<'schedules.listDue'>,
  nowMs: number,
): Promise<Map<string, number>> {
  const now = toTimestamp(nowMs);
  const { due } = await ledger.schedules.listDue({ now, limit: limits.scheduleSliceMax });
  return new Map(due.map((row) => [toScheduleKey(row), fromTimestamp(row.slotAt) - 1]));
}

/** Makes the rows those of the configuration, in slices; gives the plugins that others speak for. */
async function sync(
  { ledger, log }: RowWriter,
  { timetable, plugins, seenAt }: Scope,
  { config, catalog }: { readonly config: Config; readonly catalog: Catalog },
): Promise<Set<string>> {
  const live = new Set(await ledger.processes.listLivePlugins(config.service.reapAfterMs));
  const others = new Set<string>();
  // A schedule isn't invalid if another host has its plugin.
  const mayJudge = (plugin: string): boolean => {
    if (plugins?.has(plugin) === false) return false;
    const isMine = catalog.plugins.has(plugin) || !live.has(plugin);
    if (!isMine) others.add(plugin);
    return isMine;
  };
  const own = [...timetable.values()].filter(({ timed }) => mayJudge(timed.plugin));
  for (let at = 0; at < own.length; at += limits.scheduleSliceMax) {
    const slice = own.slice(at, at + limits.scheduleSliceMax);
    await ledger.schedules.sync(slice.map((entry) => toDraft(entry, seenAt(entry))));
    await turn();
  }
  for (const { timed, invalid } of own) {
    if (invalid === undefined) continue;
    const fields = { plugin: timed.plugin, schedule: timed.schedule.id, reason: invalid };
    log.error('a schedule is invalid and does not fire', fields);
  }
  await retire({ ledger, timetable, log }, mayJudge);
  return others;
}

/** Retires schedules that are in no configuration of this host's plugins. */
async function retire(
  { ledger, timetable, log }: RowWriter & { readonly timetable: Timetable },
  mayJudge: (plugin: string) => boolean,
): Promise<void> {
  let after: ScheduleKey | undefined;
  for (;;) {
    const rows = await ledger.schedules.list({
      status: ['active', 'paused', 'exhausted', 'invalid'],
      limit: limits.pageRowsMax,
      ...(after && { after }),
    });
    const gone = rows.filter((row) => !timetable.has(toScheduleKey(row)) && mayJudge(row.plugin));
    if (gone.length > 0) {
      await ledger.schedules.retire(gone);
      log.info('schedules are not configured any more', {
        schedules: gone.map(toScheduleKey).join(' '),
      });
    }
    after = rows.at(-1);
    if (rows.length < limits.pageRowsMax) return;
    await turn();
  }
}
