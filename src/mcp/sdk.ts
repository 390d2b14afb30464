import { setImmediate as nextTurn } from 'node:timers/promises';
import {
  createMcpHandler,
  isJSONRPCNotification,
  isJSONRPCRequest,
  PROTOCOL_VERSION_META_KEY,
  Server,
  SUPPORTED_PROTOCOL_VERSIONS,
  type JSONRPCMessage,
  type JSONRPCNotification,
  type JSONRPCRequest,
  type Transport,
  parseJSONRPCMessage,
  STDIO_DEFAULT_MAX_BUFFER_SIZE,
} from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import type { ToolServer } from './tool-server.ts';
import type { Readable, Writable } from 'node:stream';
import { parseJson } from '../base/parse-json.ts';

/**
 * The MCP protocol, with the official packages. They are large, so this file is loaded with the
 * first request of an agent.
 */

/** Name, version and instructions that a client reads when it connects. */
export interface ServerDescription {
  readonly name: string;
  readonly version: string;
  readonly instructions: string;
}

export interface McpResponse {
  readonly status: number;
  readonly type: string | undefined;
  readonly text: string;
}

/** Creates the server of a request, because the handler sees only the request. */
const servers = new WeakMap<Request, () => Server>();

/** No subscriptions: clients poll, so no request stays open. */
const handler = createMcpHandler(({ requestInfo }) => serverOf(requestInfo), {
  legacy: 'reject',
  maxSubscriptions: 0,
});

/** Handles one posted message, without a session. */
export async function handlePost(
  description: ServerDescription,
  tools: ToolServer,
  { headers, message }: PostedMessage,
): Promise<McpResponse> {
  const make = (): Server => makeServer(description, tools);
  if (isEarlier(headers, message)) return handleEarlier(make(), message);
  // The URL doesn't matter here: the caller and the path were checked before.
  const request = new Request('http://localhost/mcp', { method: 'POST', headers });
  servers.set(request, make);
  const response = await handler.fetch(request, { parsedBody: message });
  const type = response.headers.get('content-type') ?? undefined;
  return { status: response.status, type, text: await response.text() };
}

interface PostedMessage {
  readonly headers: Headers;
  readonly message: unknown;
}

/**
 * True for messages of the revisions before 2026-07-28, which most clients use. They need nothing
 * else of HTTP, and handling them without web requests and responses costs a third.
 */
function isEarlier(
  headers: Headers,
  message: unknown,
): message is JSONRPCRequest | JSONRPCNotification {
  const version = headers.get(VERSION_HEADER);
  if (version !== null && !(EARLIER.has(version) && version < FIRST_LATER)) return false;
  if (!isJSONRPCRequest(message) && !isJSONRPCNotification(message)) return false;
  const { _meta: about } = message.params ?? {};
  return about?.[PROTOCOL_VERSION_META_KEY] === undefined;
}

const VERSION_HEADER = 'mcp-protocol-version';
const FIRST_LATER = '2026-07-28';
const EARLIER: ReadonlySet<string> = new Set(SUPPORTED_PROTOCOL_VERSIONS);

async function handleEarlier(
  server: Server,
  message: JSONRPCRequest | JSONRPCNotification,
): Promise<McpResponse> {
  const response = Promise.withResolvers<JSONRPCMessage>();
  const transport: Transport = {
    start: () => Promise.resolve(),
    close: () => Promise.resolve(),
    send(sent) {
      // A notification can't be sent: there is only one response.
      if (!isJSONRPCNotification(sent)) response.resolve(sent);
      return Promise.resolve();
    },
  };
  await server.connect(transport);
  transport.onmessage?.(message);
  if (!('id' in message)) return { status: 202, type: undefined, text: '' };
  return { status: 200, type: 'application/json', text: JSON.stringify(await response.promise) };
}

/** Serves an agent over standard input and output, until it leaves or is interrupted. */
export async function serveStdioAgent(
  description: ServerDescription,
  tools: ToolServer,
  interruption: AbortSignal,
): Promise<void> {
  const { tracked, settled } = trackCalls(tools);
  const transport = makeStdioTransport(process.stdin, process.stdout);
  const handle = serveStdio(() => makeServer(description, tracked), { transport });
  await new Promise<void>((resolve) => {
    process.stdin.once('end', resolve);
    process.stdin.once('close', resolve);
    interruption.addEventListener('abort', () => resolve());
  });
  // A client that closed its input may still read results.
  if (!interruption.aborted) await settled();
  await handle.close();
}

/** Wraps a tool server to know when all calls have ended. */
function trackCalls(tools: ToolServer): {
  readonly tracked: ToolServer;
  readonly settled: () => Promise<void>;
} {
  const pending = new Set<Promise<unknown>>();
  const track = <T>(call: Promise<T>): Promise<T> => {
    const tracked = call.finally(() => pending.delete(tracked));
    pending.add(tracked);
    return tracked;
  };
  return {
    tracked: {
      ...tools,
      list: () => track(tools.list()),
      call: (name, given) => track(tools.call(name, given)),
    },
    async settled() {
      // The last message is handled in a later turn of the event loop, and so is its result.
      do {
        await nextTurn();
        await Promise.allSettled(pending);
        await nextTurn();
      } while (pending.size > 0);
    },
  };
}

function serverOf(request: Request | undefined): Server {
  const make = request === undefined ? undefined : servers.get(request);
  if (make === undefined) throw new Error('a request without a server');
  return make();
}

function makeServer({ name, version, instructions }: ServerDescription, tools: ToolServer): Server {
  const server = new Server({ name, version }, { capabilities: { tools: {} }, instructions });
  server.setRequestHandler('tools/list', async () => ({ tools: [...(await tools.list())] }));
  server.setRequestHandler('tools/call', async ({ params }) => {
    const { content, ...rest } = await tools.call(params.name, params.arguments);
    return { ...rest, content: [...content] };
  });
  return server;
}

const LINE_END = 0x0a;

/**
 * Creates a transport for messages as lines, like that of the official package, with two differences. It
 * keeps numbers exactly. The end of the input ends nothing, because requests in progress still get their
 * responses.
 */
function makeStdioTransport(input: Readable, output: Writable): Transport {
  let chunks: Buffer[] = [];
  let size = 0;
  const transport: Transport = {
    start() {
      input.on('data', receive);
      output.on('error', fail);
      return Promise.resolve();
    },
    send(message) {
      return new Promise((resolve, reject) => {
        output.write(`${JSON.stringify(message)}\n`, (error) => {
          if (error instanceof Error) reject(error);
          else resolve();
        });
      });
    },
    close() {
      input.off('data', receive);
      input.pause();
      transport.onclose?.();
      return Promise.resolve();
    },
  };
  const fail = (error: Error): void => {
    transport.onerror?.(error);
    void transport.close();
  };
  const receive = (chunk: Buffer): void => {
    let rest = chunk;
    for (let end = rest.indexOf(LINE_END); end !== -1; end = rest.indexOf(LINE_END)) {
      const line = Buffer.concat([...chunks, rest.subarray(0, end)]).toString();
      chunks = [];
      size = 0;
      rest = rest.subarray(end + 1);
      deliver(line);
    }
    chunks.push(rest);
    size += rest.length;
    if (size > STDIO_DEFAULT_MAX_BUFFER_SIZE) {
      fail(new Error(`a message is longer than ${STDIO_DEFAULT_MAX_BUFFER_SIZE} bytes`));
    }
  };
  const deliver = (line: string): void => {
    let message: JSONRPCMessage;
    try {
      message = parseJSONRPCMessage(parseJson(line));
    } catch (thrown) {
      // Some programs print other lines to the same pipe.
      if (!(thrown instanceof SyntaxError)) transport.onerror?.(thrown as Error);
      return;
    }
    transport.onmessage?.(message);
  };
  return transport;
}
