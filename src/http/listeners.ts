import type { Log } from '../base/log.ts';
import type { Context } from '../operation/context.ts';
import { operations } from '../operation/all.ts';
import { createApiHandler, type ApiOptions } from './api.ts';
import {
  createControlAuthenticator,
  createTokenAuthenticator,
  type Authenticator,
} from './authenticate.ts';
import { createWebhookListener, createWebhookHandler } from './webhook-listener.ts';
import { listen } from './listen.ts';
import type { HttpListener } from './listen.ts';
import type { McpHandler } from './mcp-endpoint.ts';
import {
  clearSocket,
  removeControlKey,
  socketPath,
  writeControlKey,
  writeSocketConfig,
} from './control-socket.ts';
import type { SocketOwner } from './control-socket.ts';
import { createEventStreams } from './event-stream.ts';
import { createSites, type SiteDirectories } from './sites.ts';

/** Only the owner may open the socket. */
const SOCKET_UMASK = 0o177;

interface ControlHandlers extends SiteDirectories {
  readonly mcp?: McpHandler;
}

/** Serves all operations on a Unix socket that only the local operator can open. */
export async function listenControl(
  owner: SocketOwner,
  context: Context,
  log: Log,
  { mcp, ...directories }: ControlHandlers = {},
): Promise<HttpListener> {
  const path = socketPath(owner);
  await clearSocket(path, owner);
  writeSocketConfig(path, owner, context.engine.config.file);
  const rules = { key: writeControlKey(path, owner), owner: context.principal };
  // The socket is created before `open` returns, so it never has wider permissions.
  const before = process.umask(SOCKET_UMASK);
  const listening = open(context, createControlAuthenticator(context, rules), { path }, log, {
    mcp,
    sites: createSites(directories),
  });
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

interface ApiAddress {
  readonly host: string;
  readonly port: number;
}

interface ApiListenRequest extends ApiAddress, SiteDirectories {
  readonly mcp?: McpHandler;
}

/** Serves the API with tokens, on the configured address. */
export function listenApi(
  { host, port, ui, docs, mcp }: ApiListenRequest,
  engine: Context['engine'],
  log: Log,
): Promise<HttpListener> {
  const base = { engine, submittedBy: 'api' } as const;
  const handlers = {
    webhooks: createWebhookHandler(base),
    sites: createSites({ ui, docs }),
    mcp,
  };
  return open(base, createTokenAuthenticator(base, host), { host, port }, log, handlers);
}

/** Serves webhook deliveries on the configured address. */
export function listenWebhooks(
  { host, port }: ApiAddress,
  engine: Context['engine'],
  log: Log,
): Promise<HttpListener> {
  return listen(createWebhookListener({ engine }, log), { host, port });
}

async function open(
  { engine, submittedBy }: Pick<Context, 'engine' | 'submittedBy'>,
  authenticator: Authenticator,
  address: Parameters<typeof listen>[1],
  log: Log,
  handlers: Pick<ApiOptions, 'webhooks' | 'sites' | 'mcp'> = {},
): Promise<HttpListener> {
  const streams = createEventStreams();
  const base = { engine, submittedBy };
  const api = createApiHandler({ base, operations, authenticator, streams, log, ...handlers });
  const listener = await listen(api, address);
  return {
    address: listener.address,
    async close() {
      streams.close();
      await listener.close();
    },
  };
}
