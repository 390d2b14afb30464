import { createHash } from 'node:crypto';
import { promisify } from 'node:util';
import { gzip } from 'node:zlib';
import type { Exchange } from './exchange.ts';

/** A response body that is sent more than once: its bytes, the same compressed, and its tag. */
export interface CachedResponse {
  readonly bytes: Buffer;
  /** Undefined if compression saves nothing. */
  readonly zipped: Buffer | undefined;
  readonly type: string;
  /** Weak, because the plain and the compressed bytes share it. */
  readonly tag: string;
}

interface CachedResponseHeaders {
  readonly cacheControl: string;
  readonly vary: string;
  /** Headers of every response of this kind. */
  readonly always: readonly string[];
}

export async function createCachedResponse(bytes: Buffer, type: string): Promise<CachedResponse> {
  const zipped = await promisify(gzip)(bytes, { level: 9 });
  const digest = createHash('sha256').update(bytes).digest('base64url').slice(0, 22);
  return {
    bytes,
    zipped: zipped.length < bytes.length ? zipped : undefined,
    type,
    tag: `W/"${digest}"`,
  };
}

/** Sends the response, or 304 if the client has it; compressed if the client accepts that. */
export function sendCachedResponse(
  exchange: Exchange,
  { bytes, zipped, type, tag }: CachedResponse,
  { cacheControl, vary, always }: CachedResponseHeaders,
): void {
  const { request, response } = exchange;
  if (response.headersSent || response.destroyed) return;
  const { headers } = request;
  const common = ['cache-control', cacheControl, 'etag', tag, 'vary', vary];
  if (hasTag(headers['if-none-match'], tag)) {
    exchange.begin(304, common, always);
    response.end();
    return;
  }
  const isZipped = zipped !== undefined && acceptsGzip(headers['accept-encoding']);
  const body = isZipped ? zipped : bytes;
  const encoding = isZipped ? ['content-encoding', 'gzip'] : [];
  const size = ['content-type', type, 'content-length', String(body.length)];
  exchange.begin(200, [...common, ...encoding, ...size], always);
  response.end(request.method === 'HEAD' ? undefined : body);
}

/** Compares weakly: weak and strong tags are the same here. */
function hasTag(given: string | undefined, tag: string): boolean {
  if (given === undefined) return false;
  const bare = tag.replace(/^W\//, '');
  return given
    .split(',')
    .map((one) => one.trim())
    .some((one) => one === '*' || one.replace(/^W\//, '') === bare);
}

/** `gzip;q=0` means that the client refuses gzip. */
function acceptsGzip(accepted: string | string[] | undefined): boolean {
  const parts = [accepted ?? []].flat().join(',').toLowerCase().split(',');
  const weights = new Map(
    parts.map((part): [string, number] => {
      const [coding = '', ...params] = part.split(';').map((text) => text.trim());
      const weight = params.find((param) => param.startsWith('q='))?.slice(2);
      return [coding, weight === undefined ? 1 : Number(weight)];
    }),
  );
  return (weights.get('gzip') ?? weights.get('*') ?? 0) > 0;
}
