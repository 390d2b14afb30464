/** Many concurrent bodies that are never completed. */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { afterEach, expect, test } from 'vitest';
import { toDuctileError } from '../../src/base/errors.ts';
import type { ApiHandler } from '../../src/http/api.ts';
import { readBodyBytes, createBodyBudget } from '../../src/http/body.ts';
import { Exchange } from '../../src/http/exchange.ts';
import { listen, type HttpListener } from '../../src/http/listen.ts';
import { eventually } from '../support/instance.ts';

const BODY = 60_000;
const sockets: Socket[] = [];
let listener: HttpListener | undefined;
let arrived = 0;

afterEach(async () => {
  for (const socket of sockets.splice(0)) socket.destroy();
  await listener?.close();
});

/** The limit for all bodies together is 100,000 bytes, besides bodies of up to 1,000. */
async function serve(): Promise<number> {
  arrived = 0;
  const crowd = createBodyBudget(100_000, 1000);
  const handler: ApiHandler = (request, response) => {
    const exchange = new Exchange(request, response);
    request.on('data', (chunk: Buffer) => (arrived += chunk.length));
    readBodyBytes(request, 1_000_000, crowd).then(
      (read) => exchange.respond(200, `took ${Buffer.isBuffer(read) ? read.length : 'none'}`),
      (thrown: unknown) => exchange.refuse(toDuctileError(thrown)),
    );
  };
  listener = await listen(handler, { host: '127.0.0.1', port: 0 });
  return Number(listener.address.split(':')[1]);
}

interface Sender {
  readonly socket: Socket;
  readonly response: Promise<string>;
}

/** Announces a length and sends a part of it; the response is known when the connection ends. */
async function begin(port: number, sent: number, size = BODY): Promise<Sender> {
  const socket = connect(port, '127.0.0.1');
  sockets.push(socket);
  let response = '';
  socket.setEncoding('utf8').on('data', (chunk: string) => (response += chunk));
  socket.on('error', () => undefined);
  const closed = once(socket, 'close').then(() => response);
  await once(socket, 'connect');
  const before = arrived;
  const head = `POST / HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: ${size}\r\n\r\n`;
  socket.write(head + 'x'.repeat(sent));
  await eventually('it is here', () => arrived >= before + sent);
  return { socket, response: closed };
}

test('the slowest request is dropped, and the others are accepted', async () => {
  const port = await serve();
  const first = await begin(port, 50_000);
  const second = await begin(port, 40_000);
  const third = await begin(port, BODY);
  expect(await first.response).toMatch(/^HTTP\/1\.1 503 [^]*retry-after: 1[^]*"CROWDED"/i);
  expect(await third.response).toContain(`took ${BODY}`);
  second.socket.write('x'.repeat(20_000));
  expect(await second.response).toContain(`took ${BODY}`);
});

test('a small body is accepted while many large ones are in flight', async () => {
  const port = await serve();
  const small = await begin(port, 500, 1000);
  const slow = await begin(port, 50_000);
  await begin(port, 55_000);
  expect(await slow.response).toContain('CROWDED');
  small.socket.write('x'.repeat(500));
  expect(await small.response).toContain('took 1000');
});

test('an accepted or aborted request frees its room', async () => {
  const port = await serve();
  for (const _ of [1, 2, 3]) {
    const whole = await begin(port, BODY);
    expect(await whole.response).toContain(`took ${BODY}`);
    const gone = await begin(port, 50_000);
    gone.socket.destroy();
    await gone.response;
  }
  const sender = await begin(port, 50_000);
  const other = await begin(port, 39_000);
  sender.socket.write('x'.repeat(10_000));
  other.socket.end();
  expect(await sender.response).toContain(`took ${BODY}`);
});
