import type { Log } from '../base/log.ts';
import type { Context } from '../operation/context.ts';
import { operations } from '../operation/all.ts';
import { makeApi, type ApiOptions } from './api.ts';
import { controlGate, tokenGate, type Gate } from './authenticate.ts';
import { makeHookListener, makeHookServer } from './webhook-listener.ts';
import { listen } from './listen.ts';
import type { Listener } from './listen.ts';
import type { McpServer } from './mcp-endpoint.ts';
import {
  clearSocket,
  removeControlKey,
  socketPath,
  writeControlKey,
  writeSocketConfig,
} from './control-socket.ts';
import type { SocketOwner } from './control-socket.ts';
import { makeStreams } from './event-stream.ts';
import { makeUi } from './dashboard.ts';

/** Everybody but the owner is shut out. */
const SOCKET_UMASK = 0o177;

/** All operations on a Unix socket that only the local operator can open. */
export async function listenControl(
  owner: SocketOwner,
  context: Context,
  log: Log,
  mcp?: McpServer,
): Promise<Listener> {
  const path = socketPath(owner);
  await clearSocket(path, owner);
  writeSocketConfig(path, owner, context.engine.config.file);
  const rules = { key: writeControlKey(path, owner), owner: context.principal };
  // The socket is made before the call returns, so it has no wider rights for even a moment.
  const before = process.umask(SOCKET_UMASK);
  const listening = open(context, controlGate(context, rules), { path }, log, { mcp });
  process.umask(before);
  const listener = await listening;
  return {
    address: listener.address,
    async close() {
      await listener.close();
      removeControlKey(path, owner);
    },
  };
}

export interface ApiAddress {
  readonly host: string;
  readonly port: number;
}

export interface ApiPlace extends ApiAddress {
  /** The directory with the files of the dashboard, where there is to be one. */
  readonly ui?: string;
  readonly mcp?: McpServer;
}

/** The API for whoever has a token, on the address of the configuration. */
export function listenApi(
  { host, port, ui, mcp }: ApiPlace,
  engine: Context['engine'],
  log: Log,
): Promise<Listener> {
  const base = { engine, submittedBy: 'api' } as const;
  const beside = {
    hooks: makeHookServer(base),
    ui: ui === undefined ? undefined : makeUi(ui),
    mcp,
  };
  return open(base, tokenGate(base, host), { host, port }, log, beside);
}

/** The listener of webhooks, for whoever can prove that they may deliver. */
export function listenHooks(
  { host, port }: ApiAddress,
  engine: Context['engine'],
  log: Log,
): Promise<Listener> {
  return listen(makeHookListener({ engine }, log), { host, port });
}

async function open(
  { engine, submittedBy }: Pick<Context, 'engine' | 'submittedBy'>,
  gate: Gate,
  place: Parameters<typeof listen>[1],
  log: Log,
  beside: Pick<ApiOptions, 'hooks' | 'ui' | 'mcp'> = {},
): Promise<Listener> {
  const streams = makeStreams();
  const base = { engine, submittedBy };
  const api = makeApi({ base, operations, gate, streams, log, ...beside });
  const listener = await listen(api, place);
  return {
    address: listener.address,
    async close() {
      streams.close();
      await listener.close();
    },
  };
}
