import type { RequestListener } from 'node:http';
import { DuctileError, toDuctileError } from '../base/errors.ts';
import { limits } from '../base/limits.ts';
import type { Log } from '../base/log.ts';
import type { Context } from '../operation/context.ts';
import { invoke } from '../operation/invoke.ts';
import { ANONYMOUS } from '../operation/authorize.ts';
import { systemHealth } from '../engine/system.operations.ts';
import type { WebhookResponse } from '../webhook/check.ts';
import type { IncomingDelivery } from '../webhook/request.ts';
import { readBodyBytes, createBodyBudget } from './body.ts';
import { checkRequest, Exchange } from './exchange.ts';
import { createTrustedProxies, type TrustedProxies, parseIpAddress } from './client-address.ts';

/** Handles deliveries and returns whether the request was one. */
export type WebhookHandler = (exchange: Exchange) => Promise<boolean>;

type Base = Pick<Context, 'engine'>;

/** Deliveries have a budget of their own, because their senders aren't authenticated yet. */
const deliveryBodies = createBodyBudget();

const WEBHOOK_PATH = /^\/hooks\/([^/]+)$/;

/** Handles deliveries to webhooks by id. */
export function createWebhookHandler(base: Base): WebhookHandler {
  const proxies = createTrustedProxies(() => base.engine.config.webhooks.trustedProxies);
  return async (exchange) => {
    const id = WEBHOOK_PATH.exec(exchange.path)?.[1];
    if (id === undefined) return false;
    refuseMethod(exchange);
    const incoming = await readIncoming(exchange, base, proxies);
    reply(exchange, await base.engine.webhooks.receive(id, incoming), incoming);
    return true;
  };
}

/** Listener for webhooks by id, configured endpoints and health checks. */
export function createWebhookListener(base: Base, log: Log): RequestListener {
  const byId = createWebhookHandler(base);
  const proxies = createTrustedProxies(() => base.engine.config.webhooks.trustedProxies);
  const serve = async (exchange: Exchange): Promise<void> => {
    checkRequest(exchange);
    const { path, request } = exchange;
    const isGet = request.method === 'GET' || request.method === 'HEAD';
    if (isGet && path === '/healthz' && isFromHere(exchange)) {
      return reply(exchange, await readHealth(base));
    }
    if (isGet && path === '/health') {
      return reply(exchange, { status: 200, body: { status: 'ok' } });
    }
    if (await byId(exchange)) return undefined;
    const { webhooks, config } = base.engine;
    if (!config.webhooks.endpoints.some((endpoint) => endpoint.path === path)) {
      throw new DuctileError('ENDPOINT_NOT_FOUND', `there is no ${path} here`);
    }
    refuseMethod(exchange);
    const incoming = await readIncoming(exchange, base, proxies);
    const response = await webhooks.receiveAt(path, incoming);
    // A reload may have removed the endpoint while the body was read.
    if (response === undefined) {
      throw new DuctileError('ENDPOINT_NOT_FOUND', `there is no ${path} here`);
    }
    return reply(exchange, response, incoming);
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

async function readHealth({ engine }: Base): Promise<WebhookResponse> {
  const context = { engine, principal: ANONYMOUS, submittedBy: 'api' } as const;
  const body = await invoke(systemHealth, context, {});
  return { status: body['status'] === 'ok' ? 200 : 503, body: body as WebhookResponse['body'] };
}

/** Headers that proxies and tunnels add. */
const FORWARDED = [
  'forwarded',
  'via',
  'x-forwarded-for',
  'x-forwarded-host',
  'x-forwarded-proto',
  'x-real-ip',
  'cf-connecting-ip',
];

/**
 * True for a direct request from this machine: the service's health isn't shown through a tunnel.
 */
function isFromHere({ request: { socket, headers } }: Exchange): boolean {
  const address = parseIpAddress(socket.remoteAddress ?? '') ?? '';
  const isLoopback = address === '::1' || address.startsWith('127.');
  return isLoopback && FORWARDED.every((name) => headers[name] === undefined);
}

function refuseMethod({ request, extra }: Exchange): void {
  if (request.method === 'POST') return;
  extra.push('allow', 'POST');
  throw new DuctileError('METHOD_NOT_ALLOWED', `${request.method ?? ''} is not allowed here`);
}

async function readIncoming(
  exchange: Exchange,
  base: Base,
  proxies: TrustedProxies,
): Promise<IncomingDelivery> {
  const { request, url } = exchange;
  const read = await readBodyBytes(request, limits.webhookBodyBytesMax, deliveryBodies);
  const isOversize = !Buffer.isBuffer(read);
  const headers: [string, string][] = [];
  for (let at = 0; at < request.rawHeaders.length; at += 2) {
    headers.push([(request.rawHeaders[at] ?? '').toLowerCase(), request.rawHeaders[at + 1] ?? '']);
  }
  const { publicUrl } = base.engine.config.webhooks;
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
    disconnected: () => exchange.disconnected(),
  };
}

function originOf({ request: { headers } }: Exchange, isProxied: boolean): string {
  const given = headers['x-forwarded-proto'];
  const scheme = isProxied && given === 'https' ? 'https' : 'http';
  return `${scheme}://${headers.host ?? ''}`;
}

function reply(
  exchange: Exchange,
  { status, body, retryAfterSeconds }: WebhookResponse,
  incoming?: IncomingDelivery,
): void {
  if (retryAfterSeconds !== undefined) {
    exchange.extra.push('retry-after', String(retryAfterSeconds));
  }
  // The rest of a body that was too large isn't worth reading.
  if (incoming?.isOversize === true) exchange.extra.push('connection', 'close');
  exchange.respond(status, `${JSON.stringify(body)}\n`);
}
