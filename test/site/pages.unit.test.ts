/** The pages of the documentation: their links, their anchors and their place in the sidebar. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { renderIndex } from '../../tools/site/llms.ts';
import {
  findBareFolders,
  readAnchors,
  readDocsPages,
  readLinks,
  resolveLink,
  withoutComments,
  type DocsPage,
} from '../../tools/site/pages.ts';
import { listLinks, makeSidebars } from '../../tools/site/sidebar.ts';
import { makeSlug } from '../../tools/site/slug.ts';
import { readTree, root } from '../tidy/tree.ts';

const pages = await readDocsPages(join(root, 'docs'));

function page(source: string, text = '# Title'): DocsPage {
  return { source, route: source.replace(/(README)?\.md$/, ''), title: source, text };
}

test('every page is in the sidebar of its section, once', () => {
  for (const [prefix, items] of Object.entries(makeSidebars(pages))) {
    const links = listLinks(items.flatMap((item) => item.items ?? []));
    const inside = pages
      .filter(({ source }) => source !== 'README.md')
      .filter(({ source }) => `/${source}`.startsWith(prefix))
      .filter(({ source }) => prefix !== '/' || !source.includes('/'));
    expect(links.toSorted()).toEqual(inside.map(({ route }) => `/${route}`).toSorted());
  }
});

test('every section is in every sidebar, and no page is outside of the sections', () => {
  const sidebars = makeSidebars(pages);
  const prefixes = Object.keys(sidebars);
  const lost = pages.filter(
    ({ source }) =>
      source !== 'README.md' && !prefixes.some((prefix) => `/${source}`.startsWith(prefix)),
  );
  expect(lost).toEqual([]);
  for (const items of Object.values(sidebars)) expect(items).toHaveLength(prefixes.length);
});

test('a page without a place in the order comes last in its section, and a new folder before the internals', () => {
  const found = makeSidebars([
    page('README.md'),
    page('concepts/aaa.md'),
    page('concepts/README.md'),
    page('concepts/signals.md'),
    page('concepts/deep/one.md'),
    page('brand-new/thing.md'),
    page('internals/proof.md'),
  ]);
  expect(Object.keys(found)).toEqual(['/concepts/', '/brand-new/', '/internals/']);
  expect(found['/concepts/']).toEqual([
    {
      text: 'Concepts',
      items: [
        { text: 'concepts/README.md', link: '/concepts/' },
        { text: 'concepts/signals.md', link: '/concepts/signals' },
        { text: 'concepts/aaa.md', link: '/concepts/aaa' },
        {
          text: 'Deep',
          collapsed: true,
          items: [{ text: 'concepts/deep/one.md', link: '/concepts/deep/one' }],
        },
      ],
    },
    { text: 'Brand new', link: '/brand-new/thing' },
    { text: 'Internals', link: '/internals/proof' },
  ]);
});

test('every link of every page leads to a file that exists and to one of its headings', async () => {
  const files = (await readTree()).filter(({ path }) => path.endsWith('.md'));
  const anchors = new Map(files.map(({ path, text }) => [path, readAnchors(text)]));
  const dead = files.flatMap(({ path, text }) =>
    readLinks(text).flatMap(({ target, line }) => {
      const { path: to, anchor } = resolveLink(path, target);
      const isThere = to !== '' && !to.startsWith('..') && existsSync(join(root, to));
      const isHeading =
        anchor === '' || !to.endsWith('.md') || anchors.get(to)?.has(anchor) === true;
      return isThere && isHeading ? [] : [`${path}:${line} ${target}`];
    }),
  );
  expect(dead).toEqual([]);
});

test('links are found outside of code and comments only', () => {
  const text = [
    '[a](one.md "Title") and ![b](two.png) `[c](three.md)`',
    '```sh',
    '[d](four.md)',
    '```',
    '<!-- [e](five.md) -->',
    '[f](https://example.com) [g](<six.md#x>)',
  ].join('\n');
  expect(readLinks(text)).toEqual([
    { target: 'one.md', line: 1 },
    { target: 'two.png', line: 1 },
    { target: 'six.md#x', line: 6 },
  ]);
});

test.each([
  ['Retry failed jobs', 'retry-failed-jobs'],
  ['job.retry', 'jobretry'],
  ['NOT_FOUND', 'not_found'],
  ['What is new in 0.1?', 'what-is-new-in-01'],
  ['A & B', 'a--b'],
])('the anchor of "%s" is the one that GitHub makes', (heading, slug) => {
  expect(makeSlug(heading)).toBe(slug);
});

test('a repeated heading has a number', () => {
  expect([...readAnchors('# `A`\n\n## B\n\n## B\n\n```sh\n# C\n```\n')]).toEqual(['a', 'b', 'b-1']);
});

test('comments are removed, except in code', () => {
  const code = '```html\n<!-- kept -->\n```';
  expect(withoutComments(`# A\n\n<!-- hidden: sh\nx\n-->\n\n${code}\n`)).toBe(`# A\n\n\n${code}\n`);
});

test('a folder without a page of its own is known', () => {
  const bare = findBareFolders([page('a/README.md'), page('a/b/c.md'), page('d.md')]);
  expect([...bare]).toEqual(['a/b']);
});

test('the list for language models has every page with its first sentence', () => {
  const list = renderIndex(pages);
  for (const { source } of pages) expect(list).toContain(`](/docs/${source})`);
  expect(list).toMatch(
    /\[Errors\]\(\/docs\/reference\/errors\.md\): Every failure has one of these codes\.\n/,
  );
});
