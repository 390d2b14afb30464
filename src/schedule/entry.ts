import * as z from 'zod';
import { parseDuration, parseFault, parseOk, type ParseResult } from '../base/quantity.ts';
import { count, dependencyKey } from '../base/fields.ts';
import { isObject, type JsonObject } from '../base/json.ts';
import { parseCron, type Cron } from './cron.ts';
import {
  parseDistance,
  parseEvery,
  catchUps,
  ifRunnings,
  type Schedule,
  type Timing,
} from './schedule.ts';
import {
  quietActions,
  isWithinWindow,
  hasAllowedTime,
  makeWindow,
  parseWindow,
  type Constraints,
} from './window.ts';
import { daysIn, isTimezone } from './zone.ts';

const idPattern = /^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$/;

const windowTimes = z.strictObject({ start: z.string(), end: z.string() });

const shape = {
  id: z
    .string()
    .regex(idPattern, 'must be letters, digits, _, - and dots, and start with a letter or digit')
    .default('default'),
  every: textAndValue(parseEvery).optional(),
  cron: textAndValue(parseCron).optional(),
  at: textAndValue(parseMoment).optional(),
  after: textAndValue(parseDistance).optional(),
  command: z
    .string()
    .regex(/^[A-Za-z][A-Za-z0-9_-]{0,127}$/, 'must be letters, digits, _ and -')
    .refine((command) => command !== 'handle', {
      error: 'must not be handle, which only handles events',
      params: { hint: 'Schedule poll, or another command of the plugin.' },
    })
    .default('poll'),
  payload: z.record(z.string(), z.unknown()).default({}),
  jitter: valueOnly(parseJitter).default(0),
  catch_up: z.enum(catchUps).default('skip'),
  if_running: z.enum(ifRunnings).default('skip'),
  only_between: valueOnly(parseWindow).optional(),
  timezone: valueOnly(parseTimezone).optional(),
  quiet_start: count(0, 23).optional(),
  quiet_end: count(0, 23).optional(),
  quiet_action: z.enum(quietActions).default('skip'),
  dependency: dependencyKey().optional(),
  not_on: z.array(weekday()).default([]),
  preferred_window: windowTimes
    .transform(({ start, end }, context) => unwrap(makeWindow(start, end), context))
    .optional(),
};

type Fields = z.output<z.ZodObject<typeof shape>>;

/** The schema of one entry of `plugins.<name>.schedules`. `toSchedule` translates it. */
export const scheduleEntry = z.preprocess(
  dropEmpty,
  z.strictObject(shape).superRefine(checkTogether, { when: ({ issues }) => issues.length === 0 }),
);

type ScheduleEntry = z.output<typeof scheduleEntry>;

export function toSchedule(entry: ScheduleEntry): Schedule {
  const timing = timingOf(entry);
  if (timing === undefined) throw new TypeError(`schedule ${entry.id} has no timing`);
  return {
    id: entry.id,
    timing,
    command: entry.command,
    // The document was already checked for values that JSON can't hold.
    payload: entry.payload as JsonObject,
    jitterMs: entry.jitter,
    catchUp: entry.catch_up,
    ifRunning: entry.if_running,
    onlyBetween: entry.only_between,
    notOn: [...new Set(entry.not_on)].sort((a, b) => a - b),
    preferredWindow: entry.preferred_window,
    timezone: entry.timezone,
    quiet: { start: entry.quiet_start, end: entry.quiet_end },
    quietAction: entry.quiet_action,
    dependency: entry.dependency,
  };
}

function timingOf({ every, cron, at, after }: Fields): Timing | undefined {
  if (every !== undefined) return { mode: 'every', text: every.text, every: every.value };
  if (cron !== undefined) return { mode: 'cron', text: cron.text, cron: cron.value };
  if (at !== undefined) return { mode: 'at', text: at.text, atMs: at.value };
  if (after !== undefined) return { mode: 'after', text: after.text, afterMs: after.value };
  return undefined;
}

const modes = ['every', 'cron', 'at', 'after'] as const;

function checkTogether(entry: Fields, context: z.core.$RefinementCtx): void {
  const report = (key: keyof Fields, message: string, hint?: string): void => {
    context.addIssue({ code: 'custom', path: [key], message, params: { hint } });
  };
  const given = modes.filter((mode) => entry[mode] !== undefined);
  if (given.length === 0) report('every', 'or one of cron, at and after is required');
  const [first, second] = given;
  if (second !== undefined) report(second, `and ${first} exclude each other`, 'Keep one of them.');
  const { catch_up: catchUp } = entry;
  if (catchUp !== 'skip' && (first === 'at' || first === 'after')) {
    report('catch_up', `is only for every and cron; a missed ${first} is always caught up`);
  }
  const constraints: Constraints = {
    onlyBetween: entry.only_between,
    notOn: entry.not_on,
    preferredWindow: entry.preferred_window,
  };
  if (!hasAllowedTime(constraints)) {
    const key = new Set(entry.not_on).size === 7 ? 'not_on' : 'preferred_window';
    report(key, 'leaves no time at which it could be due');
  } else if (entry.cron !== undefined && !canCome(entry.cron.value, constraints)) {
    report('cron', 'never matches a time that only_between and not_on allow');
  } else if (entry.cron !== undefined && isAlwaysQuiet(entry, entry.cron.value)) {
    const hint = 'Set quiet_action: defer, or choose other hours.';
    report('cron', 'matches only quiet hours, in which it is skipped', hint);
  }
}

/** Checks only the entry itself, and only if nothing moves its times. */
function isAlwaysQuiet(entry: Fields, { hours }: Cron): boolean {
  const { quiet_start: start, quiet_end: end } = entry;
  if (start === undefined || end === undefined || start === end) return false;
  const isMoved = entry.jitter > 0 || entry.preferred_window !== undefined;
  if (entry.quiet_action === 'defer' || isMoved) return false;
  return hours.every((hour) => isWithinWindow({ start: start * 60, end: end * 60 }, hour * 60));
}

function canCome(cron: Cron, { onlyBetween, notOn }: Constraints): boolean {
  const onADay = cron.daysBy !== 'weekday' || cron.weekdays.some((day) => !notOn.includes(day));
  const atATime =
    onlyBetween === undefined ||
    cron.hours.some((hour) =>
      cron.minutes.some((minute) => isWithinWindow(onlyBetween, hour * 60 + minute)),
    );
  return onADay && atATime;
}

function parseMoment(text: string): ParseResult<number> {
  const form = /^\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?([Zz]|[+-]\d{2}:\d{2})$/;
  const ms = form.test(text) ? Date.parse(text.replace(' ', 'T').toUpperCase()) : Number.NaN;
  const [year = 0, month = 0, day = 0] = text.slice(0, 10).split('-').map(Number);
  // `Date.parse` turns 31 February into 3 March.
  if (Number.isFinite(ms) && day <= daysIn(year, month)) return parseOk(ms);
  return parseFault(
    'is not a date with a time and an offset',
    'Write it like 2027-01-31T08:00:00+01:00, with an offset or Z.',
  );
}

function parseJitter(text: string): ParseResult<number> {
  const parsed = parseDuration(text);
  return parsed.ok ? parseOk(parsed.ms) : parsed;
}

function parseTimezone(name: string): ParseResult<string> {
  if (isTimezone(name)) return parseOk(name);
  return parseFault('is not a time zone', 'Write an IANA name, such as Europe/Lisbon or UTC.');
}

const dayNames = ['sunday', 'monday', 'tuesday', 'wednesday', 'thursday', 'friday', 'saturday'];

/** Parses a name, its first three letters, or a number. Both 0 and 7 are Sunday. */
function weekday() {
  return z.union([z.string(), z.int()]).transform((value, context) => {
    const text = String(value).toLowerCase();
    const named = dayNames.findIndex((name) => name === text || name.slice(0, 3) === text);
    if (named !== -1) return named;
    if (/^[0-7]$/.test(text)) return Number(text) % 7;
    const hint = 'Write monday, mon or a number from 0 (Sunday) to 6.';
    return unwrap<never>(parseFault('is not a day of the week', hint), context);
  });
}

/** Creates a field that keeps its text beside its value. */
function textAndValue<T>(parse: (text: string) => ParseResult<T>) {
  return z.string().transform((text, context) => ({ text, value: unwrap(parse(text), context) }));
}

function valueOnly<T>(parse: (text: string) => ParseResult<T>) {
  return z.string().transform((text, context) => unwrap(parse(text), context));
}

function unwrap<T>(parsed: ParseResult<T>, context: z.core.$RefinementCtx): T {
  if (parsed.ok) return parsed.value;
  const { message, hint } = parsed;
  context.addIssue({ code: 'custom', message, params: { hint, shown: true } });
  return z.NEVER;
}

/** Drops keys without a value, as everywhere in the configuration. */
function dropEmpty(value: unknown): unknown {
  if (!isObject(value)) return value;
  return Object.fromEntries(Object.entries(value).filter(([, inner]) => inner !== null));
}
