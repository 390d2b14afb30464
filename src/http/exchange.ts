import { type IncomingMessage, type ServerResponse, STATUS_CODES } from 'node:http';
import type { DuctileError } from '../base/errors.ts';
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
  const message = error.code === 'INTERNAL' ? 'something went wrong inside' : error.message;
  const problem = {
    type: `urn:ductile:error:${error.code}`,
    title: STATUS_CODES[status] ?? 'Error',
    status,
    detail: message,
    ...error.toJSON(),
    error: message,
    request_id: requestId,
  };
  return `${JSON.stringify(problem)}\n`;
}
