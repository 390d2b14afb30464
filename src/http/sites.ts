import { readdir, readFile } from 'node:fs/promises';
import { extname, join, sep } from 'node:path';
import { brotliDecompress } from 'node:zlib';
import { promisify } from 'node:util';
import { DuctileError } from '../base/errors.ts';
import { limits } from '../base/limits.ts';
import { parseJson } from '../base/parse-json.ts';
import type { Admission } from '../operation/authorize.ts';
import type { Exchange } from './exchange.ts';
import {
  createCachedResponse,
  createZippedResponse,
  sendCachedResponse,
  type CachedResponse,
} from './cached-response.ts';

type SiteHandler = (exchange: Exchange) => Promise<true>;

/** Directories with the files of each site; undefined if it is disabled. */
export interface SiteDirectories {
  readonly ui?: string | undefined;
  readonly docs?: string | undefined;
}

const UI = '/ui';
const DOCS = '/docs';
const ASSETS = 'assets';
const PAGE = 'index.html';
const NOT_FOUND_PAGE = '404.html';
const ZIPPED = '.gz';
/** The files of the documentation in one: together they are far smaller. */
const ARCHIVE = 'site.br';
/** The list of pages for language models, and the text of all pages. */
const INDEX = 'llms.txt';
const WHOLE = 'llms-full.txt';

/** Only own files run: no inline script or style, and nothing from other origins. */
const policy: readonly string[] = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
];

/** No text of the dashboard can become markup by mistake. */
const dashboardHeaders = makeHeaders(["img-src 'self'", "trusted-types 'none'"]);
/** The documentation's pages are markup that Vue inserts; its icons are data in the style sheet. */
const docsHeaders = makeHeaders(["img-src 'self' data:", 'trusted-types vue']);

const HTML = 'text/html; charset=utf-8';

const types: ReadonlyMap<string, string> = new Map([
  ['.html', HTML],
  ['.js', 'text/javascript; charset=utf-8'],
  ['.json', 'application/json'],
  ['.css', 'text/css; charset=utf-8'],
  ['.svg', 'image/svg+xml'],
  ['.png', 'image/png'],
  ['.md', 'text/markdown; charset=utf-8'],
  ['.txt', 'text/plain; charset=utf-8'],
]);

/** Creates the response for a file, once. */
type SiteFile = () => Promise<CachedResponse>;
type SiteFiles = ReadonlyMap<string, SiteFile>;

/**
 * Serves the dashboard to everyone: its files hold no data, and its requests for data need a token.
 * `admit` refuses callers who may not read the documentation.
 */
export function createSites({ ui, docs }: SiteDirectories) {
  const dashboard = ui === undefined ? undefined : createDashboard(ui);
  const documentation = docs === undefined ? undefined : createDocsSite(docs);
  return async (exchange: Exchange, admit: () => Promise<Admission>): Promise<boolean> => {
    const { path } = exchange;
    if (dashboard !== undefined && isBelow(path, UI)) return await dashboard(exchange);
    if (documentation === undefined || !isBelow(path, DOCS)) return false;
    (await admit()).leave();
    return await documentation(exchange);
  };
}

export type Sites = ReturnType<typeof createSites>;

/** Serves the dashboard: its files, and the page for every other path under /ui. */
function createDashboard(directory: string): SiteHandler {
  const readSite = createReader(directory);
  return async (exchange) => {
    const { path } = exchange;
    requireRead(exchange);
    const files = await readSite();
    const wanted = path.slice(UI.length + 1);
    const name = wanted.startsWith(`${ASSETS}/`) ? wanted : PAGE;
    const file = files.get(name);
    if (file === undefined) {
      const message = files.has(PAGE) ? `there is no ${path}` : 'the dashboard was not built';
      throw new DuctileError('ENDPOINT_NOT_FOUND', message);
    }
    send(exchange, name, { file: await file(), always: dashboardHeaders });
    return true;
  };
}

/** Serves the documentation: a path without an ending is a page. */
function createDocsSite(directory: string): SiteHandler {
  const readSite = createReader(directory);
  return async (exchange) => {
    const { path } = exchange;
    requireRead(exchange);
    const files = await readSite();
    const wanted = path.slice(DOCS.length + 1);
    const folder = wanted === '' || wanted.endsWith('/') ? wanted : `${wanted}/`;
    const isFolder = files.has(`${folder}${PAGE}`);
    if (isFolder && path !== `${DOCS}/${folder}`) {
      redirect(exchange, `${DOCS}/${folder}`);
      return true;
    }
    const names = isFolder ? [`${folder}${PAGE}`] : [wanted, `${wanted}.html`];
    const name = names.find((each) => files.has(each)) ?? NOT_FOUND_PAGE;
    const make = files.get(name) ?? (() => createCachedResponse(MISSING_SITE, HTML));
    const status = name === NOT_FOUND_PAGE ? 404 : 200;
    send(exchange, name, { file: await make(), always: docsHeaders, status });
    return true;
  };
}

const MISSING_SITE = Buffer.from(`<!doctype html>
<html lang="en">
<title>Documentation</title>
<h1>The documentation was not built</h1>
<p>In a clone of the repository, build it with <code>tools/build-docs</code> and load this page again.
The same pages are in the folder <code>docs</code>.</p>
</html>
`);

function makeHeaders(more: readonly string[]): readonly string[] {
  return [
    'content-security-policy',
    [...policy, ...more].join('; '),
    'cross-origin-opener-policy',
    'same-origin',
    'cross-origin-resource-policy',
    'same-origin',
    'permissions-policy',
    'camera=(), geolocation=(), microphone=(), payment=(), usb=()',
    'referrer-policy',
    'no-referrer',
    'x-content-type-options',
    'nosniff',
  ];
}

function isBelow(path: string, base: string): boolean {
  return path === base || path.startsWith(`${base}/`);
}

function requireRead({ request, extra }: Exchange): void {
  if (request.method === 'GET' || request.method === 'HEAD') return;
  extra.push('allow', 'GET, HEAD');
  throw new DuctileError('METHOD_NOT_ALLOWED', `${request.method} is not allowed here`);
}

function redirect(exchange: Exchange, location: string): void {
  exchange.extra.push('location', location);
  exchange.respondEmpty(308);
}

interface SiteResponse {
  readonly file: CachedResponse;
  readonly always: readonly string[];
  readonly status?: number;
}

function send(exchange: Exchange, name: string, { file, always, status }: SiteResponse): void {
  // The name of an asset contains a hash of the content, so a browser may cache it without a limit.
  const isNamedByContent = name.startsWith(`${ASSETS}/`);
  const cacheControl = isNamedByContent ? 'public, max-age=31536000, immutable' : 'no-cache';
  sendCachedResponse(exchange, file, { cacheControl, vary: 'accept-encoding', always, status });
}

/**
 * Reads a site with its first request, because a page and its files must be from the same build. Drops
 * it after a while without a request.
 */
function createReader(directory: string): () => Promise<SiteFiles> {
  let reading: Promise<SiteFiles> | undefined;
  let timer: NodeJS.Timeout | undefined;
  return async () => {
    reading ??= readFiles(directory);
    clearTimeout(timer);
    timer = setTimeout(() => (reading = undefined), limits.siteIdleMs).unref();
    const files = await reading;
    if (!files.has(PAGE)) reading = undefined;
    return files;
  };
}

async function readFiles(directory: string): Promise<SiteFiles> {
  const names = await readdir(directory, { recursive: true }).catch(() => []);
  const files = new Map<string, SiteFile>();
  for (const path of names) {
    const bytes = await readFile(join(directory, path)).catch(() => undefined);
    if (bytes === undefined) continue;
    const name = path.split(sep).join('/');
    const isZipped = name.endsWith(ZIPPED);
    if (name === ARCHIVE) for (const packed of await unpack(bytes)) addFile(files, ...packed);
    else addFile(files, isZipped ? name.slice(0, -ZIPPED.length) : name, bytes, isZipped);
  }
  if (files.has(INDEX))
    files.set(
      WHOLE,
      once(() => joinPages(files)),
    );
  return files;
}

function addFile(
  files: Map<string, SiteFile>,
  name: string,
  bytes: Buffer,
  isZipped = false,
): void {
  const type = types.get(extname(name));
  if (type === undefined) return;
  const make = isZipped ? createZippedResponse : createCachedResponse;
  files.set(
    name,
    once(async () => await make(bytes, type)),
  );
}

function once(make: SiteFile): SiteFile {
  let made: ReturnType<SiteFile> | undefined;
  return () => (made ??= make());
}

/** Reads the archive of tools/build-docs: a line with the name and size of each file, then the files. */
async function unpack(archive: Buffer): Promise<(readonly [name: string, bytes: Buffer])[]> {
  const all = await promisify(brotliDecompress)(archive);
  const end = all.indexOf('\n');
  const entries = parseJson(all.toString('utf8', 0, end)) as readonly (readonly [string, number])[];
  let offset = end + 1;
  return entries.map(([name, size]) => {
    const start = offset;
    offset += size;
    return [name, all.subarray(start, offset)];
  });
}

/** Joins the Markdown of all pages for language models, in the order of their list. */
async function joinPages(files: SiteFiles): Promise<CachedResponse> {
  const index = String((await files.get(INDEX)?.())?.bytes);
  const pages: string[] = [];
  for (const [, name = ''] of index.matchAll(/\]\(\/docs\/([^)]+\.md)\)/g)) {
    const page = await files.get(name)?.();
    if (page !== undefined) pages.push(`<!-- ${DOCS}/${name} -->\n\n${String(page.bytes)}`);
  }
  return await createCachedResponse(Buffer.from(pages.join('\n')), types.get('.txt') ?? HTML);
}
