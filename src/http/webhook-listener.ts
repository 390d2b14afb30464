import type { RequestListener } from 'node:http';
import { DuctileError, toDuctileError } from '../base/errors.ts';
import { limits } from '../base/limits.ts';
import type { Log } from '../base/log.ts';
import type { Context } from '../operation/context.ts';
import {
  hasEndpoint,
  hookRules,
  receiveAt,
  receiveHook,
  tellHealth,
} from '../webhook/receive.operations.ts';
import type { WebhookResponse } from '../webhook/check.ts';
import type { IncomingDelivery } from '../webhook/request.ts';
import { readBytes } from './body.ts';
import { makeCrowd } from './crowd.ts';
import { Exchange } from './exchange.ts';
import { inspectRequest } from './check-request.ts';
import { makeProxies, type Proxies } from './client-address.ts';
import { bareAddress } from './source.ts';

/** Answers what is for a webhook; false for all else. */
export type HookServer = (exchange: Exchange) => Promise<boolean>;

type Base = Pick<Context, 'engine'>;

/** All of it comes before anybody can be asked for a proof. */
const delivered = makeCrowd();

const HOOK = /^\/hooks\/([^/]+)$/;

/** Deliveries to webhooks by their ids. */
export function makeHookServer(base: Base): HookServer {
  const proxies = makeProxies(() => hookRules(base).trustedProxies);
  return async (exchange) => {
    const id = HOOK.exec(exchange.path)?.[1];
    if (id === undefined) return false;
    refuseMethod(exchange);
    const incoming = await readIncoming(exchange, base, proxies);
    reply(exchange, await receiveHook(base, id, incoming), incoming);
    return true;
  };
}

/** The listener of webhooks: those by id, those of the configuration, and what monitors ask. */
export function makeHookListener(base: Base, log: Log): RequestListener {
  const byId = makeHookServer(base);
  const proxies = makeProxies(() => hookRules(base).trustedProxies);
  const serve = async (exchange: Exchange): Promise<void> => {
    inspectRequest(exchange);
    const { path, request } = exchange;
    const isAsked = request.method === 'GET' || request.method === 'HEAD';
    if (isAsked && path === '/healthz' && isFromHere(exchange)) {
      return reply(exchange, await tellHealth(base));
    }
    if (isAsked && path === '/health') {
      return reply(exchange, { status: 200, body: { status: 'ok' } });
    }
    if (await byId(exchange)) return undefined;
    if (!hasEndpoint(base, path)) {
      throw new DuctileError('ENDPOINT_NOT_FOUND', `there is no ${path} here`);
    }
    refuseMethod(exchange);
    const incoming = await readIncoming(exchange, base, proxies);
    const answer = await receiveAt(base, path, incoming);
    if (answer === undefined) {
      throw new DuctileError('ENDPOINT_NOT_FOUND', `there is no ${path} here`);
    }
    return reply(exchange, answer, incoming);
  };
  return (request, response) => {
    const exchange = new Exchange(request, response);
    serve(exchange).catch((thrown: unknown) => {
      const error = toDuctileError(thrown);
      if (error.code === 'INTERNAL')
        log.error('a delivery failed', { error: error.cause ?? error });
      exchange.refuse(error);
    });
  };
}

/** What proxies and tunnels add, each of them some. */
const FORWARDED = [
  'forwarded',
  'via',
  'x-forwarded-for',
  'x-forwarded-host',
  'x-forwarded-proto',
  'x-real-ip',
  'cf-connecting-ip',
];

/** What runs here is nobody's business elsewhere, also when a tunnel brings the question. */
function isFromHere({ request: { socket, headers } }: Exchange): boolean {
  const address = bareAddress(socket.remoteAddress ?? '') ?? '';
  const isLoopback = address === '::1' || address.startsWith('127.');
  return isLoopback && FORWARDED.every((name) => headers[name] === undefined);
}

function refuseMethod({ request, extra }: Exchange): void {
  if (request.method === 'POST') return;
  extra.push('allow', 'POST');
  throw new DuctileError('METHOD_NOT_ALLOWED', `${request.method ?? ''} is not possible here`);
}

async function readIncoming(
  exchange: Exchange,
  base: Base,
  proxies: Proxies,
): Promise<IncomingDelivery> {
  const { request, url } = exchange;
  const read = await readBytes(request, limits.hookBodyBytesMax, delivered);
  const isOversize = !Buffer.isBuffer(read);
  const headers: [string, string][] = [];
  for (let at = 0; at < request.rawHeaders.length; at += 2) {
    headers.push([(request.rawHeaders[at] ?? '').toLowerCase(), request.rawHeaders[at + 1] ?? '']);
  }
  const { publicUrl } = hookRules(base);
  const seen = publicUrl ?? originOf(exchange, proxies.isTrusted(exchange));
  return {
    request: {
      method: request.method ?? '',
      url: `${seen}${url}`,
      headers,
      rawBody: isOversize ? Buffer.alloc(0) : read,
    },
    source: proxies.sourceOf(exchange),
    isOversize,
    ...(isOversize ? { bodyBytes: read.size } : {}),
    hungUp: () => exchange.hungUp(),
  };
}

function originOf({ request: { headers } }: Exchange, isProxied: boolean): string {
  const given = headers['x-forwarded-proto'];
  const scheme = isProxied && given === 'https' ? 'https' : 'http';
  return `${scheme}://${headers.host ?? ''}`;
}

function reply(exchange: Exchange, answer: WebhookResponse, incoming?: IncomingDelivery): void {
  const { status, body, retryAfterSeconds } = answer;
  if (retryAfterSeconds !== undefined) {
    exchange.extra.push('retry-after', String(retryAfterSeconds));
  }
  // What is left of a body that was too large is not worth reading.
  if (incoming?.isOversize === true) exchange.extra.push('connection', 'close');
  exchange.answer(status, `${JSON.stringify(body)}\n`);
}
