import { once } from 'node:events';
import type { Server } from 'node:http';
import type { ListenOptions } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { createAdaptorServer } from '@hono/node-server';
import type { Hono } from 'hono';
import { DuctileError, messageOf } from '../base/errors.ts';
import { limits } from '../base/limits.ts';

export interface Listener {
  /** Where it listens: a path, or `host:port`. */
  readonly address: string;
  /** Takes no more requests; those under way get a moment, then their connections are cut. */
  close(): Promise<void>;
}

export async function listen(api: Hono, place: ListenOptions): Promise<Listener> {
  // Without TLS options the adaptor makes a plain HTTP server.
  const server = createAdaptorServer({ fetch: api.fetch }) as Server;
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
