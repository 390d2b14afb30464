import { once } from 'node:events';
import { createServer, STATUS_CODES, type Server } from 'node:http';
import type { ListenOptions, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { DuctileError, messageOf, type ErrorCode } from '../base/errors.ts';
import { makeId } from '../base/ids.ts';
import { limits } from '../base/limits.ts';
import type { ApiHandler } from './api.ts';
import { Exchange, PROBLEM_TYPE, toProblem } from './exchange.ts';

export interface HttpListener {
  /** A socket path, or `host:port`. */
  readonly address: string;
  /**
   * Accepts no more requests. Requests in progress get a moment, then their connections are closed.
   */
  close(): Promise<void>;
}

/** How long a client may take, and how many connections there may be. */
export interface ConnectionLimits {
  readonly headersMs: number;
  readonly requestMs: number;
  readonly stallMs: number;
  /** Interval of the check for slow clients. */
  readonly checkMs: number;
  readonly connections: number;
}

const defaultLimits: ConnectionLimits = {
  headersMs: limits.httpHeadersMs,
  requestMs: limits.httpRequestMs,
  stallMs: limits.httpStallMs,
  checkMs: limits.httpCheckMs,
  connections: limits.httpConnectionsMax,
};

export async function listen(
  handler: ApiHandler,
  options: ListenOptions,
  clientLimits: ConnectionLimits = defaultLimits,
): Promise<HttpListener> {
  const server = makeServer(handler, clientLimits);
  try {
    server.listen(options);
    await once(server, 'listening');
  } catch (thrown) {
    const name = options.path ?? `${options.host}:${options.port}`;
    throw new DuctileError('LISTEN_FAILED', `cannot listen: ${messageOf(thrown)}`, {
      place: name,
      cause: thrown,
    });
  }
  return { address: nameAddress(server), close: () => close(server) };
}

/** Share of all connections at which idle ones are closed. */
const IDLE_CLOSING_SHARE = 0.9;

function makeServer(handler: ApiHandler, clientLimits: ConnectionLimits): Server {
  const server = createServer(
    {
      maxHeaderSize: limits.httpHeaderBytesMax,
      headersTimeout: clientLimits.headersMs,
      requestTimeout: clientLimits.requestMs,
      keepAliveTimeout: limits.httpKeepAliveMs,
      connectionsCheckingInterval: clientLimits.checkMs,
      // We refuse requests without a host ourselves, in the same form as all errors.
      requireHostHeader: false,
      noDelay: true,
    },
    handler,
  );
  server.maxRequestsPerSocket = limits.httpRequestsPerConnectionMax;
  server.maxConnections = clientLimits.connections;
  let connections = 0;
  // Runs before the server's own listener, so that the new connection isn't among the idle.
  server.prependListener('connection', (socket) => {
    connections += 1;
    socket.once('close', () => (connections -= 1));
    if (connections > IDLE_CLOSING_SHARE * clientLimits.connections) server.closeIdleConnections();
  });
  server.setTimeout(clientLimits.stallMs);
  server.on('timeout', dropStalled);
  server.on('clientError', answerBroken);
  server.on('checkExpectation', (request, response) => {
    const message = 'the Expect header is not supported';
    new Exchange(request, response).refuse(new DuctileError('EXPECTATION_FAILED', message));
  });
  server.on('connect', (_request, socket) =>
    writeProblem(socket, 'METHOD_NOT_ALLOWED', 'CONNECT is not allowed here'),
  );
  return server;
}

/** Drops a client that doesn't read its response; a client that waits for us is left alone. */
function dropStalled(socket: Socket): void {
  if (socket.writableLength > 0) socket.destroy();
}

const broken: Readonly<Record<string, readonly [ErrorCode, string]>> = {
  HPE_HEADER_OVERFLOW: [
    'HEADERS_TOO_LARGE',
    `the request line and headers are larger than ${limits.httpHeaderBytesMax} bytes`,
  ],
  HPE_CHUNK_EXTENSIONS_OVERFLOW: ['PAYLOAD_TOO_LARGE', 'the chunk extensions are too large'],
  ERR_HTTP_REQUEST_TIMEOUT: ['REQUEST_TIMEOUT', 'the request did not arrive in time'],
};

/** Marks a response after which only the refusal of a broken request follows. */
const LAST = Symbol('last');

/**
 * Answers bytes that aren't a request. The start of the next request is unknown, so the connection
 * ends. Earlier requests are answered first, or the client would take this for their response.
 */
function answerBroken(error: NodeJS.ErrnoException, socket: Duplex): void {
  const [code, message] = broken[error.code ?? ''] ?? [
    'REQUEST_INVALID' as const,
    'this is not a well-formed HTTP/1.1 request',
  ];
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy();
    return;
  }
  const exchange = Exchange.findLatest(socket);
  if (exchange === undefined) {
    writeProblem(socket, code, message);
    return;
  }
  const { request, response } = exchange;
  if (!request.complete) {
    // The body is broken. If the response was already sent, there is nothing to add.
    if (response.headersSent) socket.destroy();
    else exchange.refuse(new DuctileError(code, message));
  } else if (response.writableFinished) writeProblem(socket, code, message);
  else if (response.headersSent && !response.writableEnded) socket.destroy();
  // Only the first fault is reported; the parser may report more while the response is pending.
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
  const cutoff = sleep(limits.httpCloseMs, undefined, { signal: controller.signal }).then(
    () => server.closeAllConnections(),
    () => undefined,
  );
  await closed;
  controller.abort();
  await cutoff;
}

function nameAddress(server: Server): string {
  const address = server.address();
  if (address === null || typeof address === 'string') return address ?? '';
  return address.family === 'IPv6'
    ? `[${address.address}]:${address.port}`
    : `${address.address}:${address.port}`;
}
