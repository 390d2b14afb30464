import { readdir, readFile } from 'node:fs/promises';
import { extname, join } from 'node:path';
import { DuctileError } from '../base/errors.ts';
import type { Exchange } from './exchange.ts';
import {
  createCachedResponse,
  sendCachedResponse,
  type CachedResponse,
} from './cached-response.ts';

/** Handles requests under /ui and returns whether the request was one. */
export type DashboardHandler = (exchange: Exchange) => Promise<boolean>;

const BASE = '/ui';
const ASSETS = 'assets';
const PAGE = 'index.html';

/**
 * The page runs its own files and nothing else: no inline script or style, nothing from other
 * origins, and no text can become markup by mistake.
 */
const ALWAYS: readonly string[] = [
  'content-security-policy',
  [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self'",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
  ].join('; '),
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

const types: ReadonlyMap<string, string> = new Map([
  ['.html', 'text/html; charset=utf-8'],
  ['.js', 'text/javascript; charset=utf-8'],
  ['.css', 'text/css; charset=utf-8'],
  ['.svg', 'image/svg+xml'],
]);

interface DashboardFile extends CachedResponse {
  /** The name contains a hash of the content, so a browser may cache it without a limit. */
  readonly isNamedByContent: boolean;
}

/** Serves the dashboard: its files, and the page for every other path under /ui. */
export function createDashboard(directory: string): DashboardHandler {
  let reading: Promise<ReadonlyMap<string, DashboardFile>> | undefined;
  return async (exchange) => {
    const { path, request } = exchange;
    if (path !== BASE && !path.startsWith(`${BASE}/`)) return false;
    if (request.method !== 'GET' && request.method !== 'HEAD') {
      exchange.extra.push('allow', 'GET, HEAD');
      throw new DuctileError('METHOD_NOT_ALLOWED', `${request.method} is not allowed here`);
    }
    // Read once: a page and its files must be from the same build.
    reading ??= readFiles(directory);
    const files = await reading;
    if (!files.has(PAGE)) reading = undefined;
    const name = path.slice(BASE.length + 1);
    const file = files.get(name.startsWith(`${ASSETS}/`) ? name : PAGE);
    if (file === undefined) {
      const message = files.has(PAGE) ? `there is no ${path}` : 'the dashboard was not built';
      throw new DuctileError('ENDPOINT_NOT_FOUND', message);
    }
    send(exchange, file);
    return true;
  };
}

function send(exchange: Exchange, file: DashboardFile): void {
  const cacheControl = file.isNamedByContent ? 'public, max-age=31536000, immutable' : 'no-cache';
  sendCachedResponse(exchange, file, { cacheControl, vary: 'accept-encoding', always: ALWAYS });
}

async function readFiles(directory: string): Promise<ReadonlyMap<string, DashboardFile>> {
  const assets = await namesIn(join(directory, ASSETS));
  const names = [PAGE, ...assets.map((name) => `${ASSETS}/${name}`)];
  const files = await Promise.all(names.map((name) => read(directory, name)));
  return new Map(
    files.flatMap((file, at) => (file === undefined ? [] : [[names[at] ?? '', file]])),
  );
}

function namesIn(directory: string): Promise<string[]> {
  return readdir(directory).catch(() => []);
}

async function read(directory: string, name: string): Promise<DashboardFile | undefined> {
  const type = types.get(extname(name));
  const bytes = await readFile(join(directory, name)).catch(() => undefined);
  if (type === undefined || bytes === undefined) return undefined;
  return { ...(await createCachedResponse(bytes, type)), isNamedByContent: name !== PAGE };
}
