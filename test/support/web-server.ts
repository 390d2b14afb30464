import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { createServer as createTcpServer, type AddressInfo, type Socket } from 'node:net';
import { atEnd } from './at-end.ts';

export interface ReceivedRequest {
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingMessage['headers'];
  readonly body: string;
}

export interface WebServer {
  readonly port: number;
  readonly url: string;
  /** Received requests, in order; a test may empty it. */
  readonly received: ReceivedRequest[];
}

type RequestHandler = (request: ReceivedRequest, response: ServerResponse) => void;

/** Starts a web server for the tests of one file. */
export async function startWebServer(handle: RequestHandler): Promise<WebServer> {
  const received: ReceivedRequest[] = [];
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const { method = '', url: path = '', headers } = request;
      const full = { method, path, headers, body: Buffer.concat(chunks).toString() };
      received.push(full);
      handle(full, response);
    });
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  atEnd(async () => {
    server.closeAllConnections();
    await new Promise((done) => server.close(done));
  });
  const { port } = server.address() as AddressInfo;
  return { port, url: `http://127.0.0.1:${port}`, received };
}

/** Starts a server that returns the same bytes for every request, and closes the connection or leaves it open. */
export async function startRawServer(
  text: string,
  isLeftOpen: boolean,
): Promise<Pick<WebServer, 'port' | 'url'>> {
  const sockets = new Set<Socket>();
  const server = createTcpServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => socket.destroy());
    socket.on('close', () => sockets.delete(socket));
    socket.once('data', () => {
      if (isLeftOpen) socket.write(text);
      else socket.end(text);
    });
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  atEnd(async () => {
    for (const socket of sockets) socket.destroy();
    await new Promise((done) => server.close(done));
  });
  const { port } = server.address() as AddressInfo;
  return { port, url: `http://127.0.0.1:${port}` };
}
