/** The view of a terminal as plain data: what happens to it, and which lines that makes. */
import { describe, expect, test } from 'vitest';
import { makeKeyReader } from '../../extras/watch/keys.ts';
import { renderScreen } from '../../extras/watch/render-screen.ts';
import { readView, readOverview } from '../../extras/watch/read-views.ts';
import { spark } from '../../extras/watch/shapes.ts';
import { writeLine } from '../../extras/watch/spans.ts';
import { createState, type State, type Effect } from '../../extras/watch/state.ts';
import { applyEvent, type ScreenEvent } from '../../extras/watch/apply-event.ts';
import { widthOf } from '../../src/cli/table.ts';
import { DuctileError } from '../../src/base/errors.ts';

const NOW = Date.parse('2026-01-02T03:10:00.000Z');
const size = { columns: 100, rows: 12 };

const job = (id: string, more: object = {}) => ({
  job_id: id,
  plugin: 'mail',
  command: 'poll',
  status: 'queued',
  attempt: 0,
  created_at: '2026-01-02T03:09:00.000Z',
  last_error: null,
  ...more,
});

const jobs = (...rows: readonly object[]): ScreenEvent => ({
  kind: 'part',
  view: 'jobs',
  part: { rows: rows.map((row) => ({ ...row })) },
});

const keys = (...names: string[]): ScreenEvent[] =>
  names.map((name) => ({ kind: 'key', key: { name } }));

function start(...events: readonly ScreenEvent[]): { state: State; effects: Effect[] } {
  return continueWith(createState('here', size, NOW), ...events);
}

function continueWith(initial: State, ...events: readonly ScreenEvent[]) {
  const effects: Effect[] = [];
  let state = initial;
  for (const event of events) {
    const next = applyEvent(state, event);
    ({ state } = next);
    if (next.effect !== undefined) effects.push(next.effect);
  }
  return { state, effects };
}

const shown = (state: State): string[] =>
  renderScreen(state).map((spans) => writeLine(spans, state.size.columns, false));
const text = (state: State): string => shown(state).join('\n');

describe('the list', () => {
  const three = jobs(job('a1'), job('b2', { status: 'running' }), job('c3', { status: 'dead' }));

  test('has a word, a shape and the row under the bar', () => {
    const { state } = start(three, ...keys('j'));
    expect(text(state)).toMatch(/^ {2}○ queued +mail +poll/m);
    expect(text(state)).toMatch(/^> ● running +mail/m);
    expect(text(state)).toMatch(/^ {2}✗ dead +mail/m);
  });

  test('the bar stays on its row while others come in above it', () => {
    const { state } = start(three, ...keys('down', 'j'), jobs(job('n0'), job('a1'), job('c3')));
    expect(text(state)).toMatch(/^> .*c3/m);
  });

  test('the bar follows the top until it was moved, and ends at both ends', () => {
    expect(text(start(three, jobs(job('n0'), job('a1'))).state)).toMatch(/^> .*n0/m);
    expect(text(start(three, ...keys('k', 'up')).state)).toMatch(/^> .*a1/m);
    expect(text(start(three, ...keys('G', 'j')).state)).toMatch(/^> .*c3/m);
  });

  test('a row that is gone leaves the bar at the top', () => {
    expect(text(start(three, ...keys('j'), jobs(job('z9'))).state)).toMatch(/^> .*z9/m);
  });

  test('pages follow the bar', () => {
    const many = Array.from({ length: 50 }, (_, at) => job(`id-${at}`));
    expect(text(start(jobs(...many), ...keys('end')).state)).toMatch(/^> .*id-49/m);
  });

  test('hidden, unknown and missing rows say so', () => {
    const part = { rows: [], problem: 'the token lacks jobs:ro' };
    expect(text(start({ kind: 'part', view: 'jobs', part }).state)).toContain('lacks jobs:ro');
    expect(text(start().state)).toContain('Loading …');
    expect(text(start(jobs()).state)).toContain('There are no jobs yet');
  });

  test('a filter keeps the rows with its text, and goes with escape', () => {
    const typed = start(three, ...keys('/', 'D', 'e', 'x', 'backspace'));
    expect(text(typed.state)).toMatch(/^\/De_/m);
    expect(text(typed.state)).not.toContain('● running');
    const filtered = continueWith(typed.state, ...keys('a', 'enter'));
    expect(text(filtered.state)).toContain('/Dea');
    expect(text(continueWith(filtered.state, ...keys('escape')).state)).toContain('● running');
    expect(text(continueWith(filtered.state, ...keys('/', 'q', 'escape')).state)).toContain('/Dea');
    expect(text(continueWith(filtered.state, ...keys('/', 'q', 'enter')).state)).toContain(
      '“Deaq”',
    );
  });

  test('a paused view does not change, and has everything when it continues', () => {
    const paused = start(three, ...keys('p'), jobs(job('new1')));
    expect(text(paused.state)).toContain('PAUSED');
    expect(text(paused.state)).not.toContain('new1');
    expect(text(continueWith(paused.state, ...keys('p')).state)).toContain('new1');
  });

  test('numbers and tabs change the view, which is looked at', () => {
    const { state, effects } = start(three, ...keys('3', 'tab', 'back-tab', 'back-tab'));
    expect([state.view, effects.length]).toEqual(['runs', 4]);
    expect(start(...keys('back-tab')).state.view).toBe('plugins');
  });
});

describe('a change', () => {
  const confirming = start(jobs(job('a1')), ...keys('c'));
  const [effect] = confirming.effects;
  const action = effect?.kind === 'plan' ? effect.action : undefined;
  const plan = (...sentences: string[]): ScreenEvent[] =>
    action === undefined ? [] : [{ kind: 'plan', action, plan: sentences }];

  test('is planned, shown, and made only by a y after that', () => {
    expect(action).toEqual({ operation: 'job.cancel', id: 'a1', label: 'cancel job a1' });
    expect(continueWith(confirming.state, ...keys('y', 'enter')).effects).toEqual([]);
    const planned = continueWith(
      confirming.state,
      ...keys('y'),
      ...plan('Job a1 would never start.'),
    );
    expect(shown(planned.state).slice(-2)).toEqual([
      'Job a1 would never start.',
      'cancel job a1? y/n',
    ]);
    expect(continueWith(planned.state, ...keys('y')).effects).toEqual([{ kind: 'action', action }]);
  });

  test.each(['n', 'escape', 'enter', 'q', 'Y'])('is not made by %s', (name) => {
    const { state, effects } = continueWith(confirming.state, ...plan('x'), ...keys(name));
    expect([effects, state.dialog, state.notice?.text]).toEqual([
      [],
      undefined,
      'Nothing was done.',
    ]);
  });

  test('is not made by what is pasted', () => {
    const pasted: ScreenEvent = { kind: 'key', key: { pasted: 'y' } };
    expect(continueWith(confirming.state, ...plan('x'), pasted).effects).toEqual([]);
  });

  test('a plan that comes too late opens nothing', () => {
    expect(
      continueWith(confirming.state, ...keys('escape'), ...plan('x')).state.dialog,
    ).toBeUndefined();
  });

  test('the question is there, however long the plan and low the screen', () => {
    const low: ScreenEvent = { kind: 'size', size: { columns: 30, rows: 4 } };
    const long = plan(...Array.from({ length: 20 }, () => 'many words '.repeat(10)));
    const lines = shown(continueWith(confirming.state, low, ...long).state);
    expect([lines.length, lines.at(-1)]).toEqual([4, 'cancel job a1? y/n']);
  });

  test('makes no sense for a schedule', () => {
    const rows = [{ plugin: 'mail', schedule_id: 'x', status: 'active' }];
    const { state, effects } = start(
      { kind: 'part', view: 'schedules', part: { rows } },
      ...keys('3', 'c'),
    );
    expect([effects.length, state.dialog, state.notice?.isError]).toEqual([1, undefined, true]);
  });
});

describe('details', () => {
  const opened = start(jobs(job('a1')), ...keys('enter'));
  const inspected = {
    ...job('a1', { status: 'dead', last_error: 'no \u001b[2Jroute' }),
    attempts: [{ attempt: 1, status: 'failed', stderr: 'first\nlast \u202eword\n' }],
  };
  const results = [{ name: 'job.inspect', output: inspected }];
  const outcome = (key: string): ScreenEvent => ({
    kind: 'details',
    ref: { view: 'jobs', key },
    outcome: { results },
  });

  test('are requested, and show the error and the output with invisible characters escaped', () => {
    expect(opened.effects).toEqual([{ kind: 'details', ref: { view: 'jobs', key: 'a1' } }]);
    const tall: ScreenEvent = { kind: 'size', size: { columns: 60, rows: 50 } };
    const all = text(continueWith(opened.state, tall, outcome('a1')).state);
    expect(all).toContain('no \\u001b[2Jroute');
    expect(all).toContain('| last \\u202eword');
  });

  test('for another row that come late are not shown', () => {
    expect(text(continueWith(opened.state, outcome('b2')).state)).toContain('Loading …');
  });

  test('scroll to their end and no further, and back', () => {
    const { state } = continueWith(opened.state, outcome('a1'), ...keys('end', 'j', 'j'));
    expect(text(state)).toContain('last \\u202eword');
    expect(text(continueWith(state, ...keys('home')).state)).toMatch(/^job +a1/m);
    expect(continueWith(state, ...keys('q')).state.details).toBeUndefined();
  });
});

describe('every screen', () => {
  const hostile = [
    '\u001b]0;title\u0007\u001b[2J\u001b[1;1H',
    '\u202e\u2066evil',
    '漢字'.repeat(40),
    'e\u0301'.repeat(50) + '\u0301'.repeat(500),
    '👩‍👩‍👧'.repeat(30),
    '\r\n\t\b\u0000\u009b31m\u200b\u{e0041}',
  ];

  test.each([
    [200, 40],
    [80, 24],
    [40, 10],
    [20, 5],
    [3, 2],
    [1, 1],
  ])('with %d × %d has that size, whatever the names contain', (columns, rows) => {
    const odd = hostile.map((name) => job(name, { plugin: name, command: name, last_error: name }));
    const initial = start(
      { kind: 'size', size: { columns, rows } },
      { kind: 'link', link: 'lost', note: hostile.join('') },
      jobs(...odd),
    ).state;
    const open = continueWith(initial, ...keys('enter'), {
      kind: 'details',
      ref: { view: 'jobs', key: hostile[0] ?? '' },
      outcome: { problem: hostile.join('') },
    }).state;
    for (const state of [
      initial,
      open,
      continueWith(initial, ...keys('?')).state,
      continueWith(initial, ...keys('c')).state,
    ]) {
      const lines = shown(state);
      expect(lines).toHaveLength(rows);
      for (const one of lines) {
        expect(widthOf(one)).toBeLessThanOrEqual(columns);
        expect(one).not.toMatch(/[\p{Cc}\p{Bidi_Control}\u200b]|\p{M}{5}/u);
      }
    }
  });

  test('says whether it is live, and the figures', () => {
    const { state } = start(
      { kind: 'link', link: 'lost', note: 'nobody answers' },
      { kind: 'overview', overview: { running: 2, queued: 7, failed: 1, breakers: 1 } },
      { kind: 'second', nowMs: NOW, endCounts: { good: 3, bad: 1 } },
    );
    expect(text(state)).toContain('LOST, reconnecting  nobody answers');
    expect(text(state)).toContain('2 running  7 queued  1 failed/h  1 breaker open  – incidents');
    expect(text(state)).toContain('4/min');
  });

  test("that is narrow leaves out what isn't a problem", () => {
    const overview = { running: 2, queued: 7, failed: 1, breakers: 0, incidents: 3 };
    const narrow: ScreenEvent = { kind: 'size', size: { columns: 56, rows: 12 } };
    const line = text(start(narrow, { kind: 'overview', overview }).state);
    expect(line).toMatch(/^2 running {2}7 queued {2}1 failed\/h {2}3 incidents/m);
  });

  test('is plain without colours and has them with', () => {
    const { state } = start(jobs(job('a1'), job('b2', { status: 'dead' })));
    expect(text(state)).not.toContain('\u001b');
    expect(
      renderScreen(state)
        .map((one) => writeLine(one, 100, true))
        .join(''),
    ).toContain('\u001b[31m✗ dead');
  });
});

test('bars are as high as their figures', () => {
  expect(spark([0, 1, 4, 8])).toBe(' ▁▄█');
  expect(spark([0, 0])).toBe('  ');
});

describe('keys', () => {
  const read = (...pieces: string[]) => {
    const reader = makeKeyReader();
    const whole = pieces.flatMap((piece) => reader.read(piece));
    return [...whole, ...reader.flush()].map((key) => ('name' in key ? key.name : key));
  };

  test('come whole or in pieces', () => {
    expect(read('j\u001b[A\u001bOB\r\t\u001b[Z\u0003')).toEqual([
      'j',
      'up',
      'down',
      'enter',
      'tab',
      'back-tab',
      'interrupt',
    ]);
    expect(read('\u001b', '[', 'B', 'q')).toEqual(['down', 'q']);
    expect(read('\u001b')).toEqual(['escape']);
    expect(read('\u001bx')).toEqual(['escape', 'x']);
  });

  test('that are not known press nothing', () => {
    expect(read('\u001b[1;5C\u001b[15~\u001b[<0;1;1Mq')).toEqual(['q']);
  });

  test('that were pasted are text', () => {
    expect(read('\u001b[200~cy', '\r\u001b[201~q')).toEqual([{ pasted: 'cy\r' }, 'q']);
  });
});

describe('polling', () => {
  test('shows what runs first, each job once', async () => {
    const part = await readView('jobs', (_, { status }) =>
      Promise.resolve({
        jobs:
          status === undefined
            ? [job('new'), job('over', { status: 'succeeded' }), job('on', { status: 'running' })]
            : [
                job('old', { status: 'running' }),
                job('on', { status: 'running' }),
                job('over', { status: 'running' }),
              ],
      }),
    );
    expect(part.rows.map((row) => row['job_id'])).toEqual(['old', 'on', 'new', 'over']);
  });

  test('continues without what the token may not see, and not without a service', async () => {
    const refuse = (code: 'FORBIDDEN' | 'SERVER_UNREACHABLE') => () =>
      Promise.reject(new DuctileError(code, 'no'));
    expect(await readView('runs', refuse('FORBIDDEN'))).toEqual({ rows: [], problem: 'no' });
    expect((await readOverview(refuse('FORBIDDEN'))).running).toBeUndefined();
    await expect(readOverview(refuse('SERVER_UNREACHABLE'))).rejects.toThrow('no');
  });
});
