import type { IncomingMessage } from 'node:http';
import { DuctileError } from '../base/errors.ts';
import { limits } from '../base/limits.ts';
import type { Exchange } from './exchange.ts';

/** Headers that decide who asks or what is asked: one that comes twice means two different things. */
const SINGLE: ReadonlySet<string> = new Set([
  'content-encoding',
  'content-length',
  'content-type',
  'host',
  'idempotency-key',
  'last-event-id',
  'origin',
  'transfer-encoding',
  'x-request-id',
]);

/** Refuses what the parser lets through and what is still no sound request to this server. */
export function inspectRequest({ request, url }: Exchange): void {
  const { rawHeaders, httpVersion } = request;
  if (rawHeaders.length > 2 * limits.httpHeadersMax) {
    const message = `there are more than ${limits.httpHeadersMax} headers`;
    throw new DuctileError('HEADERS_TOO_LARGE', message);
  }
  if (url.length > limits.httpUrlCharsMax) {
    const message = `the URL is longer than ${limits.httpUrlCharsMax} characters`;
    throw new DuctileError('URL_TOO_LONG', message);
  }
  if (!url.startsWith('/') || url.startsWith('//')) {
    throw new DuctileError('REQUEST_INVALID', 'the target must be a path');
  }
  if (httpVersion !== '1.1' && httpVersion !== '1.0') {
    throw new DuctileError('REQUEST_INVALID', `HTTP/${httpVersion} is not spoken here`);
  }
  if (httpVersion === '1.0' && request.headers['transfer-encoding'] !== undefined) {
    // A proxy that knows no chunks in HTTP/1.0 has seen another end of this request.
    throw new DuctileError('REQUEST_INVALID', 'HTTP/1.0 has no chunks', {
      place: 'transfer-encoding',
    });
  }
  if (hasRepeated(request)) refuseRepeated(rawHeaders);
  if (httpVersion === '1.1' && (request.headers.host ?? '') === '') {
    throw new DuctileError('REQUEST_INVALID', 'a Host header is needed', { place: 'host' });
  }
}

/** Whether any header came twice: then there are fewer names than headers. */
export function hasRepeated({ rawHeaders, headers }: IncomingMessage): boolean {
  return Object.keys(headers).length * 2 !== rawHeaders.length;
}

function refuseRepeated(rawHeaders: readonly string[]): void {
  const seen = new Set<string>();
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = (rawHeaders[at] ?? '').toLowerCase();
    if (!SINGLE.has(name)) continue;
    if (seen.has(name)) {
      throw new DuctileError('REQUEST_INVALID', `the header ${name} came twice`, { place: name });
    }
    seen.add(name);
  }
}

const LOOPBACK = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])(:\d+)?$/i;

/**
 * A server that listens on loopback is not asked under another name, unless a web page of that name
 * was let in: a name that a stranger points at 127.0.0.1 would make a browser ask for them.
 */
export function inspectHost(
  { request }: Exchange,
  listenHost: string,
  allowedOrigins: readonly string[],
): void {
  const { host } = request.headers;
  if (host === undefined || LOOPBACK.test(host)) return;
  if (!LOOPBACK.test(listenHost) && listenHost !== '::1') return;
  if (allowedOrigins.some((origin) => origin === '*' || origin.endsWith(`//${host}`))) return;
  throw new DuctileError('HOST_UNKNOWN', 'this server is not known by that name', {
    place: 'host',
  });
}
