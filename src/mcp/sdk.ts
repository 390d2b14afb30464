/**
 * The protocol, by the official packages. They are large, so this is a file of its own that is loaded
 * with the first request of an agent.
 */
import { setImmediate as turn } from 'node:timers/promises';
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
} from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import type { Desk } from './tool-server.ts';
import { makeStdioTransport } from './stdio.ts';

/** What a client is told when it connects. */
export interface Greeting {
  readonly name: string;
  readonly version: string;
  readonly instructions: string;
}

export interface WebAnswer {
  readonly status: number;
  readonly type: string | undefined;
  readonly text: string;
}

/** Who answers a request, for the handler that sees the request alone. */
const servers = new WeakMap<Request, () => Server>();

/** Nobody is told of changes: who wants to know asks, so no request stays open. */
const handler = createMcpHandler(({ requestInfo }) => serverOf(requestInfo), {
  legacy: 'reject',
  maxSubscriptions: 0,
});

/** One message that came in a POST: each is answered by itself, and nothing is kept in between. */
export async function answerPost(
  greeting: Greeting,
  desk: Desk,
  { headers, message }: Posted,
): Promise<WebAnswer> {
  const make = (): Server => makeServer(greeting, desk);
  if (isEarlier(headers, message)) return answerEarlier(make(), message);
  // The address says nothing here: who asks, and for what, was looked at before.
  const request = new Request('http://localhost/mcp', { method: 'POST', headers });
  servers.set(request, make);
  const response = await handler.fetch(request, { parsedBody: message });
  const type = response.headers.get('content-type') ?? undefined;
  return { status: response.status, type, text: await response.text() };
}

export interface Posted {
  readonly headers: Headers;
  readonly message: unknown;
}

/**
 * Messages of the revisions before 2026-07-28, which every client speaks today. Of HTTP they need no
 * more than was looked at before, and without requests and responses of the web they cost a third.
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

async function answerEarlier(
  server: Server,
  message: JSONRPCRequest | JSONRPCNotification,
): Promise<WebAnswer> {
  let tell: (answer: JSONRPCMessage) => void = () => undefined;
  const answered = new Promise<JSONRPCMessage>((resolve) => (tell = resolve));
  const transport: Transport = {
    start: () => Promise.resolve(),
    close: () => Promise.resolve(),
    send(sent) {
      // Nothing but the answer can be told in the one response that there is.
      if (!isJSONRPCNotification(sent)) tell(sent);
      return Promise.resolve();
    },
  };
  await server.connect(transport);
  transport.onmessage?.(message);
  if (!('id' in message)) return { status: 202, type: undefined, text: '' };
  return { status: 200, type: 'application/json', text: JSON.stringify(await answered) };
}

/** Until whoever is at the other end leaves, or it is over. */
export async function answerStdio(
  greeting: Greeting,
  desk: Desk,
  over: AbortSignal,
): Promise<void> {
  const { watched, quiet } = watchDesk(desk);
  const transport = makeStdioTransport(process.stdin, process.stdout);
  const handle = serveStdio(() => makeServer(greeting, watched), { transport });
  await new Promise<void>((resolve) => {
    process.stdin.once('end', resolve);
    process.stdin.once('close', resolve);
    over.addEventListener('abort', () => resolve());
  });
  // Whoever asked, and then closed its end of the pipe, still reads the answers.
  if (!over.aborted) await quiet();
  await handle.close();
}

/** A desk, and when all that was asked at it is answered. */
function watchDesk(desk: Desk): { readonly watched: Desk; readonly quiet: () => Promise<void> } {
  const asked = new Set<Promise<unknown>>();
  const watch = <T>(answer: Promise<T>): Promise<T> => {
    const noted = answer.finally(() => asked.delete(noted));
    asked.add(noted);
    return noted;
  };
  return {
    watched: {
      ...desk,
      list: () => watch(desk.list()),
      call: (name, given) => watch(desk.call(name, given)),
    },
    async quiet() {
      // What came last is handed on in a turn of its own, and so is its answer.
      do {
        await turn();
        await Promise.allSettled(asked);
        await turn();
      } while (asked.size > 0);
    },
  };
}

function serverOf(request: Request | undefined): Server {
  const make = request === undefined ? undefined : servers.get(request);
  if (make === undefined) throw new Error('a request without anybody who answers it');
  return make();
}

function makeServer({ name, version, instructions }: Greeting, desk: Desk): Server {
  const server = new Server({ name, version }, { capabilities: { tools: {} }, instructions });
  server.setRequestHandler('tools/list', async () => ({ tools: [...(await desk.list())] }));
  server.setRequestHandler('tools/call', async ({ params }) => {
    const { content, ...rest } = await desk.call(params.name, params.arguments);
    return { ...rest, content: [...content] };
  });
  return server;
}
