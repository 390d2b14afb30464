import http from 'node:http';
import type { IncomingMessage, RequestOptions } from 'node:http';
import https from 'node:https';
import { text } from 'node:stream/consumers';
import { DuctileError, messageOf } from '../base/errors.ts';
import { limits } from '../base/limits.ts';

/** Service to call: the one that runs here, or a remote one. */
export type ServerTarget = SocketTarget | RemoteTarget;

export interface ControlSocket {
  readonly socketPath: string;
  /** Key that proves that the caller is the operator, and not a tenant's plugin. */
  readonly key?: string | undefined;
  /** The configuration that the user named and the one that the service uses, if they differ. */
  readonly otherConfig?: { readonly asked: string; readonly used: string } | undefined;
}

interface SocketTarget extends ControlSocket {
  /** Token of a caller who doesn't act as the operator. */
  readonly token?: string | undefined;
}

export interface RemoteTarget {
  readonly url: URL;
  readonly token: string | undefined;
}

export interface ServerRequest {
  readonly method: string;
  /** Includes the query. */
  readonly path: string;
  readonly body?: string | undefined;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Sends one request; the body of the response is still being received. */
export async function send(
  target: ServerTarget,
  exchange: ServerRequest,
): Promise<IncomingMessage> {
  try {
    return await new Promise((resolve, reject) => {
      const request = client(target).request(optionsOf(target, exchange));
      const timer = setTimeout(() => {
        request.destroy(new Error(`no connection within ${limits.connectMs / 1000} seconds`));
      }, limits.connectMs);
      request.once('socket', (socket) => {
        socket.once('connect', () => clearTimeout(timer));
      });
      request.once('response', resolve);
      request.once('error', reject);
      request.once('close', () => clearTimeout(timer));
      request.end(exchange.body);
    });
  } catch (thrown) {
    throw unreachable(target, thrown);
  }
}

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

/** Parses a URL as the user wrote it. */
export function parseUrl(given: string): URL {
  const url = URL.parse(given.includes('://') ? given : `http://${given}`);
  if (url !== null && /^https?:$/.test(url.protocol) && url.username === '') return url;
  throw new DuctileError('INPUT_INVALID', `${given} is not a valid server address`, {
    place: 'url',
    hint: 'Write it like https://ductile.example:8443. Set the token with DUCTILE_TOKEN.',
  });
}

function client(target: ServerTarget): typeof http | typeof https {
  return 'url' in target && target.url.protocol === 'https:' ? https : http;
}

function optionsOf(
  target: ServerTarget,
  { method, path, body, headers = {} }: ServerRequest,
): RequestOptions {
  const bodyHeaders = body === undefined ? {} : describeBody(body);
  const common = { method, agent: false as const };
  if (!('url' in target)) {
    const { socketPath, token, key } = target;
    const authorization = token === undefined ? controlKey(key) : bearer(token);
    return {
      ...common,
      socketPath,
      path,
      headers: { ...bodyHeaders, ...authorization, ...headers },
    };
  }
  const { url, token } = target;
  return {
    ...common,
    hostname: url.hostname.replace(/^\[(.*)\]$/, '$1'),
    port: url.port,
    // A proxy may serve the service below a path.
    path: `${url.pathname.replace(/\/$/, '')}${path}`,
    headers: { ...bodyHeaders, ...bearer(token), ...headers },
  };
}

/** A DELETE or GET has a body only if its length is declared. */
function describeBody(body: string): Record<string, string> {
  return {
    'content-type': 'application/json',
    'content-length': String(Buffer.byteLength(body)),
  };
}

function bearer(token: string | undefined): Record<string, string> {
  return token === undefined ? {} : { authorization: `Bearer ${token}` };
}

function controlKey(key: string | undefined): Record<string, string> {
  return key === undefined ? {} : { authorization: `Control ${key}` };
}

function unreachable(target: ServerTarget, thrown: unknown): DuctileError {
  const hint =
    'url' in target
      ? 'Check the address. Check that api.enabled is true in the configuration of that service.'
      : undefined;
  return new DuctileError(
    'SERVER_UNREACHABLE',
    `the service did not respond: ${describeThrown(thrown)}`,
    {
      place: nameTarget(target),
      hint,
      cause: thrown,
    },
  );
}

/** If all addresses of a host fail, Node throws one error without a message. */
function describeThrown(thrown: unknown): string {
  const [first] = thrown instanceof AggregateError ? (thrown.errors as unknown[]) : [];
  return messageOf(first ?? thrown);
}
