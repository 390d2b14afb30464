/** The effect of quiet hours on due times, when they fire and in a preview. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { makeYield } from '../../src/base/timer.ts';
import {
  allowedFrom,
  firstSlot,
  planDue,
  quietEnd,
  type DuePlan,
  type TimedSchedule,
} from '../../src/schedule/plan.ts';
import { previewSchedules } from '../../src/schedule/preview.ts';
import { at, iso, timed } from './support.ts';

const GRACE_MS = 60_000;
const night = { quiet_start: 21, quiet_end: 8 };
const usual = { start: 21, end: 8 };
const day = '2026-11-16';

interface PlannedTime {
  readonly atMs: number;
  readonly fires: boolean;
  readonly reason: string | undefined;
}

/** Simulates a host that fires each due time at once and whose jobs take no time. */
function passAll(on: TimedSchedule, fromMs: number, toMs: number): PlannedTime[] {
  const passed: PlannedTime[] = [];
  let slot = firstSlot(on, 0, fromMs);
  let reason: string | undefined;
  for (let seq = 0; slot !== undefined && slot.dueMs <= toMs;) {
    const nowMs = slot.dueMs;
    const plan: DuePlan = planDue(on, { seq, completedMs: undefined, ...slot }, nowMs, GRACE_MS);
    if (plan.kind === 'wait') {
      reason = plan.reason;
    } else {
      const why = plan.kind === 'skip' ? plan.reason : reason;
      passed.push({ atMs: nowMs, fires: plan.kind === 'fire', reason: why });
      reason = undefined;
      seq += 1;
    }
    slot = plan.next;
  }
  return passed;
}

function shown(on: TimedSchedule, from: string, to: string): string[] {
  return passAll(on, at(from), at(to)).map(({ atMs, fires, reason }) =>
    `${iso(atMs)} ${fires ? 'fires' : 'not'} ${reason ?? ''}`.trim(),
  );
}

describe('a time in quiet hours', () => {
  const evening = [`${day}T19:30:00Z`, '2026-11-17T10:30:00Z'] as const;

  test('in a cron schedule is skipped, or fires once at their end', () => {
    const cron = { cron: '0 */3 * * *', ...night };
    expect(shown(timed(cron), ...evening)).toEqual([
      `${day}T21:00:00Z not quiet_hours`,
      '2026-11-17T00:00:00Z not quiet_hours',
      '2026-11-17T03:00:00Z not quiet_hours',
      '2026-11-17T06:00:00Z not quiet_hours',
      '2026-11-17T09:00:00Z fires',
    ]);
    expect(shown(timed({ ...cron, quiet_action: 'defer' }), ...evening)).toEqual([
      '2026-11-17T08:00:00Z fires quiet_hours',
      '2026-11-17T09:00:00Z fires',
    ]);
  });

  test('that is put off to one that is due anyway comes once with it', () => {
    const on = timed({ cron: '0 * * * *', ...night, quiet_action: 'defer' });
    expect(shown(on, `${day}T19:30:00Z`, '2026-11-17T09:30:00Z')).toEqual([
      `${day}T20:00:00Z fires`,
      '2026-11-17T08:00:00Z fires quiet_hours',
      '2026-11-17T09:00:00Z fires',
    ]);
  });

  test('in an interval is skipped, or moves the slots after it', () => {
    const every = { every: '6h', ...night };
    expect(shown(timed(every), ...evening)).toEqual([
      `${day}T19:30:00Z fires`,
      '2026-11-17T01:30:00Z not quiet_hours',
      '2026-11-17T07:30:00Z not quiet_hours',
    ]);
    expect(shown(timed({ ...every, quiet_action: 'defer' }), ...evening)).toEqual([
      `${day}T19:30:00Z fires`,
      '2026-11-17T08:00:00Z fires quiet_hours',
    ]);
  });

  test.each([{ at: `${day}T23:00:00Z` }, { after: '3h30m' }])(
    'in a one-time schedule is postponed, whatever the entry says: %j',
    (entry) => {
      expect(shown(timed({ ...entry, ...night }), ...evening)).toEqual([
        '2026-11-17T08:00:00Z fires quiet_hours',
      ]);
    },
  );

  test('uses the default hours if an entry has none', () => {
    const entry = { cron: '0 23 * * *', quiet_action: 'defer' };
    const span = [`${day}T20:00:00Z`, '2026-11-17T20:00:00Z'] as const;
    expect(shown(timed(entry, 'UTC', usual), ...span)).toEqual([
      '2026-11-17T08:00:00Z fires quiet_hours',
    ]);
    expect(shown(timed({ ...entry, quiet_end: 23 }, 'UTC', usual), ...span)).toEqual([
      `${day}T23:00:00Z fires`,
    ]);
  });

  test('waits for the windows of the entry as well', () => {
    const on = timed({ every: '4h', only_between: '20:00-10:30', ...night, quiet_action: 'defer' });
    expect(shown(on, `${day}T20:30:00Z`, '2026-11-18T09:00:00Z')).toEqual([
      `${day}T20:30:00Z fires`,
      '2026-11-17T08:00:00Z fires quiet_hours',
      '2026-11-17T20:00:00Z fires',
      '2026-11-18T08:00:00Z fires quiet_hours',
    ]);
  });

  test('does not make a schedule another one: running jobs continue', () => {
    const plain = timed({ after: '1h' });
    expect(timed({ after: '1h' }, 'UTC', { start: 1, end: 2 }).generation).toBe(plain.generation);
    expect(timed({ after: '1h', ...night }).generation).toBe(plain.generation);
  });
});

describe('times that were missed', () => {
  /** Down from an evening on; what is done when the host is back. */
  function back(entry: Readonly<Record<string, unknown>>, now: string, due = `${day}T20:00:00Z`) {
    const state = { seq: 3, slotMs: at(due), dueMs: at(due), completedMs: undefined };
    const plan = planDue(timed(entry, 'UTC', usual), state, at(now), GRACE_MS);
    return [
      plan.kind,
      plan.kind === 'fire' ? plan.slots.map(iso) : (plan.reason ?? null),
      iso(plan.next?.dueMs),
    ];
  }

  test('in quiet hours are skipped, but postponed ones fire once', () => {
    const all = { cron: '0 */4 * * *', catch_up: 'run_all' };
    const hours = [`${day}T20:00:00Z`, '2026-11-17T08:00:00Z', '2026-11-17T12:00:00Z'];
    expect(back(all, '2026-11-17T12:30:00Z')).toEqual(['fire', hours, '2026-11-17T16:00:00Z']);
    const odd = { cron: '0 3-23/4 * * *', catch_up: 'run_all', quiet_action: 'defer' };
    const late = [`${day}T19:00:00Z`, '2026-11-17T08:00:00Z', '2026-11-17T11:00:00Z'];
    expect(back(odd, '2026-11-17T12:30:00Z', `${day}T19:00:00Z`)).toEqual([
      'fire',
      late,
      '2026-11-17T15:00:00Z',
    ]);
  });

  test('in an interval stay on their grid', () => {
    const entry = { every: '5h', catch_up: 'run_all' };
    const slots = [`${day}T20:00:00Z`, '2026-11-17T11:00:00Z'];
    expect(back(entry, '2026-11-17T12:30:00Z')).toEqual(['fire', slots, '2026-11-17T17:30:00Z']);
  });

  test('wait for the end of quiet hours before they are made up for', () => {
    const once = { cron: '0 */4 * * *', catch_up: 'run_once' };
    expect(back(once, `${day}T22:00:00Z`)).toEqual(['wait', null, '2026-11-17T08:00:00Z']);
  });

  test('and were all in quiet hours leave nothing to catch up', () => {
    const once = { cron: '0 3 * * *', catch_up: 'run_once' };
    const due = '2026-11-17T03:00:00Z';
    expect(back(once, '2026-11-17T12:00:00Z', due)).toEqual([
      'skip',
      'quiet_hours',
      '2026-11-18T03:00:00Z',
    ]);
  });

  test('while it is quiet are put off and not lost, however late the look', () => {
    const entry = { cron: '0 22 * * *', quiet_action: 'defer' };
    expect(back(entry, '2026-11-17T02:00:00Z', `${day}T22:00:00Z`)).toEqual([
      'wait',
      'quiet_hours',
      '2026-11-17T08:00:00Z',
    ]);
  });
});

const zones = ['UTC', 'Europe/Berlin', 'America/New_York', 'Asia/Kolkata', 'Pacific/Apia'];
// Clocks change in some of the zones.
const days = ['2026-03-07T11:00:00Z', '2026-03-28T11:00:00Z', '2026-10-24T11:00:00Z'];
const hour = fc.integer({ min: 0, max: 23 });

const entries = fc.record({
  timing: fc.constantFrom<Readonly<Record<string, string>>>(
    { cron: '17 * * * *' },
    { cron: '*/40 1-5,20-23 * * *' },
    { cron: '30 2 * * *' },
    { every: '55m' },
    { every: 'daily' },
    { at: '2026-10-25T02:30:00Z' },
    { after: '14h' },
  ),
  jitter: fc.constantFrom('0s', '30m'),
  quiet_start: hour,
  quiet_end: hour,
  quiet_action: fc.constantFrom('skip', 'defer'),
  only_between: fc.option(fc.constant('01:00-23:30'), { nil: undefined }),
});

type Entry = typeof entries extends fc.Arbitrary<infer T> ? T : never;

describe('any entry', () => {
  const worlds = fc.tuple(entries, fc.constantFrom(...zones), fc.constantFrom(...days));
  const make = (
    { timing, quiet_start: start, quiet_end: end, ...entry }: Entry,
    zone: string,
  ): TimedSchedule => timed({ ...timing, ...entry }, zone, { start, end });
  const toMs = (from: string): number => at(from) + 40 * 60 * 60 * 1000;

  test('nothing fires while it is quiet, and what is left out is quiet', () => {
    fc.assert(
      fc.property(worlds, ([entry, zone, from]) => {
        const on = make(entry, zone);
        for (const { atMs, fires } of passAll(on, at(from), toMs(from))) {
          expect(quietEnd(on, atMs) === undefined).toBe(fires);
        }
      }),
      { numRuns: 100, seed: 1 },
    );
  });

  test('nothing is due but what would be due without them, or the ends of quiet hours', () => {
    fc.assert(
      fc.property(worlds, ([entry, zone, from]) => {
        const { timing, quiet_start: _start, quiet_end: _end, ...rest } = entry;
        if (timing['cron'] === undefined || entry.jitter !== '0s') return;
        const on = make(entry, zone);
        const awake = passAll(timed({ ...timing, ...rest }, zone), at(from), toMs(from));
        const expected = awake.map(({ atMs }) => allowedFrom(on, atMs));
        const passed = passAll(on, at(from), toMs(from));
        const done = passed.filter(({ fires }) => fires).map(({ atMs }) => atMs);
        const allowed = awake.filter(({ atMs }) => quietEnd(on, atMs) === undefined);
        expect(done).toEqual(
          entry.quiet_action === 'defer'
            ? [...new Set(expected)].filter((ms) => ms <= toMs(from))
            : allowed.map(({ atMs }) => atMs),
        );
      }),
      { numRuns: 100, seed: 2 },
    );
  });

  test('the preview shows what then happens', async () => {
    await fc.assert(
      fc.asyncProperty(worlds, async ([entry, zone, from]) => {
        const on = make(entry, zone);
        const { rows } = await previewSchedules([{ timed: on }], at(from), toMs(from), makeYield());
        const happens = passAll(on, at(from), toMs(from));
        const fired = happens.filter(({ fires }) => fires);
        // With a jitter that is longer than the times are apart, one may come before another.
        expect(rows.flatMap(({ atMs, fires }) => (fires ? iso(atMs) : []))).toEqual(
          fired
            .map(({ atMs }) => atMs)
            .toSorted((a, b) => a - b)
            .map(iso),
        );
        const quiet = rows.filter(({ fires, reason }) => !fires && reason === 'quiet_hours');
        expect(quiet.reduce((sum, { count }) => sum + count, 0)).toBe(
          happens.length - fired.length,
        );
      }),
      { numRuns: 100, seed: 3 },
    );
  });
});
