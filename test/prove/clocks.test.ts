/**
 * Clocks that jump: several hosts run the same schedules while the clock of their ledger jumps
 * hours forward and back. The time passes daylight-saving changes, leap days and 2038, in all kinds
 * of zones. Every time of a schedule fires once, on one host. The expected times come from the
 * zones of the system, not from the program's own code. Then real servers get a clock that is wrong
 * by hours, runs fast or slow, and is set forward and back while they work.
 */
import { makeContext } from '../support/context.ts';
import type { Log } from '../../src/base/log.ts';
import type { Config } from '../../src/config/config.ts';
import { makeScheduler, type Scheduler } from '../../src/schedule/scheduler.service.ts';
import type { Catalog } from '../../src/plugin/catalog.ts';
import { between, pick, type Random } from '../support/crash/random.ts';
import { makeMemorySchedules } from '../support/memory-schedules.ts';
import { schedule } from '../schedule/support.ts';
import { campaign, type Trial } from './support/campaign.ts';
import type { Figures } from './support/report.ts';
import { tryWrongClocks } from './support/wrong-clocks.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const DAYS = 20;

const zones = [
  'UTC',
  'Europe/Berlin',
  'America/New_York',
  'America/Sao_Paulo',
  'Australia/Lord_Howe',
  'Asia/Kathmandu',
  'Pacific/Kiritimati',
  'Africa/Casablanca',
  'Pacific/Chatham',
];
/** Days shortly before a special day of the calendar. */
const starts = [
  '1999-12-20T00:00:30Z',
  '2024-02-20T00:00:30Z',
  '2026-03-20T00:00:30Z',
  '2026-10-15T00:00:30Z',
  '2026-03-01T00:00:30Z',
  '2026-04-01T00:00:30Z',
  '2027-09-20T00:00:30Z',
  '2038-01-10T00:00:30Z',
  '2100-02-20T00:00:30Z',
];
const log = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} };

/** Every third trial has servers whose machine's clock is wrong; the others have schedules alone. */
campaign('clocks', { trials: 3, timeoutMs: 300_000 }, (trial) => {
  if (trial.index % 3 < 2) return tryCalendar(trial);
  return tryWrongClocks(trial, trial.index % 6 < 3 ? 'sqlite' : 'postgres');
});

async function tryCalendar({ random, seed }: Trial): Promise<Figures> {
  const zone = pick(zones, random);
  const start = Date.parse(pick(starts, random));
  const daily = { hour: between(random, 0, 23), minute: between(random, 0, 59) };
  const every = pick([15, 20, 30, 60], random);
  const entries = [
    { id: 'daily', cron: `${daily.minute} ${daily.hour} * * *` },
    { id: 'weekday', cron: `${daily.minute} ${daily.hour} * * mon-fri` },
    { id: 'often', cron: every === 60 ? '0 * * * *' : `*/${every} * * * *` },
  ].map((entry) => ({ ...entry, timezone: zone, catch_up: 'run_all', if_running: 'queue' }));
  const { jobs, endMs, jumps } = await live(entries, zone, start, random);
  const found = (id: string): number => jobs.filter(({ key }) => key === `echo/${id}`).length;
  const expected = expect(zone, start, endMs, { ...daily, every });
  const what = `seed ${seed}, ${zone} from ${new Date(start).toISOString()}, ${JSON.stringify(daily)}`;
  for (const [id, count] of Object.entries(expected)) {
    if (found(id) !== count)
      throw new Error(`${what}: ${id} was met ${found(id)} times instead of ${count}`);
  }
  const slots = new Set(jobs.map(({ key, slot }) => `${key} ${slot}`));
  if (slots.size !== jobs.length) throw new Error(`${what}: a time was met twice`);
  return { days: DAYS, met: jobs.length, jumps };
}

async function live(
  entries: readonly Readonly<Record<string, unknown>>[],
  timezone: string,
  start: number,
  random: Random,
) {
  let nowMs = start;
  // A started job ends, even if the clock fell back behind its beginning.
  const memory = makeMemorySchedules(() => nowMs, -DAY);
  const service = { tickIntervalMs: 10 * MINUTE, timezone, quietHours: {}, reapAfterMs: 1000 };
  const settings = {
    enabled: true,
    schedules: entries.map(schedule),
    retry: { maxAttempts: 1, backoffBaseMs: 1 },
    circuitBreaker: { threshold: 3, resetAfterMs: 1 },
    maxOutstandingPolls: 1000,
  };
  const config = { service, plugins: { echo: settings } } as unknown as Config;
  const plugins = new Map([['echo', { manifest: { commands: { poll: {} } } }]]);
  const catalog = { plugins, problems: [] } as unknown as Catalog;
  const hosts: Scheduler[] = Array.from({ length: between(random, 1, 4) }, () =>
    makeScheduler(
      makeContext({
        ledger: memory.ledger,
        processId: 'any',
        log: { child: () => log } as unknown as Log,
        get generation() {
          return { config, catalog };
        },
      }),
      () => undefined,
      () => Promise.resolve(nowMs),
    ),
  );
  for (const host of hosts) await host.tick();
  let jumps = 0;
  let endMs = start;
  while (endMs < start + DAYS * DAY) {
    // Hosts check at random times, sometimes all at once.
    const those = random() < 0.3 ? hosts : [pick(hosts, random)];
    const looks = await Promise.all(those.map((host) => host.tick()));
    endMs = Math.max(endMs, nowMs);
    nowMs += Math.min(...looks.map(({ nextInMs }) => nextInMs));
    if (random() < 0.02) {
      jumps += 1;
      nowMs += between(random, -5 * HOUR, 5 * HOUR);
    }
  }
  return { jobs: memory.jobs, endMs, jumps };
}

interface CampaignRequest {
  readonly hour: number;
  readonly minute: number;
  readonly every: number;
}

/** The expected number of times per schedule, counted minute by minute after the start. */
function expect(
  zone: string,
  start: number,
  endMs: number,
  { hour, minute, every }: CampaignRequest,
) {
  const format = new Intl.DateTimeFormat('en-GB', {
    timeZone: zone,
    hourCycle: 'h23',
    weekday: 'short',
    year: 'numeric',
    month: '2-digit',
    day: '2-digit',
    hour: '2-digit',
    minute: '2-digit',
  });
  const dueMinutes = hour * 60 + minute;
  const counts = { daily: 0, weekday: 0, often: 0 };
  let last: { date: string; minutes: number } | undefined;
  let metOn = '';
  for (let ms = Math.ceil(start / MINUTE) * MINUTE - MINUTE; ms <= endMs; ms += MINUTE) {
    const parts = new Map(format.formatToParts(ms).map(({ type, value }) => [type, value]));
    const get = (type: Intl.DateTimeFormatPartTypes): string => parts.get(type) ?? '';
    const date = `${get('year')}-${get('month')}-${get('day')}`;
    const minutes = Number(get('hour')) * 60 + Number(get('minute'));
    const isNew = ms > start;
    if (isNew && minutes % every === 0) counts.often += 1;
    // A time that a day doesn't have fires right after it; one that it has twice fires once.
    const isPassed = last?.date === date && last.minutes < dueMinutes && minutes > dueMinutes;
    if (metOn !== date && (minutes === dueMinutes || isPassed)) {
      metOn = date;
      if (isNew) counts.daily += 1;
      if (isNew && !['Sat', 'Sun'].includes(get('weekday'))) counts.weekday += 1;
    }
    last = { date, minutes };
  }
  return counts;
}
