import type { IncomingMessage, ServerResponse } from 'node:http';
import type { DuctileError } from '../base/errors.ts';
import { makeId } from '../base/ids.ts';
import { limits } from '../base/limits.ts';
import { PROBLEM_TYPE, toProblem } from './problem.ts';

/** Said with every answer: it is data, for whoever asked, and nothing in it is to be run or framed. */
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

/** One request and its answer. */
export class Exchange {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly requestId: string;
  /** Headers of this answer alone, name and value in turn. */
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

  /** The path without the query, which may hold what nobody should read in a log. */
  get path(): string {
    const at = this.url.indexOf('?');
    return at === -1 ? this.url : this.url.slice(0, at);
  }

  /** Says when whoever asked is gone. */
  hungUp(): AbortSignal {
    const gone = new AbortController();
    // With a reason of its own, for Node would make an error with its stack for every answer.
    if (this.response.destroyed) gone.abort(HUNG_UP);
    else this.response.once('close', () => gone.abort(HUNG_UP));
    return gone.signal;
  }

  answer(status: number, text: string, type = 'application/json'): void {
    const { response } = this;
    if (response.headersSent || response.destroyed) return;
    const size = String(Buffer.byteLength(text));
    this.begin(status, ['content-type', type, 'content-length', size]);
    response.end(text);
  }

  /** An answer without a body. */
  answerEmpty(status: number): void {
    if (this.response.headersSent || this.response.destroyed) return;
    this.begin(status, []);
    this.response.end();
  }

  refuse(error: DuctileError): void {
    if (error.code === 'UNAUTHORIZED')
      this.extra.push('www-authenticate', 'Bearer realm="ductile"');
    const { retryable, status } = error.kind;
    if (retryable && (status === 503 || status === 429)) this.extra.push('retry-after', '1');
    // What is left of a body that was too large, too slow or cut short is not worth reading.
    if (closing.has(error.code)) this.extra.push('connection', 'close');
    this.answer(status, toProblem(error, this.requestId), PROBLEM_TYPE);
  }

  /** `always`: what is said with every answer of this kind. */
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
