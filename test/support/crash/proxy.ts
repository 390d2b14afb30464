/** A way to a database that can be cut, held up and made slow while somebody uses it. */
import { once } from 'node:events';
import { readFile, writeFile } from 'node:fs/promises';
import { connect, createServer, type AddressInfo, type Socket } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { onTestFinished } from 'vitest';
import type { JsonObject } from '../../../src/base/json.ts';
import type { TestPlace } from '../instance.ts';

/** The direction to the database, and the direction from it. */
export type Direction = 'requests' | 'answers';

export interface Proxy {
  readonly port: number;
  /** Breaks what is connected and refuses whoever comes. */
  cut(): Promise<void>;
  restore(): Promise<void>;
  /** Keeps what goes this way, as a network does that sends it again until it arrives. */
  hold(...directions: readonly Direction[]): void;
  /** Delayed data arrives now. */
  release(): void;
  /** Every piece takes so long, in both directions. */
  slow(ms: number): void;
}

/** Servers of this place that are started from now on reach their database only through here. */
export async function startDatabaseProxy(place: TestPlace): Promise<Proxy> {
  return (await makeWay(place, 'config.yaml')).proxy;
}

/** A configuration of its own for a host, which reaches the database of the place by its own way. */
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
        // The end of the connection is forwarded the same way.
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
  /** Resolves when something may go through. */
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

/** Piece by piece, so that what is held stays in its order. */
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
