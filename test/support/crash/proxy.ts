/** A proxy for a database connection that can be cut, held and slowed down. */
import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { onTestFinished } from 'vitest';
import type { JsonObject } from '../../../src/base/json.ts';
import type { TestPlace } from '../instance.ts';

/** Direction to the database, or from it. */
export type Direction = 'requests' | 'answers';

export interface Proxy {
  readonly port: number;
  /** Closes all connections and refuses new ones. */
  cut(): Promise<void>;
  restore(): Promise<void>;
  /** Holds data of these directions, like a network that retransmits until it arrives. */
  hold(...directions: readonly Direction[]): void;
  /** Delivers held data. */
  release(): void;
  /** Delays all data in both directions. */
  slow(ms: number): void;
}

/** Starts a proxy for all services that are started from now on. */
export async function startDatabaseProxy(place: TestPlace): Promise<Proxy> {
  return (await makeWay(place, 'config.yaml')).proxy;
}

/** Creates a configuration for a host that connects through its own proxy. */
export async function makeWay(
  { directory, config }: TestPlace,
  name: string,
  address = '127.0.0.1',
): Promise<{ readonly proxy: Proxy; readonly config: string }> {
  if (config.state.kind !== 'postgres') throw new Error('there is nothing to stand between');
  const { url: text, schema } = config.state;
  const url = new URL(text);
  const proxy = await startProxy({ host: url.hostname, port: Number(url.port) }, address);
  url.hostname = address;
  url.port = String(proxy.port);
  const written = JSON.parse(await readFile(join(directory, 'config.yaml'), 'utf8')) as JsonObject;
  const file = join(directory, name);
  const state = { ...(written['state'] as JsonObject), url: url.href, schema };
  await writeFile(file, JSON.stringify({ ...written, state }));
  return { proxy, config: file };
}

async function startProxy(target: { host: string; port: number }, address: string): Promise<Proxy> {
  const sockets = new Set<Socket>();
  const gates = { requests: makeGate(), answers: makeGate() };
  const server = createServer((near) => {
    const far = connect(target);
    for (const [from, to, gate] of [
      [near, far, gates.requests],
      [far, near, gates.answers],
    ] as const) {
      sockets.add(from);
      from.on('error', () => to.destroy());
      from.on('close', () => {
        sockets.delete(from);
        // The end of the connection is forwarded like data.
        void gate.pass().then(() => to.destroy());
      });
      forward(from, to, gate);
    }
  });
  const listen = async (port: number): Promise<void> => {
    server.listen(port, address);
    await once(server, 'listening');
  };
  const release = (): void => Object.values(gates).forEach((gate) => gate.open());
  const cut = async (): Promise<void> => {
    for (const socket of sockets) socket.destroy();
    release();
    if (!server.listening) return;
    await new Promise((done) => server.close(done));
  };
  await listen(0);
  onTestFinished(cut);
  const { port } = server.address() as AddressInfo;
  return {
    port,
    cut,
    restore: () => listen(port),
    hold: (...directions) => directions.forEach((direction) => gates[direction].shut()),
    release,
    slow: (ms) => Object.values(gates).forEach((gate) => (gate.delayMs = ms)),
  };
}

interface Gate {
  delayMs: number;
  shut(): void;
  open(): void;
  /** Resolves when data may pass. */
  pass(): Promise<void>;
}

function makeGate(): Gate {
  let opened = Promise.withResolvers<void>();
  opened.resolve();
  return {
    delayMs: 0,
    shut() {
      opened.resolve();
      opened = Promise.withResolvers<void>();
    },
    open: () => opened.resolve(),
    async pass() {
      if (this.delayMs > 0) await sleep(this.delayMs);
      await opened.promise;
    },
  };
}

/** Forwards chunk by chunk, so that held data stays in order. */
function forward(from: Socket, to: Socket, gate: Gate): void {
  from.on('data', (piece) => {
    from.pause();
    void gate.pass().then(() => {
      if (!to.destroyed) to.write(piece);
      from.resume();
    });
  });
  from.on('end', () => void gate.pass().then(() => to.end()));
}
