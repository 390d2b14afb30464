/**
 * Builds the documentation site into dist/docs, compressed. The service serves it at /docs. The new site
 * replaces the old one at once, so that a running service isn't disturbed.
 */
import { createHash } from 'node:crypto';
import { mkdir, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { dirname, extname, join, sep } from 'node:path';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';
import { build } from 'vitepress';
import { collectNotices } from './collect-notices.ts';
import { renderIndex } from './site/llms.ts';
import { readDocsPages, withoutComments } from './site/pages.ts';

const root = dirname(import.meta.dirname);
const docs = join(root, 'docs');
/** Output of VitePress. */
const raw = join(root, 'build', 'docs');
const target = join(root, 'dist', 'docs');
/** Lists the bundled modules; docs/.vitepress/config.ts writes it. */
const MODULES = 'modules.json';
/** Formats that are compressed already. */
const compressed = new Set(['.png', '.jpg', '.webp', '.woff2']);

const startedAt = performance.now();
const stamp = await prepareStamp();
// VitePress looks for Vue below the current directory.
process.chdir(root);
await rm(raw, { recursive: true, force: true });
await build(docs);
const bytes = await publish(new Map([...(await readSite()), ...(await renderTexts())]));
await rename(stamp, join(root, 'dist', '.docs-stamp'));
const seconds = ((performance.now() - startedAt) / 1000).toFixed(1);
console.log(`built dist/docs (${(bytes / 1e6).toFixed(2)} MB) in ${seconds} s`);

/** Has the time of the start, so that pages that change meanwhile are newer. */
async function prepareStamp(): Promise<string> {
  const path = join(root, 'dist', '.docs-stamp-new');
  await mkdir(dirname(path), { recursive: true });
  await writeFile(path, '');
  return path;
}

type SiteFiles = ReadonlyMap<string, Buffer>;

async function readSite(): Promise<SiteFiles> {
  const files = new Map<string, Buffer>();
  for (const path of await readdir(raw, { recursive: true })) {
    const name = path.split(sep).join('/');
    const file = join(raw, path);
    if (name === MODULES || !(await stat(file)).isFile()) continue;
    const content = await readFile(file);
    if (extname(name) !== '.html') files.set(name, content);
    else files.set(name, Buffer.from(moveScripts(String(content), name, files)));
  }
  return files;
}

/**
 * Moves scripts of the page into files, and removes style attributes. The service's policy allows
 * neither in a page.
 */
function moveScripts(html: string, name: string, files: Map<string, Buffer>): string {
  const moved = html
    .replaceAll(/<script id="[^"]+">([^]*?)<\/script>/g, (_, script: string) => {
      const hash = createHash('sha256').update(script).digest('hex').slice(0, 8);
      const asset = `assets/early.${hash}.js`;
      files.set(asset, Buffer.from(script));
      return `<script src="/docs/${asset}"></script>`;
    })
    .replaceAll(/ style="[^"]*"/g, '');
  const fault = /<script(?![^>]* src=)[^>]*>|<style|<[^>]+ on\w+=/.exec(moved)?.[0];
  if (fault !== undefined) throw new Error(`${name} has ${fault}, which its policy forbids`);
  return moved;
}

/** The pages as Markdown, lists of them for programs, and the licenses. */
async function renderTexts(): Promise<SiteFiles> {
  const pages = await readDocsPages(docs);
  const modules = JSON.parse(await readFile(join(raw, MODULES), 'utf8')) as string[];
  const texts: readonly (readonly [string, string])[] = [
    ...pages.map(({ source, text }) => [source, withoutComments(text)] as const),
    ['llms.txt', renderIndex(pages)],
    ['NOTICES.txt', await collectNotices(root, modules)],
    ['icon.svg', await readFile(join(root, 'web', 'icon.svg'), 'utf8')],
  ];
  return new Map(texts.map(([name, text]) => [name, Buffer.from(text)]));
}

/**
 * Writes pictures as they are, Markdown compressed for readers without a service, and everything else
 * into one archive. Returns the number of bytes.
 */
async function publish(files: SiteFiles): Promise<number> {
  const [next, last] = [`${target}.new`, `${target}.old`];
  await rm(next, { recursive: true, force: true });
  const packed: (readonly [string, Buffer])[] = [];
  const written: (readonly [string, Buffer])[] = [];
  for (const [name, content] of files) {
    const type = extname(name);
    if (type === '.md') written.push([`${name}.gz`, gzipSync(content, { level: 9 })]);
    else if (compressed.has(type)) written.push([name, content]);
    else packed.push([name, content]);
  }
  written.push(['site.br', pack(packed)]);
  for (const [name, content] of written) {
    const path = join(next, name);
    await mkdir(dirname(path), { recursive: true });
    await writeFile(path, content);
  }
  await rm(last, { recursive: true, force: true });
  await rename(target, last).catch(() => undefined);
  await rename(next, target);
  await rm(last, { recursive: true, force: true });
  return written.reduce((sum, [, content]) => sum + content.length, 0);
}

/** Packs files into one: a line with the name and size of each, then the files. */
function pack(files: readonly (readonly [string, Buffer])[]): Buffer {
  const entries = files.map(([name, content]) => [name, content.length]);
  const head = Buffer.from(`${JSON.stringify(entries)}\n`);
  // A window over all files, because a page and its script have the same text.
  const params = {
    [constants.BROTLI_PARAM_QUALITY]: 9,
    [constants.BROTLI_PARAM_LGWIN]: constants.BROTLI_MAX_WINDOW_BITS,
  };
  return brotliCompressSync(Buffer.concat([head, ...files.map(([, content]) => content)]), {
    params,
  });
}
