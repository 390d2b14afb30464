/** Reads the pages of `docs/`, for the documentation site, its sidebar and the tests. */
import { readdir, readFile } from 'node:fs/promises';
import { join, posix, sep } from 'node:path';
import { makeSlug } from './slug.ts';

export interface DocsPage {
  /** Relative to `docs`, with slashes: `concepts/README.md`. */
  readonly source: string;
  /** Address below the site's base: `concepts/` or `reference/errors`. */
  readonly route: string;
  /** The first heading, without markup. */
  readonly title: string;
  readonly text: string;
}

export async function readDocsPages(docs: string): Promise<DocsPage[]> {
  const names = (await readdir(docs, { recursive: true }))
    .map((name) => name.split(sep).join('/'))
    .filter((name) => name.endsWith('.md') && !name.startsWith('.vitepress/'))
    .toSorted();
  return await Promise.all(
    names.map(async (source) => {
      const text = await readFile(join(docs, source), 'utf8');
      return { source, route: toRoute(source), title: readTitle(source, text), text };
    }),
  );
}

/** `README.md` is the page of its directory. */
export function toRoute(source: string): string {
  return source.replace(/(^|\/)README\.md$/, '$1').replace(/\.md$/, '');
}

/** Lists the directories that have pages, but none of their own. */
export function findBareFolders(pages: readonly DocsPage[]): Set<string> {
  const folders = pages.flatMap(({ source }) => {
    const names = source.split('/').slice(0, -1);
    return names.map((_, index) => names.slice(0, index + 1).join('/'));
  });
  const sources = new Set(pages.map(({ source }) => source));
  return new Set(folders.filter((folder) => !sources.has(`${folder}/README.md`)));
}

/** Returns the anchors of a page; a repeated heading has a number. */
export function readAnchors(text: string): Set<string> {
  const anchors = new Set<string>();
  for (const [, heading = ''] of withoutCode(text).matchAll(/^#{1,6} +(.+?) *#*$/gm)) {
    const slug = makeSlug(stripMarkup(heading));
    let unique = slug;
    for (let count = 1; anchors.has(unique); count++) unique = `${slug}-${count}`;
    anchors.add(unique);
  }
  return anchors;
}

export interface DocsLink {
  readonly target: string;
  readonly line: number;
}

/** Returns the targets of the links and pictures of a page that are no addresses. */
export function readLinks(text: string): DocsLink[] {
  const plain = withoutCode(text).replaceAll(/`[^`\n]*`/g, (code) => ' '.repeat(code.length));
  const found = plain.matchAll(/\]\(\s*<?([^)\s>]+)>?(?:\s+"[^"]*")?\s*\)/g);
  return [...found]
    .map(({ 1: target = '', index }) => ({
      target,
      line: plain.slice(0, index).split('\n').length,
    }))
    .filter(({ target }) => !/^[a-z][a-z0-9+.-]*:/i.test(target));
}

/** Resolves a link relative to the page, and separates its anchor. */
export function resolveLink(from: string, target: string): { path: string; anchor: string } {
  const [path = '', anchor = ''] = target.split('#', 2);
  const resolved = path === '' ? from : posix.normalize(posix.join(posix.dirname(from), path));
  return { path: resolved.replace(/\/$/, ''), anchor: decodeURI(anchor) };
}

/** Removes comments, which can hold commands of tests that readers don't see. */
export function withoutComments(text: string): string {
  return replaceOutsideCode(text, (part) => part.replaceAll(/<!--[^]*?-->\n?/g, ''));
}

function readTitle(source: string, text: string): string {
  const heading = /^# +(.+?) *#*$/m.exec(withoutCode(text))?.[1];
  if (heading === undefined) throw new Error(`docs/${source} has no first heading`);
  return stripMarkup(heading);
}

/** Removes emphasis, code marks and links from one line. */
function stripMarkup(line: string): string {
  return line
    .replaceAll(/!?\[([^\]]*)\]\([^)]*\)/g, '$1')
    .replaceAll(/[`*]/g, '')
    .replaceAll(/\\(\W)/g, '$1');
}

/** Blanks code blocks and comments, and keeps the line numbers. */
function withoutCode(text: string): string {
  const blank = (part: string): string => part.replaceAll(/[^\n]+/g, '');
  return text.replaceAll(FENCE, blank).replaceAll(/<!--[^]*?-->/g, blank);
}

const FENCE = /^( *)(`{3,}|~{3,})[^\n]*\n(?:[^]*?\n)??\1\2 *$/gm;

function replaceOutsideCode(text: string, replace: (part: string) => string): string {
  const fences: string[] = [];
  const marked = text.replaceAll(FENCE, (fence) => `\0${fences.push(fence) - 1}\0`);
  return replace(marked).replaceAll(
    /\0(\d+)\0/g,
    (_, index: string) => fences[Number(index)] ?? '',
  );
}
