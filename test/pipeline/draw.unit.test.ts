import { describe, expect, test } from 'vitest';
import { formatCondition, formatTemplate, drawText } from '../../src/pipeline/language/draw.ts';
import { drawSvg } from '../../src/pipeline/language/draw-svg.ts';
import { makePipeline } from '../support/pipelines.ts';

const { graph } = makePipeline(
  {
    name: 'photos',
    steps: [
      {
        id: 'fetch',
        uses: 'web.get',
        with: { url: '{payload.url}', api_key: 'hush' },
        timeout: '5s',
        retry: { max_attempts: 2, backoff_base: '200ms' },
      },
      {
        id: 'which',
        switch: 'payload.kind',
        cases: { jpg: [{ id: 'shrink', uses: 'image.shrink' }], gif: [] },
        otherwise: [{ id: 'note', uses: 'log' }],
      },
      {
        id: 'all',
        foreach: 'payload.items',
        as: 'photo',
        concurrency: 4,
        steps: [
          {
            id: 'both',
            split: [
              { id: 'left', uses: 'store.put' },
              {
                id: 'right',
                steps: [
                  { id: 'r1', uses: 'a' },
                  { id: 'r2', uses: 'b' },
                ],
              },
            ],
          },
        ],
      },
      {
        id: 'maybe',
        if: 'payload.size > 5',
        steps: [{ id: 'ask', approve: 'Send <{payload.to}> & go?', timeout: '1h' }],
      },
      { id: 'pause', wait: '90s' },
      { id: 'sub', call: 'other' },
    ],
  },
  {
    name: 'other',
    steps: [
      { id: 'end', uses: 'mail.send', on_error: 'continue', dependency: 'mail of {payload.to}' },
    ],
  },
);

test('a drawing as text is a tree', () => {
  expect(drawText(graph, 'photos on new', false).split('\n')).toEqual([
    'photos on new',
    '├─ fetch: web.get',
    '├─ which: switch {payload.kind}',
    '│  ├─ case jpg',
    '│  │  └─ shrink: image.shrink',
    '│  ├─ case gif',
    '│  │  └─ nothing',
    '│  └─ otherwise',
    '│     └─ note: log.handle',
    '├─ all: foreach {payload.items} as photo',
    '│  └─ both: split',
    '│     ├─ left: store.put',
    '│     └─ right',
    '│        ├─ r1: a.handle',
    '│        └─ r2: b.handle',
    '├─ maybe: steps',
    '│  │  if payload.size > 5',
    '│  └─ ask: approve: Send <{payload.to}> & go?',
    '├─ pause: wait 1m30s',
    '└─ sub/end: mail.send',
  ]);
});

test('a drawing with notes shows the input of each step, without secrets', () => {
  const drawn = drawText(graph, 'photos', true);
  expect(drawn).toContain(
    '│     with url: {payload.url}\n│     with api_key: [redacted]\n│     timeout 5s\n│     2 attempts, backoff 200ms',
  );
  expect(drawn).toContain('4 at once');
  expect(drawn).toContain('within 1h, then halt');
  expect(drawn).toContain('dependency mail of {payload.to}\n');
  expect(drawn).toContain('on_error: continue');
  expect(drawn).not.toContain('hush');
});

describe('as a picture', () => {
  const svg = drawSvg(graph, 'photos "on" <new>');

  test('every step is in it, and text is escaped', () => {
    for (const id of Object.keys(graph.nodes)) expect(svg).toContain(`>${id}</text>`);
    expect(svg).toContain('photos &quot;on&quot; &lt;new&gt;');
    expect(svg).toContain('Send &lt;{payload.to}&gt; &amp; go?');
    expect(svg).not.toContain('hush');
    const tags = [...svg.matchAll(/<(\/?)(g|svg|text|title|style|defs|marker)\b/g)];
    const open = tags.filter(([, slash]) => slash === '').length;
    expect(open * 2).toBe(tags.length);
  });

  test('no step is outside of the picture, and no steps overlap', () => {
    const [, width = '', height = ''] = /viewBox="0 0 (\d+) (\d+)"/.exec(svg) ?? [];
    const boxes = [
      ...svg.matchAll(
        /<rect class="(?:task|wait)" x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="([\d.]+)"/g,
      ),
    ].map(([, ...numbers]) => numbers.map(Number)) as [number, number, number, number][];
    expect(boxes).toHaveLength(8);
    for (const [x, y, w, h] of boxes) {
      expect(x + w).toBeLessThanOrEqual(Number(width));
      expect(y + h).toBeLessThanOrEqual(Number(height));
      const touching = boxes.filter(
        ([x2, y2, w2, h2]) => x < x2 + w2 && x2 < x + w && y < y2 + h2 && y2 < y + h,
      );
      expect(touching).toHaveLength(1);
    }
  });
});

test('conditions and templates read as they were written', () => {
  const size = { path: ['payload', 'size'], op: 'gt', value: 5 } as const;
  const there = { path: ['payload', 'to'], op: 'exists', value: null } as const;
  expect(formatCondition({ all: [size, { not: { any: [there, { cel: 'true' }] } }] })).toBe(
    '(payload.size gt 5 and not ((payload.to exists or true)))',
  );
  expect(
    formatTemplate({
      map: { a: { value: [1] }, token: { value: 'x' }, password: { ref: ['context', 'p'] } },
    }),
  ).toBe('{a: [1], token: [redacted], password: {context.p}}');
});
