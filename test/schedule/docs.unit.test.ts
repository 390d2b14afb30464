/** The examples of the page about schedules are what the preview says. */
import { readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { makeYield } from '../../src/base/timer.ts';
import { previewSchedules } from '../../src/schedule/preview.ts';
import { at, iso, timed } from './support.ts';

const page = resolve(import.meta.dirname, '../../docs/concepts/schedules.md');
const text = readFileSync(join(page), 'utf8');
const pair =
  /```yaml\n([^`]+)```\n\n```text\n\$ ductile schedule preview --from (\S+) --to (\S+)\n([^`]+)```/g;

const examples = [...text.matchAll(pair)].map(([, entry = '', from = '', to = '', shown = '']) => ({
  entry,
  from,
  to,
  shown,
}));

test('the page has examples', () => {
  expect(examples.length).toBeGreaterThan(5);
});

test.each(examples)('$entry', async ({ entry, from, to, shown }) => {
  const on = timed(parse(entry) as Record<string, unknown>);
  const { rows } = await previewSchedules([{ timed: on }], at(from), at(to), makeYield());
  const lines = rows.map(({ atMs, fires, count, reason }) =>
    [iso(atMs), fires ? 'fires' : `${count} not`, reason].filter(Boolean).join(' '),
  );
  expect(`${lines.join('\n')}\n`).toBe(shown);
});
