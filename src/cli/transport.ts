import http from 'node:http';
import type { IncomingMessage, RequestOptions } from 'node:http';
import https from 'node:https';
import { text } from 'node:stream/consumers';
import { DuctileError, messageOf } from '../base/errors.ts';
import { limits } from '../base/limits.ts';

/** The server that is asked: the one that runs here, or one elsewhere. */
export type ServerTarget = SocketTarget | RemoteTarget;

export interface ControlSocket {
  readonly socketPath: string;
  /** What shows that this is the operator and not something that runs for a tenant. */
  readonly key?: string | undefined;
  /** The configuration files that were asked for and that the process uses, if they differ. */
  readonly otherConfig?: { readonly asked: string; readonly used: string } | undefined;
}

export interface SocketTarget extends ControlSocket {
  /** Of who asks as its bearer instead of as the operator. */
  readonly token?: string | undefined;
}

export interface RemoteTarget {
  readonly url: URL;
  readonly token: string | undefined;
}

export interface ServerRequest {
  readonly method: string;
  /** With the query. */
  readonly path: string;
  readonly body?: string | undefined;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Sends one request; what comes back has a status, and a body that is still on its way. */
export async function send(
  target: ServerTarget,
  exchange: ServerRequest,
): Promise<IncomingMessage> {
  try {
    return await new Promise((resolve, reject) => {
      const asked = client(target).request(optionsOf(target, exchange));
      const patience = setTimeout(() => {
        asked.destroy(new Error(`no connection within ${limits.connectMs / 1000} seconds`));
      }, limits.connectMs);
      asked.once('socket', (socket) => {
        socket.once('connect', () => clearTimeout(patience));
      });
      asked.once('response', resolve);
      asked.once('error', reject);
      asked.once('close', () => clearTimeout(patience));
      asked.end(exchange.body);
    });
  } catch (thrown) {
    throw unreachable(target, thrown);
  }
}

/** The whole body as text. */
export async function readResponseText(
  target: ServerTarget,
  response: IncomingMessage,
): Promise<string> {
  return text(response).catch((thrown: unknown) => {
    throw unreachable(target, thrown);
  });
}

export function nameTarget(target: ServerTarget): string {
  return 'url' in target ? target.url.origin : target.socketPath;
}

/** An address as somebody wrote it. */
export function parseUrl(given: string): URL {
  const url = URL.parse(given.includes('://') ? given : `http://${given}`);
  if (url !== null && /^https?:$/.test(url.protocol) && url.username === '') return url;
  throw new DuctileError('INPUT_INVALID', `${given} is not the address of a server`, {
    place: 'url',
    hint: 'Write it like https://ductile.example:8443; the token goes into DUCTILE_TOKEN.',
  });
}

function client(target: ServerTarget): typeof http | typeof https {
  return 'url' in target && target.url.protocol === 'https:' ? https : http;
}

function optionsOf(
  target: ServerTarget,
  { method, path, body, headers = {} }: ServerRequest,
): RequestOptions {
  const usual = body === undefined ? {} : describeBody(body);
  const common = { method, agent: false as const };
  if (!('url' in target)) {
    const { socketPath, token, key } = target;
    const shown = token === undefined ? proof(key) : bearer(token);
    return { ...common, socketPath, path, headers: { ...usual, ...shown, ...headers } };
  }
  const { url, token } = target;
  return {
    ...common,
    hostname: url.hostname.replace(/^\[(.*)\]$/, '$1'),
    port: url.port,
    // A server may stand behind a path of a proxy.
    path: `${url.pathname.replace(/\/$/, '')}${path}`,
    headers: { ...usual, ...bearer(token), ...headers },
  };
}

/** Unless its length is said, the body of a DELETE or GET is no body to whoever reads it. */
function describeBody(body: string): Record<string, string> {
  return {
    'content-type': 'application/json',
    'content-length': String(Buffer.byteLength(body)),
  };
}

function bearer(token: string | undefined): Record<string, string> {
  return token === undefined ? {} : { authorization: `Bearer ${token}` };
}

function proof(key: string | undefined): Record<string, string> {
  return key === undefined ? {} : { authorization: `Control ${key}` };
}

function unreachable(target: ServerTarget, thrown: unknown): DuctileError {
  const hint =
    'url' in target
      ? 'Check the address, and that api.enabled is true in the configuration of that server.'
      : undefined;
  return new DuctileError('SERVER_UNREACHABLE', `the server did not answer: ${say(thrown)}`, {
    place: nameTarget(target),
    ...(hint === undefined ? {} : { hint }),
    cause: thrown,
  });
}

/** Several addresses that all failed come as one error without a message. */
function say(thrown: unknown): string {
  const [first] = thrown instanceof AggregateError ? (thrown.errors as unknown[]) : [];
  return messageOf(first ?? thrown);
}
