import { once } from 'node:events';
import {
  createServer,
  STATUS_CODES,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from 'node:http';
import type { ListenOptions, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { DuctileError, messageOf, type ErrorCode } from '../base/errors.ts';
import { makeId } from '../base/ids.ts';
import { limits } from '../base/limits.ts';
import type { Handler } from './api.ts';
import { Exchange } from './exchange.ts';
import { PROBLEM_TYPE, toProblem } from './problem.ts';

export interface Listener {
  /** Where it listens: a path, or `host:port`. */
  readonly address: string;
  /** Takes no more requests; those under way get a moment, then their connections are cut. */
  close(): Promise<void>;
}

/** How long a client may take, and how many there may be at once. */
export interface Patience {
  readonly headersMs: number;
  readonly requestMs: number;
  readonly stallMs: number;
  /** How late a client that is too slow may be noticed. */
  readonly checkMs: number;
  readonly connections: number;
}

const usual: Patience = {
  headersMs: limits.httpHeadersMs,
  requestMs: limits.httpRequestMs,
  stallMs: limits.httpStallMs,
  checkMs: limits.httpCheckMs,
  connections: limits.httpConnectionsMax,
};

export async function listen(
  handler: Handler,
  place: ListenOptions,
  patience: Patience = usual,
): Promise<Listener> {
  const server = makeServer(handler, patience);
  try {
    server.listen(place);
    await once(server, 'listening');
  } catch (thrown) {
    const name = place.path ?? `${place.host}:${place.port}`;
    throw new DuctileError('LISTEN_FAILED', `cannot listen: ${messageOf(thrown)}`, {
      place: name,
      cause: thrown,
    });
  }
  return { address: nameAddress(server), close: () => close(server) };
}

/** The share of all connections from which on idle ones have to make room. */
const CROWDED = 0.9;

function makeServer(handler: Handler, patience: Patience): Server {
  const server = createServer(
    {
      maxHeaderSize: limits.httpHeaderBytesMax,
      headersTimeout: patience.headersMs,
      requestTimeout: patience.requestMs,
      keepAliveTimeout: limits.httpKeepAliveMs,
      connectionsCheckingInterval: patience.checkMs,
      // We answer those without a host ourselves, in the same form as everything else.
      requireHostHeader: false,
      noDelay: true,
    },
    handler,
  );
  server.maxRequestsPerSocket = limits.httpRequestsPerConnectionMax;
  server.maxConnections = patience.connections;
  let connections = 0;
  // Before the server knows of it, so that the new one is not among the idle.
  server.prependListener('connection', (socket) => {
    connections += 1;
    socket.once('close', () => (connections -= 1));
    if (connections > CROWDED * patience.connections) server.closeIdleConnections();
  });
  server.setTimeout(patience.stallMs);
  server.on('timeout', dropStalled);
  const latest: Latest = new WeakMap();
  server.prependListener('request', (request, response) => {
    latest.set(request.socket, { request, response });
  });
  server.on('clientError', (error, socket) => answerBroken(error, socket, latest));
  server.on('checkExpectation', (request, response) => {
    latest.set(request.socket, { request, response });
    const message = 'this expectation is not met';
    new Exchange(request, response).refuse(new DuctileError('EXPECTATION_FAILED', message));
  });
  server.on('connect', (_request, socket) =>
    writeProblem(socket, 'METHOD_NOT_ALLOWED', 'CONNECT is not possible here'),
  );
  return server;
}

/** A client that takes none of what is ready for it is gone; one that waits for us is not. */
function dropStalled(socket: Socket): void {
  if (socket.writableLength > 0) socket.destroy();
}

const broken: Readonly<Record<string, readonly [ErrorCode, string]>> = {
  HPE_HEADER_OVERFLOW: [
    'HEADERS_TOO_LARGE',
    `the request line and headers are larger than ${limits.httpHeaderBytesMax} bytes`,
  ],
  HPE_CHUNK_EXTENSIONS_OVERFLOW: ['PAYLOAD_TOO_LARGE', 'the chunk extensions are too large'],
  ERR_HTTP_REQUEST_TIMEOUT: ['REQUEST_TIMEOUT', 'the request did not come in time'],
};

/** An answer behind which only the refusal of what is broken comes. */
const LAST = Symbol('last');

/** By connection, the last request that began on it. */
type Latest = WeakMap<Duplex, { request: IncomingMessage; response: ServerResponse }>;

/**
 * What is not even a request. Where one ends and the next begins is unknown, so nothing follows; but
 * what was asked before it is answered first, or its client would take this for the answer.
 */
function answerBroken(error: NodeJS.ErrnoException, socket: Duplex, latest: Latest): void {
  const [code, message] = broken[error.code ?? ''] ?? [
    'REQUEST_INVALID' as const,
    'this is not a well-formed HTTP/1.1 request',
  ];
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy();
    return;
  }
  const { request, response } = latest.get(socket) ?? {};
  if (request === undefined || response === undefined) writeProblem(socket, code, message);
  else if (!request.complete) {
    // It is the body that is broken. One that was answered without it has had its answer.
    if (response.headersSent) socket.destroy();
    else new Exchange(request, response).refuse(new DuctileError(code, message));
  } else if (response.writableFinished) writeProblem(socket, code, message);
  else if (response.headersSent && !response.writableEnded) socket.destroy();
  // The first that was found to be broken is told; the parser may complain again while that waits.
  else if (response.listenerCount(LAST) === 0) {
    response.once(LAST, () => writeProblem(socket, code, message));
    response.once('finish', () => response.emit(LAST));
  }
}

function writeProblem(socket: Duplex, code: ErrorCode, message: string): void {
  const error = new DuctileError(code, message);
  const { status } = error.kind;
  const requestId = makeId();
  const body = toProblem(error, requestId);
  const head = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}`,
    `content-type: ${PROBLEM_TYPE}`,
    `content-length: ${Buffer.byteLength(body)}`,
    `x-request-id: ${requestId}`,
    'connection: close',
  ];
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`, () => socket.destroy());
}

async function close(server: Server): Promise<void> {
  const closed = once(server, 'close');
  server.close();
  server.closeIdleConnections();
  const controller = new AbortController();
  const patience = sleep(limits.httpCloseMs, undefined, { signal: controller.signal }).then(
    () => server.closeAllConnections(),
    () => undefined,
  );
  await closed;
  controller.abort();
  await patience;
}

function nameAddress(server: Server): string {
  const address = server.address();
  if (address === null || typeof address === 'string') return address ?? '';
  return address.family === 'IPv6'
    ? `[${address.address}]:${address.port}`
    : `${address.address}:${address.port}`;
}
