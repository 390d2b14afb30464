import type { IncomingMessage } from 'node:http';
import { DuctileError } from '../base/errors.ts';
import { parseStrictJson } from '../base/strict-json.ts';
import { limits } from '../base/limits.ts';
import { makeCrowd, type Crowd } from './crowd.ts';

export interface Body {
  readonly bytes: Buffer;
  /** Parsed JSON; undefined when there was none. */
  readonly value: unknown;
}

/** Who has a token does not give way to who has none. */
const asked = makeCrowd();

/**
 * `json`: the body must be declared as JSON, or not declared at all. `any`: JSON is accepted under every
 * type, as `curl -d` sends it. That is safe where only a token in a header gives rights: a page of
 * another site can post such a body without a preflight, but it has no token to send with it.
 */
export type AcceptedType = 'json' | 'any';

/** The whole body as JSON, within its limit, whether its length was told or it came in chunks. */
export async function readBody(request: IncomingMessage, accepted: AcceptedType): Promise<Body> {
  const bytes = await readBytes(request, limits.requestBytesMax, asked);
  if (!Buffer.isBuffer(bytes)) throw tooLarge();
  if (bytes.length === 0) return { bytes, value: undefined };
  const isJson = isDeclaredJson(request);
  if (!isJson && accepted === 'json') throw notJson();
  try {
    return { bytes, value: parse(bytes) };
  } catch (thrown) {
    // What is neither declared as JSON nor is any was meant to be something else.
    throw isJson ? thrown : notJson();
  }
}

/** There is more than was wanted: as much as was told, or came until it was given up. */
export interface Excess {
  readonly size: number;
}

/** The whole body as it came; when there is more than that, the rest is not read. */
export function readBytes(
  request: IncomingMessage,
  bytesMax: number,
  crowd: Crowd,
): Promise<Buffer | Excess> {
  const told = Number(request.headers['content-length'] ?? 0);
  if (told > bytesMax) return Promise.resolve({ size: Math.min(told, Number.MAX_SAFE_INTEGER) });
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let size = 0;
    const leaveRest = (): void => {
      request.pause();
      request.removeAllListeners('data');
      passage.leave();
    };
    const passage = crowd.enter(() => {
      leaveRest();
      reject(new DuctileError('CROWDED', 'too much comes at once, and this came slowest'));
    });
    // Whoever hung up is not there to hear of it.
    const cut = (): void => {
      passage.leave();
      reject(new DuctileError('REQUEST_INVALID', 'the body was cut short'));
    };
    request.on('data', (chunk: Buffer) => {
      size += chunk.length;
      chunks.push(chunk);
      if (size > bytesMax) {
        leaveRest();
        resolve({ size });
      } else passage.grow(chunk.length);
    });
    request.once('end', () => {
      request.off('close', cut);
      passage.leave();
      const [only] = chunks;
      resolve(chunks.length === 1 && only !== undefined ? only : Buffer.concat(chunks, size));
    });
    request.once('error', cut);
    request.once('close', cut);
  });
}

function tooLarge(): DuctileError {
  const message = `the body is larger than ${limits.requestBytesMax} bytes`;
  return new DuctileError('PAYLOAD_TOO_LARGE', message, { place: 'body' });
}

const JSON_TYPE = /^application\/(?:[\w.+-]+\+)?json\s*(?:;\s*charset\s*=\s*"?utf-?8"?\s*)?$/i;

/** Decided once, by what was declared; a body without a type counts as declared. */
function isDeclaredJson({ headers }: IncomingMessage): boolean {
  const encoding = headers['content-encoding'];
  if (encoding !== undefined && encoding.toLowerCase() !== 'identity') {
    const message = 'a compressed body is not accepted';
    throw new DuctileError('MEDIA_TYPE_UNSUPPORTED', message, { place: 'content-encoding' });
  }
  const type = headers['content-type'];
  if (type === undefined || type === 'application/json' || JSON_TYPE.test(type)) return true;
  if (OTHER_CHARSET.test(type)) throw notJson();
  return false;
}

const OTHER_CHARSET = /;\s*charset\s*=\s*"?(?!(?:utf-?8|us-ascii)\b)/i;

function notJson(): DuctileError {
  return new DuctileError('MEDIA_TYPE_UNSUPPORTED', 'the body must be JSON in UTF-8', {
    place: 'content-type',
  });
}

/** A byte order mark stays, and is no JSON. */
const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

function parse(bytes: Buffer): unknown {
  let text: string;
  try {
    text = decoder.decode(bytes);
  } catch {
    throw new DuctileError('INPUT_INVALID', 'the body is not UTF-8', { place: 'body' });
  }
  const parsed = parseStrictJson(text);
  if (parsed.ok) return parsed.value;
  throw new DuctileError('INPUT_INVALID', `the body ${parsed.fault}`, { place: 'body' });
}
