/** Markdown on the site: what the repository shows, without anything that the policy of the pages forbids. */
import { beforeAll, describe, expect, test } from 'vitest';
import { createMarkdownRenderer, type MarkdownRenderer } from 'vitepress';
import { loadDiagrams, type DrawDiagram } from '../../tools/site/diagram.ts';
import { makeMarkdownOptions } from '../../tools/site/markdown.ts';

let md: MarkdownRenderer;
let draw: DrawDiagram;

beforeAll(async () => {
  draw = await loadDiagrams();
  const pages = ['concepts/README.md', 'plugins/shipped/echo.md'].map((source) => ({
    source,
    route: source,
    title: source,
    text: '',
  }));
  const options = makeMarkdownOptions({ draw, pages });
  md = await createMarkdownRenderer('docs', options, '/docs/');
});

async function render(text: string, relativePath = 'plugins/index.md'): Promise<string> {
  return await md.renderAsync(text, { relativePath, cleanUrls: true });
}

describe('text', () => {
  test('between two braces is not computed', async () => {
    expect(await render('a {{ b }} `{{ c }}`')).toBe(
      '<p>a &#123;&#123; b }} <code v-pre>{{ c }}</code></p>\n',
    );
  });

  test('in angle brackets is text, unless it is an element of the pages', async () => {
    expect(await render('run <id> of <job_id attr="{{ x }}"> <br> <kbd>Ctrl</kbd>')).toBe(
      '<p>run &lt;id&gt; of &lt;job_id attr=&quot;&#123;&#123; x }}&quot;&gt; <br> <kbd>Ctrl</kbd></p>\n',
    );
    expect(await render('<script>alert(1)</script>\n')).not.toContain('<script');
  });

  test('in comments is not shown', async () => {
    expect(await render('a\n\n<!-- hidden: sh\nductile job list\n-->\n\nb <!-- c -->')).toBe(
      '<p>a</p>\n<p>b </p>\n',
    );
  });
});

describe('links', () => {
  test.each([
    ['[a](../concepts/README.md#b)', 'href="/docs/concepts/#b"', 'href="./../concepts/#b"'],
    ['[a](../concepts)', 'href="/docs/concepts/"', 'href="./../concepts/"'],
    ['[a](limits.md)', 'href="/docs/plugins/limits"', 'href="./limits"'],
    ['[a](https://example.com/README.md)', 'href="https://example.com/README.md"', ''],
  ])('%s lead to pages', async (text, absolute, relative) => {
    const html = await render(text);
    expect(html.includes(absolute) || html.includes(relative)).toBe(true);
  });

  test.each([
    ['[examples/inbox](../../examples/inbox)', '<code v-pre>examples/inbox</code>'],
    [
      '[the **example**](../../examples/inbox/)',
      'the <strong>example</strong> (<code v-pre>examples/inbox</code>)',
    ],
    ['[`sdk/sh`](../../sdk/sh)', '<code v-pre>sdk/sh</code>'],
    ['[all](shipped/)', 'all (<code v-pre>docs/plugins/shipped</code>)'],
  ])('%s outside of the site become paths', async (text, html) => {
    expect(await render(text)).toBe(`<p>${html}</p>\n`);
  });
});

describe('code', () => {
  test('has classes instead of styles', async () => {
    const html = await render('```console\n$ ductile job list # all\n```\n');
    expect(html).not.toContain('style=');
    expect(html).toContain('class="code-comment"');
    expect(html).toContain('class="code-prompt"');
  });

  test('in a table keeps its side', async () => {
    const html = await render('| a | b |\n| --- | ---: |\n| 1 | 2 |\n');
    expect(html).toContain('<td class="align-right">2</td>');
    expect(await render('| | b |\n| --- | --- |\n| 1 | 2 |\n')).toMatch(
      /<tr>\s*<td><\/td>\s*<th>b<\/th>/,
    );
    expect(html).not.toContain('style=');
  });
});

describe('diagrams', () => {
  const flowchart = 'flowchart LR\n  a["first thing"] -- yes --> b{"second?"}\n';

  test('are pictures with a name, without styles and scripts', async () => {
    const html = await render(`\`\`\`mermaid\n${flowchart}\`\`\`\n`);
    expect(html).toMatch(
      /^<div class="diagram"[^>]*><svg role="img" aria-label="Diagram: [^"]*first thing/,
    );
    expect(html).not.toMatch(/<style|style=|https?:|@import|<script/);
  });

  test.each([
    ['sequenceDiagram\n  A->>B: hello\n  Note over A,B: later\n', ['hello', 'later']],
    ['stateDiagram-v2\n  [*] --> queued\n  queued --> running: claim\n', ['queued', 'claim']],
  ])('can be of the kind %s', (source, texts) => {
    for (const text of texts) expect(draw(source)).toContain(`>${text}<`);
  });

  test('that are too wide are drawn from the top to the bottom', () => {
    const steps = Array.from({ length: 12 }, (_, index) => `s${index}["step number ${index}"]`);
    const svg = draw(`flowchart LR\n  ${steps.join(' --> ')}\n`);
    const [, width = '', height = ''] = / width="([\d.]+)" height="([\d.]+)"/.exec(svg) ?? [];
    expect(Number(width)).toBeLessThan(Number(height));
  });

  test('begin a state diagram with a cycle at its start', () => {
    const svg = draw(
      'stateDiagram-v2\n  [*] --> queued\n  queued --> running: claim\n  running --> queued: retry\n' +
        '  running --> dead\n  dead --> queued: by hand\n  dead --> [*]\n',
    );
    const heights = [...svg.matchAll(/<rect [^>]*\by="([\d.]+)"/g)].map(([, y]) => Number(y));
    const start = Number(/<circle cx="[\d.]+" cy="([\d.]+)"/.exec(svg)?.[1]);
    expect(start).toBeLessThan(Math.min(...heights));
  });

  test('connect the members of nested groups', () => {
    const svg = draw(
      'flowchart TB\n  subgraph outer\n    a[alpha]\n    subgraph inner\n      b[beta]\n    end\n    a --> b\n  end\n' +
        '  b -.-x|"hidden"| c[gamma]\n',
    );
    const boxes = [
      ...svg.matchAll(/<rect x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="([\d.]+)"/g),
    ].map(([, ...sizes]) => sizes.map(Number));
    const ends = [...svg.matchAll(/<polyline [^>]*points="([^"]+)"/g)].flatMap(
      ([, points = '']) => {
        const list = points.split(' ').map((point) => point.split(',').map(Number));
        return [list[0] ?? [], list.at(-1) ?? []];
      },
    );
    expect(ends).toHaveLength(4);
    for (const [x = 0, y = 0] of ends) {
      const isAtBox = boxes.some(
        ([left = 0, top = 0, width = 0, height = 0]) =>
          x >= left - 1 &&
          x <= left + width + 1 &&
          Math.min(Math.abs(y - top), Math.abs(y - top - height)) < 1.5,
      );
      expect(isAtBox, `${x},${y}`).toBe(true);
    }
    expect(svg).toContain('✕ hidden');
  });

  test('with a mistake fail the build', () => {
    expect(() => draw('flowchart\n')).toThrow();
  });
});
