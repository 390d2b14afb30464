/** A way to a database that can be cut while somebody uses it. */
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import type { JsonObject } from '../../../src/base/json.ts';
import type { TestPlace } from '../../support/instance.ts';
import { writeConfig } from '../../support/plugin-tree.ts';

export interface Proxy {
  readonly port: number;
  /** Breaks what is connected and refuses whoever comes. */
  cut(): Promise<void>;
  restore(): Promise<void>;
}

/** Servers of this place that are started from now on reach their database only through here. */
export async function putBetween({ directory, config }: TestPlace): Promise<Proxy> {
  if (config.state.kind !== 'postgres') throw new Error('there is nothing to stand between');
  const { url: text, schema } = config.state;
  const url = new URL(text);
  const proxy = await startProxy({ host: url.hostname, port: Number(url.port) });
  url.port = String(proxy.port);
  const file = join(directory, 'config.yaml');
  const written = JSON.parse(await readFile(file, 'utf8')) as JsonObject;
  await writeConfig(directory, JSON.stringify({ ...written, state: { url: url.href, schema } }));
  return proxy;
}

async function startProxy(target: { host: string; port: number }): Promise<Proxy> {
  const sockets = new Set<Socket>();
  const server = createServer((near) => {
    const far = connect(target);
    for (const [socket, other] of [
      [near, far],
      [far, near],
    ] as const) {
      sockets.add(socket);
      socket.on('error', () => other.destroy());
      socket.on('close', () => {
        sockets.delete(socket);
        other.destroy();
      });
      socket.pipe(other);
    }
  });
  const listen = async (port: number): Promise<void> => {
    server.listen(port, '127.0.0.1');
    await once(server, 'listening');
  };
  const cut = async (): Promise<void> => {
    if (!server.listening) return;
    const closed = new Promise((done) => server.close(done));
    for (const socket of sockets) socket.destroy();
    await closed;
  };
  await listen(0);
  onTestFinished(cut);
  const { port } = server.address() as AddressInfo;
  return { port, cut, restore: () => listen(port) };
}
