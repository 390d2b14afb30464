/** The examples of the page about schedules are what the preview says. */
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { makeYield } from '../../src/base/timer.ts';
import { previewSchedules } from '../../src/schedule/preview.ts';
import { at, timed } from './support.ts';

const page = resolve(import.meta.dirname, '../../docs/concepts/schedules.md');
const text = readFileSync(page, 'utf8');
const pair =
  /```yaml\n([^`]+)```\n\n```console\n\$ ductile schedule preview --from (\S+) --to (\S+)\nAT .*\n([^`]+)```/g;

interface Settings {
  readonly plugins: { readonly echo: { readonly schedules: readonly Record<string, unknown>[] } };
}

const examples = [...text.matchAll(pair)].map(([, yaml = '', from = '', to = '', shown = '']) => ({
  entries: (parse(yaml) as Settings).plugins.echo.schedules,
  from,
  to,
  shown: shown.trimEnd().split('\n'),
}));

test('the page has examples', () => {
  expect(examples.length).toBeGreaterThan(8);
});

test.each(examples)(
  'the preview from $from to $to is right',
  async ({ entries, from, to, shown }) => {
    const schedules = entries.map((entry) => ({ timed: timed(entry) }));
    const { rows } = await previewSchedules(schedules, at(from), at(to), makeYield());
    const lines = rows.map(({ atMs, fires, count, reason }) =>
      [new Date(atMs).toISOString(), count, fires, reason ?? '-'].join(' '),
    );
    // A line has the columns AT, TIMES, PLUGIN, SCHEDULE, COMMAND, FIRES and REASON.
    const expected = shown.map((line) => {
      const [time, times, , , , fires, reason] = line.split(/ {2,}/);
      return [time, times, fires, reason].join(' ');
    });
    expect(lines).toEqual(expected);
  },
);
