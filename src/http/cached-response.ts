import { createHash } from 'node:crypto';
import { promisify } from 'node:util';
import { gunzipSync, gzip } from 'node:zlib';
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
  /** Default: 200. */
  readonly status?: number | undefined;
}

export async function createCachedResponse(bytes: Buffer, type: string): Promise<CachedResponse> {
  const zipped = await promisify(gzip)(bytes, { level: 9 });
  return {
    bytes,
    zipped: zipped.length < bytes.length ? zipped : undefined,
    type,
    tag: makeTag(bytes),
  };
}

/** Creates a response from compressed bytes, which are rarely needed in another form. */
export function createZippedResponse(zipped: Buffer, type: string): CachedResponse {
  return {
    get bytes() {
      return gunzipSync(zipped);
    },
    zipped,
    type,
    tag: makeTag(zipped),
  };
}

function makeTag(bytes: Buffer): string {
  return `W/"${createHash('sha256').update(bytes).digest('base64url').slice(0, 22)}"`;
}

/** Sends the response, or 304 if the client has it; compressed if the client accepts that. */
export function sendCachedResponse(
  exchange: Exchange,
  cached: CachedResponse,
  { cacheControl, vary, always, status = 200 }: CachedResponseHeaders,
): void {
  const { zipped, type, tag } = cached;
  const { request, response } = exchange;
  if (response.headersSent || response.destroyed) return;
  const { headers } = request;
  const common = ['cache-control', cacheControl, 'etag', tag, 'vary', vary];
  if (status === 200 && hasTag(headers['if-none-match'], tag)) {
    exchange.begin(304, common, always);
    response.end();
    return;
  }
  const isZipped = zipped !== undefined && acceptsGzip(headers['accept-encoding']);
  const body = isZipped ? zipped : cached.bytes;
  const encoding = isZipped ? ['content-encoding', 'gzip'] : [];
  const size = ['content-type', type, 'content-length', String(body.length)];
  exchange.begin(status, [...common, ...encoding, ...size], always);
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
