import { readdir } from 'node:fs/promises';
import { join, sep } from 'node:path';
import { DuctileError, toDuctileError } from '../base/errors.ts';
import { isObject } from '../base/json.ts';
import { suggest } from '../base/text.ts';
import { callOperation, findTarget } from './call-operation.ts';
import { makePrinter } from './print.ts';
import type { CommonFlags, CliSession } from './host.ts';

/** Prints the dashboard's URL and how to sign in; returns 1 if it is disabled. */
export async function showUi(session: CliSession, options: CommonFlags): Promise<number> {
  const { origin, isRunning } = await findOrigin(session, options);
  const address = origin === null ? null : `${origin}/ui`;
  const printer = makePrinter(session.io, options);
  if (options.json === true) printer.json({ address });
  else if (address === null) {
    printer.line(
      'The dashboard needs the API. Enable it: ductile config set api.enabled=true --apply',
    );
  } else {
    printer.line(address);
    if (!isRunning) printer.line(NOT_RUNNING);
    printer.line('Create a token to sign in: ductile token create dashboard --role admin');
  }
  return address === null ? 1 : 0;
}

const NOT_RUNNING = 'The service is not running. Start it: ductile system start';

/** Prints the URL of a page of the documentation, and its file on this machine. */
export async function showDocs(
  session: CliSession,
  wanted: string | undefined,
  options: CommonFlags,
): Promise<number> {
  const [name = '', anchor = ''] = (wanted ?? '').split('#', 2);
  const directory = session.host.findDocs();
  const { page, file } = await findPage(directory, name);
  // The files can be read without a configuration, too.
  const { origin, isRunning } = await findOrigin(session, options).catch((thrown: unknown) => {
    if (toDuctileError(thrown).kind.exit !== CONFIG_EXIT) throw thrown;
    return { origin: null, isRunning: false };
  });
  // Anchors are in lower case, and error codes in upper case.
  const hash = anchor === '' ? '' : `#${anchor.toLowerCase()}`;
  const address = origin === null ? null : `${origin}/docs/${page}${hash}`;
  const printer = makePrinter(session.io, options);
  if (options.json === true) {
    printer.json({ address, file });
    return 0;
  }
  if (address !== null) printer.line(address);
  if (address !== null && !isRunning) printer.line(NOT_RUNNING);
  printer.line(file.endsWith('.gz') ? `Without a browser: zless ${file}` : `File: ${file}`);
  return 0;
}

const CONFIG_EXIT = 78;

/** Finds a page by its path, or by its name if only one page has it. */
async function findPage(
  directory: string,
  wanted: string,
): Promise<{ readonly page: string; readonly file: string }> {
  const names = await readdir(directory, { recursive: true }).catch(() => []);
  const pages = new Map(
    names
      .filter((name) => /\.md(\.gz)?$/.test(name))
      .map((name) => [toPage(name.split(sep).join('/')), join(directory, name)]),
  );
  const name = wanted.replace(/^\/?(docs\/)?/, '').replace(/(\.md|\/)$/, '');
  const known = [...pages.keys()].toSorted();
  const matches = known.filter((page) => `/${page}`.replace(/\/$/, '').endsWith(`/${name}`));
  if (name === '') return { page: '', file: pages.get('') ?? directory };
  const exact = known.find((page) => page.replace(/\/$/, '') === name);
  const page = exact ?? (matches.length === 1 ? matches[0] : undefined);
  const file = page === undefined ? undefined : pages.get(page);
  if (page !== undefined && file !== undefined) return { page, file };
  const hint =
    matches.length > 1 ? `Name one of them: ${matches.join(', ')}.` : suggest(name, known, 'pages');
  const message =
    matches.length > 1 ? `${matches.length} pages are named ${name}` : `there is no page ${name}`;
  throw new DuctileError('INPUT_INVALID', message, { place: 'page', hint });
}

/** `README.md` is the page of its directory. */
function toPage(name: string): string {
  return name.replace(/\.md(\.gz)?$/, '').replace(/(^|\/)README$/, '$1');
}

/** Finds the address of the service, or the one that it will have; null if the API is disabled. */
async function findOrigin(
  session: CliSession,
  options: CommonFlags,
): Promise<{ readonly origin: string | null; readonly isRunning: boolean }> {
  const target = await findTarget(session, options);
  if (target === undefined) {
    return { origin: await configuredOrigin(session, options), isRunning: false };
  }
  const origin = 'url' in target ? target.url.origin : await runningOrigin(session, options);
  return { origin, isRunning: true };
}

/** Asks the service, because the configuration may leave the port to the system. */
async function runningOrigin(session: CliSession, options: CommonFlags): Promise<string | null> {
  const { api } = await callOperation(session, options, 'system.status', {});
  return typeof api === 'string' ? api : null;
}

async function configuredOrigin(session: CliSession, options: CommonFlags): Promise<string | null> {
  const { config } = await callOperation(session, options, 'config.view', {});
  const api = isObject(config) && isObject(config['api']) ? config['api'] : {};
  const { enabled, listen } = api;
  if (enabled !== true || typeof listen !== 'string') return null;
  return toLoopbackUrl(`http://${listen}`);
}

/** Replaces the listening address with loopback, which works from this machine. */
export function toLoopbackUrl(url: string): string {
  return url.replace('//0.0.0.0:', '//127.0.0.1:').replace('//[::]:', '//[::1]:');
}
