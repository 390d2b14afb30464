/** Fetches a URL: every redirect is checked, uses the checked address, and is limited in size and time. */
import { request as requestHttp, type IncomingMessage, type RequestOptions } from 'node:http';
import { request as requestHttps } from 'node:https';
import type { LookupFunction } from 'node:net';
import { Failure, messageOf } from '../../sdk/typescript/ductile-plugin.ts';
import {
  mayGetHeaders,
  resolveChecked,
  type CheckedAddress,
  type Guard,
} from '../lib/network-guard.ts';

export interface FetchOptions {
  readonly method: 'GET' | 'HEAD';
  readonly guard: Guard;
  /** Sent only to hosts that the operator named, and never after a redirect to another origin. */
  readonly operatorHeaders: Readonly<Record<string, string>>;
  /** Sent only to the requested origin, not to a redirect target. */
  readonly ownHeaders: Readonly<Record<string, string>>;
  /** Decides whether a status's body is read. */
  readonly isAccepted: (status: number) => boolean;
  readonly bytesMax: number;
  readonly redirectsMax: number;
  readonly signal: AbortSignal;
}

export interface FetchResult {
  readonly url: URL;
  readonly status: number;
  readonly headers: IncomingMessage['headers'];
  readonly body: Buffer;
}

const REDIRECTS = new Set([301, 302, 303, 307, 308]);

export async function fetchChecked(start: URL, options: FetchOptions): Promise<FetchResult> {
  let url = start;
  for (let hop = 0; hop <= options.redirectsMax; hop += 1) {
    const addresses = await resolveChecked(url, options.guard, options.signal);
    const response = await ask(url, addresses, headersFor(url, start, options), options);
    const { statusCode: status = 0, headers } = response;
    const { location } = headers;
    if (!REDIRECTS.has(status) || location === undefined) {
      return { url, status, headers, body: await readBody(response, options) };
    }
    response.destroy();
    url = follow(url, location);
  }
  throw new Failure(`more than ${options.redirectsMax} redirects from ${start.host}`, false);
}

function follow(from: URL, location: string): URL {
  const to = URL.parse(location, from.href);
  if (to === null)
    throw new Failure(`${from.host} redirects to something that is no address`, false);
  if (from.protocol === 'https:' && to.protocol === 'http:') {
    throw new Failure(`${from.host} redirects from https to http, which is not followed`, false);
  }
  to.hash = '';
  return to;
}

export function headersFor(url: URL, start: URL, options: FetchOptions): Record<string, string> {
  const isStart = url.origin === start.origin;
  return {
    'user-agent': 'ductile',
    accept: '*/*',
    // A compressed response could become huge, so compression isn't requested.
    'accept-encoding': 'identity',
    ...(isStart && mayGetHeaders(url, options.guard) ? options.operatorHeaders : {}),
    ...(isStart ? options.ownHeaders : {}),
  };
}

function ask(
  url: URL,
  addresses: readonly CheckedAddress[],
  headers: Record<string, string>,
  { method, signal }: FetchOptions,
): Promise<IncomingMessage> {
  const options: RequestOptions = {
    method,
    headers,
    agent: false,
    signal,
    lookup: fixedLookup(addresses),
  };
  const send = url.protocol === 'https:' ? requestHttps : requestHttp;
  return new Promise((resolve, reject) => {
    send(url, options)
      .on('response', resolve)
      .on('error', (error) => reject(toFailure(url, error, signal)))
      .end();
  });
}

/** Returns the checked addresses for any name. */
function fixedLookup(addresses: readonly CheckedAddress[]): LookupFunction {
  return (_host, options, callback) => {
    if (options.all === true) {
      callback(null, [...addresses]);
      return;
    }
    const [first] = addresses;
    if (first === undefined) callback(new Error('no address'), '');
    else callback(null, first.address, first.family);
  };
}

async function readBody(
  response: IncomingMessage,
  { isAccepted, bytesMax, signal }: FetchOptions,
): Promise<Buffer> {
  if (!isAccepted(response.statusCode ?? 0)) {
    response.destroy();
    return Buffer.alloc(0);
  }
  const chunks: Buffer[] = [];
  let size = 0;
  try {
    for await (const chunk of response) {
      size += (chunk as Buffer).length;
      if (size > bytesMax) break;
      chunks.push(chunk as Buffer);
    }
  } catch (thrown) {
    throw toFailure(undefined, thrown, signal);
  }
  if (size > bytesMax) {
    throw new Failure(`the answer is larger than config.max_bytes (${bytesMax})`, false);
  }
  // Without a length, the end of the connection is the end of the body, even if we closed it.
  if (signal.aborted) throw toFailure(undefined, signal.reason, signal);
  if (!response.complete) throw new Failure('the answer ended before it was complete', true);
  return Buffer.concat(chunks);
}

function toFailure(url: URL | undefined, thrown: unknown, signal: AbortSignal): Failure {
  const subject = url === undefined ? 'the answer' : url.host;
  if (signal.aborted)
    return new Failure(`${subject} took longer than config.timeout_ms or the deadline`, true);
  return new Failure(`${subject} could not be fetched: ${messageOf(thrown)}`, true);
}
