import type { Log } from '../base/log.ts';
import type { Context } from '../operations/context.ts';
import { operations } from '../operations/index.ts';
import { systemHealth } from '../operations/system.ts';
import { makeApi } from './api.ts';
import { listen } from './listen.ts';
import type { Listener } from './listen.ts';
import { clearSocket, socketPath } from './socket.ts';
import type { SocketOwner } from './socket.ts';

/** Everybody but the owner is shut out. */
const SOCKET_UMASK = 0o177;

/** All operations on a Unix socket that only the local operator can open. */
export async function listenControl(
  owner: SocketOwner,
  context: Context,
  log: Log,
): Promise<Listener> {
  const path = socketPath(owner);
  await clearSocket(path, owner);
  const api = makeApi({ context, operations, log });
  // The socket is made before the call returns, so it has no wider rights for even a moment.
  const before = process.umask(SOCKET_UMASK);
  const listening = listen(api, { path });
  process.umask(before);
  return listening;
}

/** The health check alone, for monitors, on the API's address. */
export function listenHealth(
  place: { readonly host: string; readonly port: number },
  context: Context,
  log: Log,
): Promise<Listener> {
  const { host, port } = place;
  return listen(makeApi({ context, operations: [systemHealth], log }), { host, port });
}
