/** Clients that are slow, many, or never finish. */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { afterEach, describe, expect, test } from 'vitest';
import type { ApiHandler } from '../../src/http/api.ts';
import { listen, type HttpListener, type ConnectionLimits } from '../../src/http/listen.ts';
import { eventually } from '../support/instance.ts';

const patience: ConnectionLimits = {
  headersMs: 60,
  requestMs: 120,
  stallMs: 120,
  checkMs: 10,
  connections: 20,
};

let listener: HttpListener | undefined;
const sockets: Socket[] = [];

afterEach(async () => {
  for (const socket of sockets.splice(0)) socket.destroy();
  await listener?.close();
});

async function serve(handler: ApiHandler, change: Partial<ConnectionLimits> = {}): Promise<number> {
  listener = await listen(handler, { host: '127.0.0.1', port: 0 }, { ...patience, ...change });
  return Number(listener.address.split(':')[1]);
}

interface Client {
  readonly socket: Socket;
  readonly said: () => string;
  readonly closed: Promise<unknown>;
}

async function open(port: number, first = ''): Promise<Client> {
  const socket = connect(port, '127.0.0.1');
  sockets.push(socket);
  let text = '';
  socket.setEncoding('utf8').on('data', (chunk: string) => (text += chunk));
  socket.on('error', () => undefined);
  const closed = once(socket, 'close');
  await once(socket, 'connect');
  socket.write(first);
  return { socket, said: () => text, closed };
}

const answers: ApiHandler = (_request, response) => response.end('{}\n');
const get = 'GET / HTTP/1.1\r\nhost: localhost\r\n';

describe('a client', () => {
  test('that never ends its headers gets 408 and is cut off', async () => {
    const { said, closed } = await open(await serve(answers), get);
    await closed;
    expect(said()).toMatch(/^HTTP\/1\.1 408 [^]*REQUEST_TIMEOUT/);
  });

  test('that never ends its body gets 408 and is cut off', async () => {
    const reads: ApiHandler = (request, response) =>
      void request.resume().once('end', () => response.end('{}\n'));
    const post = 'POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 10\r\n\r\n{';
    const { said, closed } = await open(await serve(reads), post);
    await closed;
    expect(said()).toMatch(/^HTTP\/1\.1 408 /);
  });

  test('that takes nothing of its answer is cut off', async () => {
    const large = Buffer.alloc(64 * 1024 * 1024);
    let gone = false;
    const port = await serve((_request, response) => {
      response.once('close', () => (gone = true));
      response.end(large);
    });
    const { socket } = await open(port);
    socket.pause();
    socket.write(`${get}\r\n`);
    expect(await eventually('it is cut off', () => gone)).toBe(true);
  });

  test('that waits for us is not', async () => {
    let answer: (() => void) | undefined;
    const port = await serve((_request, response) => (answer = () => response.end('{}\n')), {
      stallMs: 20,
    });
    const { said } = await open(port, `${get}\r\n`);
    await eventually('it asked', () => answer !== undefined);
    const began = performance.now();
    await eventually('longer than a reader may stall', () => performance.now() - began > 100);
    answer?.();
    await eventually('it is answered', () => said().startsWith('HTTP/1.1 200'));
  });
});

test('connections that are idle make room for those that are not', async () => {
  const port = await serve(answers);
  const idle: Client[] = [];
  for (let count = 0; count < patience.connections - 2; count += 1) {
    const client = await open(port, `${get}\r\n`);
    await eventually('it is answered', () => client.said() !== '');
    idle.push(client);
  }
  for (let count = 0; count < 5; count += 1) {
    const client = await open(port, `${get}\r\n`);
    await eventually('it is answered', () => client.said().startsWith('HTTP/1.1 200'));
  }
  await eventually('some idle ones are gone', () => idle.some(({ socket }) => socket.destroyed));
});
