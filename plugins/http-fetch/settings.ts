/** Checks the settings of the operator and of the payload. */
import type { Fields, Request } from '../../sdk/typescript/ductile-plugin.ts';
import type { Guard } from '../lib/network-guard.ts';

export interface Settings {
  readonly url: URL | undefined;
  readonly headers: Record<string, string>;
  readonly guard: Guard;
  readonly acceptStatus: ReadonlySet<number>;
  readonly bytesMax: number;
  readonly redirectsMax: number;
  readonly timeoutMs: number;
}

const URL_CHARACTERS_MAX = 8192;
const HOST_PATTERN = /^(\*\.)?[a-z0-9._-]+(:\d{1,5})?$|^\[[0-9a-f:.]+\](:\d{1,5})?$/i;
/** Headers that the request or the connection sets itself. */
const RESERVED_HEADERS =
  /^(host|connection|keep-alive|content-length|transfer-encoding|te|trailer|upgrade|expect|proxy-.*)$/i;

export function readSettings(request: Request): Settings {
  const { config } = request;
  const url = readUrl(config, 'url');
  const allowHosts = config.texts('allow_hosts').map((host) => host.toLowerCase());
  const wrong = allowHosts.find((host) => !HOST_PATTERN.test(host));
  if (wrong !== undefined) {
    throw config.refuse(
      'allow_hosts',
      `must list host, host:port, *.host or *.host:port; '${wrong}' is none`,
    );
  }
  const allowPrivate = config.flag('allow_private');
  if (allowPrivate && allowHosts.length === 0 && url === undefined) {
    throw config.refuse(
      'allow_private',
      'needs config.allow_hosts or config.url to name the hosts',
    );
  }
  return {
    url,
    headers: readHeaders(config, 'headers'),
    guard: { allowHosts, allowPrivate, ownOrigin: url?.origin },
    acceptStatus: readStatuses(config),
    bytesMax: config.whole('max_bytes', 262_144, 1, 700_000),
    redirectsMax: config.whole('max_redirects', 5, 0, 5),
    timeoutMs: request.msLeft(config.whole('timeout_ms', 30_000, 1, 600_000)),
  };
}

/** Reads a URL without its fragment. The network guard checks its host. */
export function readUrl(fields: Fields, key: string): URL | undefined {
  const text = fields.text(key);
  if (text === undefined) return undefined;
  const url = text.length > URL_CHARACTERS_MAX ? null : URL.parse(text);
  if (url === null || (url.protocol !== 'http:' && url.protocol !== 'https:')) {
    throw fields.refuse(key, 'must be an http or https address');
  }
  url.hash = '';
  return url;
}

export function readMethod(payload: Fields): 'GET' | 'HEAD' {
  const method = payload.text('method') ?? 'GET';
  if (method === 'GET' || method === 'HEAD') return method;
  throw payload.refuse('method', 'must be GET or HEAD: this plugin only reads');
}

export function readHeaders(fields: Fields, key: string): Record<string, string> {
  const headers: Record<string, string> = {};
  for (const [name, value] of Object.entries(fields.mapping(key))) {
    if (!/^[!#$%&'*+.^_`|~0-9a-z-]+$/i.test(name) || RESERVED_HEADERS.test(name)) {
      throw fields.refuse(key, `cannot have a header named '${name}'`);
    }
    if (typeof value !== 'string' || !/^[\x20-\x7e]*$/.test(value)) {
      throw fields.refuse(key, `must give ${name} a string of printable ASCII`);
    }
    headers[name.toLowerCase()] = value;
  }
  return headers;
}

function readStatuses(config: Fields): ReadonlySet<number> {
  const listed = config.get('accept_status') ?? [];
  const isStatus = (item: unknown): item is number =>
    Number.isInteger(item) && Number(item) >= 100 && Number(item) <= 599;
  if (!Array.isArray(listed) || !listed.every(isStatus)) {
    throw config.refuse('accept_status', 'must be a list of HTTP statuses');
  }
  return new Set(listed);
}
