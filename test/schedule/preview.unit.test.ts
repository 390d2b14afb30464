import { expect, test } from 'vitest';
import { makeYield } from '../../src/base/timer.ts';
import { previewSchedules, type PreviewEntry } from '../../src/schedule/preview.ts';
import { at, iso, timed } from './support.ts';

async function preview(
  entries: readonly PreviewEntry[],
  from: string,
  to: string,
): Promise<unknown[]> {
  const { rows } = await previewSchedules(entries, at(from), at(to), makeYield());
  return rows.map(({ atMs, fires, count, reason }) => [
    iso(atMs),
    fires ? 'fires' : `${count} not`,
    reason,
  ]);
}

test("the preview lists slots that fire and, as one row, those that don't and why", async () => {
  const on = timed({ cron: '0 */4 * * *', only_between: '07:00-19:00' });
  expect(await preview([{ timed: on }], '2026-11-15T00:00:00Z', '2026-11-15T23:59:59Z')).toEqual([
    ['2026-11-15T00:00:00Z', '2 not', 'outside_time_window'],
    ['2026-11-15T08:00:00Z', 'fires', undefined],
    ['2026-11-15T12:00:00Z', 'fires', undefined],
    ['2026-11-15T16:00:00Z', 'fires', undefined],
    ['2026-11-15T20:00:00Z', '1 not', 'outside_time_window'],
  ]);
});

test('the preview says when a time is moved', async () => {
  const gap = timed({ cron: '30 2 * * *' }, 'Europe/Berlin');
  expect(await preview([{ timed: gap }], '2026-03-29T00:00:00Z', '2026-03-30T12:00:00Z')).toEqual([
    ['2026-03-29T01:00:00Z', 'fires', 'clock_change'],
    ['2026-03-30T00:30:00Z', 'fires', undefined],
  ]);
  const night = timed({ cron: '0 12 * * *', preferred_window: { start: '01:00', end: '03:00' } });
  expect(await preview([{ timed: night }], '2026-11-15T00:00:00Z', '2026-11-16T23:00:00Z')).toEqual(
    [['2026-11-16T01:00:00Z', 'fires', 'outside_preferred_window']],
  );
});

test('merges schedules by time, continues after a cursor, and shows a pause', async () => {
  const hourly = timed({ every: '1h' });
  const state = { seq: 4, slotMs: at('2026-11-15T00:40:00Z'), dueMs: at('2026-11-15T00:40:00Z') };
  const paused = timed({ cron: '0 * * * *', id: 'paused' });
  expect(
    await preview(
      [
        { timed: hourly, state },
        { timed: paused, held: 'paused_manual' },
      ],
      '2026-11-15T00:30:00Z',
      '2026-11-15T02:30:00Z',
    ),
  ).toEqual([
    ['2026-11-15T00:40:00Z', 'fires', undefined],
    ['2026-11-15T01:00:00Z', '2 not', 'paused_manual'],
    ['2026-11-15T01:40:00Z', 'fires', undefined],
  ]);
});

test('the preview is bounded, and frequent schedules do not hide the rest', async () => {
  const on = timed({ cron: '* * * * *' });
  const rare = timed({ id: 'rare', cron: '0 12 * * *' });
  const { rows, truncated } = await previewSchedules(
    [{ timed: on }, { timed: rare }],
    at('2026-01-01T00:00:00Z'),
    at('2036-01-01T00:00:00Z'),
    makeYield(),
  );
  const often = rows.filter(({ scheduleId }) => scheduleId === 'default');
  expect([often.length, often.at(-1)?.count, truncated]).toEqual([50, 20_000 - 49, true]);
  expect(rows.some(({ scheduleId }) => scheduleId === 'rare')).toBe(true);
});

test('yields to others, even if clocks change', async () => {
  const entries = Array.from({ length: 4 }, (_, index) => ({
    timed: timed({ id: `s${index}`, cron: '* * * * *' }, 'Europe/Berlin'),
  }));
  let turns = 0;
  let isDone = false;
  const count = (): void => {
    turns += 1;
    if (!isDone) setImmediate(count);
  };
  setImmediate(count);
  const { rows, truncated } = await previewSchedules(
    entries,
    at('2026-03-25T00:00:00Z'),
    at('2026-04-02T00:00:00Z'),
    makeYield(),
  );
  isDone = true;
  expect(turns).toBeGreaterThan(3);
  expect([rows.length, truncated]).toEqual([200, false]);
});
