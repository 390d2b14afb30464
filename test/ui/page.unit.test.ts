import { describe, expect, test } from 'vitest';
import { httpRoutes } from '../../web/api/http-routes.ts';
import { toRequest } from '../../web/api/request.ts';
import { makeSseReader } from '../../src/base/sse.ts';
import { fieldsOf, parseObject, valueOf } from '../../web/plugin/fields.ts';
import { link, readRoute } from '../../web/route.ts';
import { fit, fitFirst } from '../../web/run/fit.ts';
import { layOut, type DrawnStep } from '../../web/run/layout.ts';
import { statesOf } from '../../web/run/states.ts';
import { marksOf, placeOf } from '../../web/schedule/axis.ts';
import { formatReplayResult } from '../../web/text/replay-result.ts';
import { findEntries } from '../../web/text/search.ts';
import { stateOf } from '../../web/webhook/state.ts';

describe('addresses', () => {
  test.each([
    ['overview', {}, '/ui'],
    ['jobs', { query: { status: 'failed,dead', plugin: '' } }, '/ui/jobs?status=failed%2Cdead'],
    ['plugins', { id: 'a b?c' }, '/ui/plugins/a%20b%3Fc'],
  ])('the address of %s', (page, target, href) => {
    expect(link(page, target)).toBe(href);
    const url = new URL(href, 'http://x');
    const id = 'id' in target ? target.id : undefined;
    expect(readRoute(url.pathname, url.search)).toMatchObject({ page, id });
  });

  test('with a broken escape are still addresses', () => {
    expect(readRoute('/ui/jobs/%zz', '').id).toBe('%zz');
  });
});

describe('requests', () => {
  const place = (name: string) => {
    const found = httpRoutes[name];
    if (found === undefined) throw new Error(name);
    return found;
  };

  test('have each field where the API looks for it', () => {
    expect(
      toRequest(place('job.list'), { status: ['failed', 'dead'], limit: 5, plugin: undefined }),
    ).toEqual({
      method: 'GET',
      url: '/jobs?status=failed%2Cdead&limit=5',
      body: undefined,
    });
    expect(toRequest(place('job.cancel'), { id: 'a/b', dry_run: true })).toEqual({
      method: 'POST',
      url: '/job/a%2Fb/cancel',
      body: '{"dry_run":true}',
    });
    expect(
      toRequest(place('plugin.run'), { plugin: 'echo', payload: { n: 1 }, async: true }),
    ).toEqual({
      method: 'POST',
      url: '/plugin/echo?async=true',
      body: '{"payload":{"n":1}}',
    });
    expect(toRequest(place('webhook.remove'), { id: 'x', dry_run: true })).toMatchObject({
      url: '/webhooks/x?dry_run=true',
      body: undefined,
    });
  });
});

test('frames of a stream are read however they are cut', () => {
  const text =
    'retry: 2000\n\nid: 1\nevent: job.dead\ndata: {"a":\ndata: 1}\n\n: alive\n\nid: 2\ndata: x\n\n';
  for (let size = 1; size < text.length; size += 1) {
    const read = makeSseReader();
    const found = text.match(new RegExp(`[^]{1,${size}}`, 'g'))?.flatMap(read);
    expect(found).toEqual([
      { id: '1', event: 'job.dead', data: '{"a":\n1}' },
      { id: '2', event: 'message', data: 'x' },
    ]);
  }
});

describe('a form made of a schema', () => {
  const fields = fieldsOf({
    required: ['to'],
    properties: {
      to: { type: 'string', description: 'who' },
      size: { enum: ['s', 'l'], default: 's' },
      n: { type: 'integer' },
      fast: { type: 'boolean' },
      more: { type: 'array' },
      prompt: { type: 'string' },
      notes: { type: 'string', maxLength: 5000 },
    },
  });

  test('has a field of the right kind for each property', () => {
    expect(fields.map(({ name, kind }) => `${name} ${kind}`)).toEqual([
      'to text',
      'size choice',
      'n number',
      'fast yes-no',
      'more json',
      'prompt long',
      'notes long',
    ]);
    expect(fields.map(({ form }) => form).filter(Boolean)).toEqual([
      expect.stringContaining('JSON array'),
    ]);
    expect(fieldsOf({ properties: 'nonsense' })).toEqual([]);
    expect(fieldsOf(null)).toEqual([]);
  });

  test('gives what was filled in, with defaults, without what was left empty', () => {
    const texts = new Map([
      ['to', 'ann'],
      ['n', '3'],
      ['fast', 'false'],
      ['more', '[1]'],
    ]);
    expect(valueOf(fields, texts)).toEqual({ to: 'ann', size: 's', n: 3, fast: false, more: [1] });
    expect(() => valueOf(fields, new Map([['more', '[']]))).toThrow('more must be JSON');
    expect(() => valueOf(fields, new Map([['n', 'x']]))).toThrow('n must be a number');
    expect(() => valueOf(fields, new Map([['n', 'x']]))).toThrow(
      expect.objectContaining({ field: 'n' }),
    );
    expect(() => parseObject('[1]')).toThrow('must be an object');
  });
});

describe('the picture of a run', () => {
  const step = (id: string, ...arms: DrawnStep[][]): DrawnStep => ({
    id,
    kind: arms.length === 0 ? 'task' : 'split',
    does: 'x',
    notes: [],
    arms: arms.map((steps, at) => ({ label: `arm ${at}`, steps })),
  });

  test('has every step inside its block, and none upon another', () => {
    const steps = [
      step('a'),
      step('b', [step('c'), step('d')], [step('e', [step('f')])]),
      step('g'),
    ];
    const { boxes, width, height, labels } = layOut(steps);
    expect(boxes.map((box) => box.step.id).toSorted()).toEqual(['a', 'b', 'c', 'd', 'e', 'f', 'g']);
    expect(labels).toHaveLength(3);
    const single = boxes.filter(({ isBlock }) => !isBlock);
    for (const [at, one] of single.entries()) {
      expect(one.x + one.width).toBeLessThanOrEqual(width);
      expect(one.y + one.height).toBeLessThanOrEqual(height);
      for (const other of single.slice(at + 1)) {
        const isApart =
          one.x + one.width <= other.x ||
          other.x + other.width <= one.x ||
          one.y + one.height <= other.y ||
          other.y + other.height <= one.y;
        expect(isApart, `${one.step.id} and ${other.step.id}`).toBe(true);
      }
    }
    expect(layOut([]).boxes).toEqual([]);
  });

  const ruler = (text: string): number => Array.from(text).length * 10;

  test.each([
    ['short', 50, 'short'],
    ['longer', 50, 'long…'],
    ['🙂🙂🙂', 20, '🙂…'],
    ['longer', 19, ''],
    ['longer', -5, ''],
  ])('has of the text %s in a room of %i what fits', (text, maxWidth, shown) => {
    expect(fit(text, maxWidth, ruler)).toBe(shown);
  });

  test('leaves out of the label of a block what has no room beside its name', () => {
    const texts = ['split · succeeded', 'succeeded'];
    const shown = [200, 100, 60, 40].map((maxWidth) => fitFirst(texts, maxWidth, ruler));
    expect(shown).toEqual(['split · succeeded', 'succeeded', 'succe…', '']);
  });

  test('shows of several branches the one that matters most', () => {
    const makeStep = (name: string, status: string, completed_at: string | null = 't') => ({
      step: name,
      status,
      job_id: null,
      completed_at,
    });
    const states = statesOf(
      [makeStep('a', 'succeeded'), makeStep('b', 'succeeded'), makeStep('b', 'failed')],
      [makeStep('c', 'advancing', null), makeStep('a', 'succeeded')],
    );
    expect([...states].map(([name, { status, count }]) => [name, status, count])).toEqual([
      ['a', 'succeeded', 1],
      ['b', 'failed', 2],
      ['c', 'running', 1],
    ]);
  });
});

test('times are placed on their axis', () => {
  const span = { from: 0, to: 12 * 3_600_000 };
  expect([placeOf(-1, span), placeOf(0, span), placeOf(6 * 3_600_000, span)]).toEqual([
    undefined,
    0,
    0.5,
  ]);
  const marks = marksOf(span, 0);
  expect(marks.length).toBeGreaterThan(3);
  expect(marks.length).toBeLessThan(11);
  expect(marks.every((at) => at % 3_600_000 === 0)).toBe(true);
});

test.each([
  [{ jobs: 1, runs: 0 }, 'Replayed: 1 job created'],
  [{ jobs: 2, runs: 1 }, 'Replayed: 2 jobs and 1 run created'],
  [{ jobs: 0, runs: 0 }, 'Replayed: no jobs or runs created'],
])('a replay reports what it created: %o', (replay, expected) => {
  expect(formatReplayResult(replay)).toBe(expected);
});

test.each([
  ['accepted', null, 'accepted'],
  ['accepted', 'success', 'succeeded'],
  ['accepted', 'pending', 'pending'],
  ['accepted', 'error:timeout', 'failed'],
  ['accepted', 'skipped:quiet_hours', 'skipped'],
  ['accepted', 'dead', 'dead'],
  ['skipped', 'skipped:quiet_hours', 'skipped'],
  ['refused', null, 'refused'],
])('a delivery that was %s and came to %s is shown as %s', (verdict, outcome, state) => {
  expect(stateOf(verdict, outcome)).toBe(state);
});

test('the search finds names, and only ids that the server confirmed', () => {
  const known = {
    pages: [['jobs', 'Jobs']] as const,
    plugins: ['feed'],
    pipelines: ['daily'],
    schedules: ['feed/nightly'],
    webhooks: ['deploys'],
    packages: ['greeter'],
    tenants: ['acme'],
  };
  expect(findEntries('FEE', known).map(({ title }) => title)).toEqual([
    'feed',
    'feed jobs',
    'feed/nightly',
  ]);
  expect(findEntries('night', known).map(({ href }) => href)).toEqual([
    '/ui/schedules/feed/nightly',
  ]);
  expect(findEntries('acm', known).map(({ href }) => href)).toEqual(['/ui/tenants/acme']);
  expect(findEntries('feed', known).map(({ kind }) => kind)).toEqual([
    'plugin',
    'jobs',
    'schedule',
  ]);
  expect(findEntries('0199a1b2', known)).toEqual([]);
  expect(findEntries('nothing', known)).toEqual([]);
  expect(findEntries('', known).map(({ href }) => href)).toEqual(['/ui/jobs']);
});
