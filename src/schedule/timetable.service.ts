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

/** A schedule of the active configuration, with everything that is needed to fire it. */
export interface TimetableEntry {
  readonly timed: TimedSchedule;
  readonly settings: PluginConfig;
  /** JSON text. */
  readonly payload: string;
  readonly maxAttempts: number;
  /** The reason why it can't fire. Undefined if it can. */
  readonly invalid: string | undefined;
}

export type Timetable = ReadonlyMap<string, TimetableEntry>;

export function toScheduleKey({ plugin, scheduleId }: ScheduleKey): string {
  return `${plugin}/${scheduleId}`;
}

/** Collects the schedules of all enabled plugins. It yields to the event loop between slices. */
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

/** Returns whether another host that loaded its configuration later defines the schedule differently. */
export function isDefinedElsewhere(
  config: Config,
  row: ScheduleKey & { readonly generation: string; readonly status: ScheduleStatus },
): boolean {
  const settings = config.plugins[row.plugin];
  const schedule = settings?.schedules.find(({ id }) => id === row.scheduleId);
  if (settings?.enabled !== true || schedule === undefined || row.status === 'retired')
    return false;
  return makeTimedSchedule(row.plugin, schedule, config.service).generation !== row.generation;
}

/** Drafts the row that is written if the ledger doesn't have this schedule yet. */
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

interface SyncResult {
  readonly timetable: Timetable;
  /** When to sync again at the latest, because other hosts own some of the rows. */
  readonly reviewMs: number;
}

/** The rows of schedules in the ledger, as far as this host owns them. */
interface ScheduleRows {
  /** Writes the rows again if the configuration changed, or if rows have lost their owner. */
  sync(nowMs: number): Promise<SyncResult>;
}

export function makeScheduleRows(context: LedgerContext, log: Log): ScheduleRows {
  const { ledger } = context;
  const ownership = makeOwnership(context);
  let known: LoadedConfig | undefined;
  let timetable: Timetable = new Map();
  /** Plugins that other hosts own. At `reviewMs`, this host checks whether those hosts are still live. */
  let foreign: ReadonlySet<string> = new Set();
  let reviewMs = Infinity;

  const isStale = (): boolean =>
    known?.config !== context.config || known.catalog !== context.catalog;

  const writeRows = async (nowMs: number, unfired?: ReadonlyMap<string, number>): Promise<void> => {
    const loaded: LoadedConfig = { config: context.config, catalog: context.catalog };
    if (isStale()) timetable = await makeTimetable(loaded.config, loaded.catalog);
    // A review writes only rows of foreign plugins. A host that was loaded later may own the others.
    const plugins = isStale() || unfired !== undefined ? undefined : foreign;
    const seenAt = (entry: TimetableEntry): number =>
      unfired?.get(toScheduleKey(nameOf(entry))) ?? nowMs;
    foreign = await syncRows({ ledger, log }, { timetable, plugins, seenAt }, loaded);
    reviewMs = foreign.size > 0 ? nowMs + loaded.config.service.reapAfterMs : Infinity;
    if (plugins === undefined) ownership.settle(nowMs);
    known = loaded;
  };

  return {
    async sync(nowMs) {
      if (isStale()) await writeRows(nowMs);
      else if (await ownership.isInherited(nowMs)) {
        await writeRows(nowMs, await readUnfired(ledger, nowMs));
      } else if (nowMs >= reviewMs) await writeRows(nowMs);
      return { timetable, reviewMs };
    },
  };
}

interface LoadedConfig {
  readonly config: Config;
  readonly catalog: Catalog;
}

interface Ownership {
  /** Records that this host has written all rows. */
  settle(nowMs: number): void;
  /** Returns whether this host inherits the rows of a host that is gone, and must write them again. */
  isInherited(nowMs: number): Promise<boolean>;
}

/**
 * The host that was loaded last owns the rows, and no other host fires them. When it is gone, they
 * belong to the live host that was loaded last, however long ago.
 */
function makeOwnership(context: LedgerContext): Ownership {
  const { ledger, processId } = context;
  let checkedMs = 0;
  /**
   * The snapshot that was loaded last by any host: at the last check, and when this host wrote all
   * rows.
   */
  let seen: string | undefined;
  let settled: string | undefined;
  return {
    settle(nowMs) {
      checkedMs = nowMs;
      settled = seen;
    },
    async isInherited(nowMs) {
      const { reapAfterMs } = context.config.service;
      if (nowMs - checkedMs < reapAfterMs) return false;
      checkedMs = nowMs;
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

interface SyncScope {
  readonly timetable: Timetable;
  /** The plugins whose rows are written (default: all). */
  readonly plugins: ReadonlySet<string> | undefined;
  /** When a schedule counts as first seen, if it is new or its definition changed. */
  readonly seenAt: (entry: TimetableEntry) => number;
}

function nameOf({ timed: { plugin, schedule } }: TimetableEntry): ScheduleKey {
  return { plugin, scheduleId: schedule.id };
}

/**
 * Returns the moment before each due time that no host has handled. With that as its first sight,
 * this host fires the time or counts it as missed, as the owner would have done.
 */
async function readUnfired(
  ledger: LedgerSubset<'schedules.listDue'>,
  nowMs: number,
): Promise<Map<string, number>> {
  const now = toTimestamp(nowMs);
  const { due } = await ledger.schedules.listDue({ now, limit: limits.scheduleSliceMax });
  return new Map(due.map((row) => [toScheduleKey(row), fromTimestamp(row.slotAt) - 1]));
}

/** Writes the rows of the configuration, in slices. Returns the plugins that other hosts own. */
async function syncRows(
  { ledger, log }: RowWriter,
  { timetable, plugins, seenAt }: SyncScope,
  { config, catalog }: LoadedConfig,
): Promise<Set<string>> {
  const live = new Set(await ledger.processes.listLivePlugins(config.service.reapAfterMs));
  const foreign = new Set<string>();
  // A schedule isn't invalid if another host has its plugin.
  const isOwned = (plugin: string): boolean => {
    if (plugins?.has(plugin) === false) return false;
    const isOwn = catalog.plugins.has(plugin) || !live.has(plugin);
    if (!isOwn) foreign.add(plugin);
    return isOwn;
  };
  const own = [...timetable.values()].filter(({ timed }) => isOwned(timed.plugin));
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
  await retireRows({ ledger, timetable, log }, isOwned);
  return foreign;
}

/** Retires the rows of this host's plugins that are no longer in its configuration. */
async function retireRows(
  { ledger, timetable, log }: RowWriter & { readonly timetable: Timetable },
  isOwned: (plugin: string) => boolean,
): Promise<void> {
  let after: ScheduleKey | undefined;
  for (;;) {
    const rows = await ledger.schedules.list({
      status: ['active', 'paused', 'exhausted', 'invalid'],
      limit: limits.pageRowsMax,
      ...(after && { after }),
    });
    const gone = rows.filter((row) => !timetable.has(toScheduleKey(row)) && isOwned(row.plugin));
    if (gone.length > 0) {
      await ledger.schedules.retire(gone);
      log.info('schedules are no longer configured', {
        schedules: gone.map(toScheduleKey).join(' '),
      });
    }
    after = rows.at(-1);
    if (rows.length < limits.pageRowsMax) return;
    await turn();
  }
}
