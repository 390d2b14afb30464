import { type IncomingMessage, type ServerResponse, STATUS_CODES } from 'node:http';
import type { Duplex } from 'node:stream';
import { DuctileError } from '../base/errors.ts';
import { makeId } from '../base/ids.ts';
import { limits } from '../base/limits.ts';

/** Headers of every response: it is data, and browsers must neither run nor frame it. */
export const GUARDED: readonly string[] = [
  'content-security-policy',
  "default-src 'none'; frame-ancestors 'none'",
  'cross-origin-resource-policy',
  'same-origin',
  'referrer-policy',
  'no-referrer',
  'x-content-type-options',
  'nosniff',
];

const ALWAYS: readonly string[] = ['cache-control', 'no-store', ...GUARDED];

const REQUEST_ID = /^[\w.:-]+$/;
const HUNG_UP = 'hung up';

/** An HTTP request and its response. */
export class Exchange {
  static readonly #latest = new WeakMap<Duplex, Exchange>();
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly requestId: string;
  /** Headers of this response alone, name and value in turn. */
  readonly extra: string[] = [];

  constructor(request: IncomingMessage, response: ServerResponse) {
    this.request = request;
    this.response = response;
    const given = request.headers['x-request-id'];
    const isUsable =
      typeof given === 'string' &&
      given.length <= limits.requestIdCharsMax &&
      REQUEST_ID.test(given);
    this.requestId = isUsable ? given : makeId();
    Exchange.#latest.set(request.socket, this);
  }

  /** Finds the exchange that began last on a connection. */
  static findLatest(socket: Duplex): Exchange | undefined {
    return Exchange.#latest.get(socket);
  }

  get url(): string {
    return this.request.url ?? '';
  }

  /** Leaves out the query, which may hold secrets that must not be logged. */
  get path(): string {
    const at = this.url.indexOf('?');
    return at === -1 ? this.url : this.url.slice(0, at);
  }

  /** Returns a signal that is aborted when the client disconnects. */
  disconnected(): AbortSignal {
    const gone = new AbortController();
    // An explicit reason: Node would otherwise create an error with a stack for every response.
    if (this.response.destroyed) gone.abort(HUNG_UP);
    else this.response.once('close', () => gone.abort(HUNG_UP));
    return gone.signal;
  }

  respond(status: number, text: string, type = 'application/json'): void {
    const { response } = this;
    if (response.headersSent || response.destroyed) return;
    const size = String(Buffer.byteLength(text));
    this.begin(status, ['content-type', type, 'content-length', size]);
    response.end(text);
  }

  respondEmpty(status: number): void {
    if (this.response.headersSent || this.response.destroyed) return;
    this.begin(status, []);
    this.response.end();
  }

  refuse(error: DuctileError): void {
    if (error.code === 'UNAUTHORIZED')
      this.extra.push('www-authenticate', 'Bearer realm="ductile"');
    const { retryable, status } = error.kind;
    if (retryable && (status === 503 || status === 429)) this.extra.push('retry-after', '1');
    // The rest of a body that was too large, too slow or cut short isn't worth reading.
    if (closing.has(error.code)) this.extra.push('connection', 'close');
    this.respond(status, toProblem(error, this.requestId), PROBLEM_TYPE);
  }

  /** `always` are the headers of every response of this kind. */
  begin(status: number, headers: readonly string[], always: readonly string[] = ALWAYS): void {
    this.response.writeHead(status, [
      ...headers,
      'x-request-id',
      this.requestId,
      ...always,
      ...this.extra,
    ]);
  }
}

const closing: ReadonlySet<string> = new Set([
  'CROWDED',
  'PAYLOAD_TOO_LARGE',
  'REQUEST_INVALID',
  'REQUEST_TIMEOUT',
  'HEADERS_TOO_LARGE',
]);

export const PROBLEM_TYPE = 'application/problem+json';

/**
 * Formats an error as problem details (RFC 9457), with the fields of the catalogue and `error` in
 * plain words.
 */
export function toProblem(error: DuctileError, requestId: string): string {
  const { status } = error.kind;
  // Internal details are for the log; the caller gets the request id to find them.
  const message = error.code === 'INTERNAL' ? 'an internal error occurred' : error.message;
  const problem = {
    type: `urn:ductile:error:${error.code}`,
    title: STATUS_CODES[status] ?? 'Error',
    status,
    detail: message,
    ...error.toJSON(),
    error: message,
    request_id: requestId,
    docs: error.docs,
  };
  return `${JSON.stringify(problem)}\n`;
}

/** Headers that decide who the caller is or what they request; a repeated one is ambiguous. */
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

/** Refuses requests that Node's parser accepts but that aren't safe to handle. */
export function checkRequest({ request, url }: Exchange): void {
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
    throw new DuctileError('REQUEST_INVALID', 'the request target must be a path');
  }
  if (httpVersion !== '1.1' && httpVersion !== '1.0') {
    throw new DuctileError('REQUEST_INVALID', `HTTP/${httpVersion} is not supported`);
  }
  if (httpVersion === '1.0' && request.headers['transfer-encoding'] !== undefined) {
    // A proxy that doesn't know chunks in HTTP/1.0 sees another end of this request.
    throw new DuctileError('REQUEST_INVALID', 'HTTP/1.0 does not support chunked bodies', {
      place: 'transfer-encoding',
    });
  }
  if (hasRepeatedHeader(request)) refuseRepeated(rawHeaders);
  if (httpVersion === '1.1' && (request.headers.host ?? '') === '') {
    throw new DuctileError('REQUEST_INVALID', 'the Host header is missing', { place: 'host' });
  }
}

/** Node joins repeated headers, so then there are fewer names than raw headers. */
export function hasRepeatedHeader({ rawHeaders, headers }: IncomingMessage): boolean {
  return Object.keys(headers).length * 2 !== rawHeaders.length;
}

function refuseRepeated(rawHeaders: readonly string[]): void {
  const seen = new Set<string>();
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = (rawHeaders[at] ?? '').toLowerCase();
    if (!SINGLE.has(name)) continue;
    if (seen.has(name)) {
      throw new DuctileError('REQUEST_INVALID', `the header ${name} is repeated`, { place: name });
    }
    seen.add(name);
  }
}

const LOOPBACK = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])(:\d+)?$/i;

/**
 * Refuses other host names while the service listens on loopback, unless a web page of that name is
 * allowed. Otherwise a stranger could point a name at 127.0.0.1 and make a browser send requests
 * (DNS rebinding).
 */
export function checkHost(
  { request }: Exchange,
  listenHost: string,
  allowedOrigins: readonly string[],
): void {
  const { host } = request.headers;
  if (host === undefined || LOOPBACK.test(host)) return;
  if (!LOOPBACK.test(listenHost) && listenHost !== '::1') return;
  if (allowedOrigins.some((origin) => origin === '*' || origin.endsWith(`//${host}`))) return;
  throw new DuctileError('HOST_UNKNOWN', 'the host name in the Host header is not allowed', {
    place: 'host',
  });
}

const METHODS = 'GET, HEAD, POST, PATCH, DELETE';
const HEADERS = [
  'accept',
  'authorization',
  'content-type',
  'idempotency-key',
  'last-event-id',
  'mcp-method',
  'mcp-name',
  'mcp-protocol-version',
  'x-request-id',
].join(', ');
const EXPOSED = 'idempotency-replayed, location, retry-after, x-request-id';
const AGE_SECONDS = '300';

/**
 * Lets web pages of listed origins read responses. Answers a preflight and returns true; refuses
 * one from other origins. Other requests get no CORS header, so the browser hides the response.
 */
export function answerCors(exchange: Exchange, allowed: readonly string[]): boolean {
  const { request, extra } = exchange;
  const { origin } = request.headers;
  if (origin === undefined) return false;
  const isPreflight =
    request.method === 'OPTIONS' && request.headers['access-control-request-method'] !== undefined;
  if (!allowed.includes(origin) && !allowed.includes('*')) {
    if (isPreflight) {
      throw new DuctileError('FORBIDDEN', 'requests from this origin are not allowed', {
        hint: 'Add the origin to `api.allowed_origins`.',
      });
    }
    return false;
  }
  extra.push('access-control-allow-origin', origin, 'vary', 'origin');
  extra.push('access-control-expose-headers', EXPOSED);
  if (!isPreflight) return false;
  extra.push('access-control-allow-methods', METHODS, 'access-control-allow-headers', HEADERS);
  extra.push('access-control-max-age', AGE_SECONDS);
  exchange.respondEmpty(204);
  return true;
}
