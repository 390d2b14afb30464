import { DuctileError } from '../base/errors.ts';
import type { Exchange } from './exchange.ts';

const METHODS = 'GET, HEAD, POST, PATCH, DELETE';
const HEADERS = [
  'accept',
  'authorization',
  'content-type',
  'idempotency-key',
  'last-event-id',
  'mcp-method',
  'mcp-name',
  'mcp-protocol-version',
  'x-request-id',
].join(', ');
const EXPOSED = 'idempotency-replayed, location, retry-after, x-request-id';
const AGE_SECONDS = '300';

/**
 * Lets web pages of listed origins read answers. Answers a preflight itself and says so; one from
 * elsewhere is refused. Without a listed origin nothing is said, and browsers keep the answer back.
 */
export function allowOrigin(exchange: Exchange, allowed: readonly string[]): boolean {
  const { request, extra } = exchange;
  const { origin } = request.headers;
  if (origin === undefined) return false;
  const isPreflight =
    request.method === 'OPTIONS' && request.headers['access-control-request-method'] !== undefined;
  if (!allowed.includes(origin) && !allowed.includes('*')) {
    if (isPreflight) throw new DuctileError('FORBIDDEN', 'pages of this origin may not ask here');
    return false;
  }
  extra.push('access-control-allow-origin', origin, 'vary', 'origin');
  extra.push('access-control-expose-headers', EXPOSED);
  if (!isPreflight) return false;
  extra.push('access-control-allow-methods', METHODS, 'access-control-allow-headers', HEADERS);
  extra.push('access-control-max-age', AGE_SECONDS);
  exchange.answerEmpty(204);
  return true;
}
