import type { IncomingMessage } from 'node:http';
import { DuctileError } from '../base/errors.ts';
import { parseStrictJson } from '../base/json.ts';
import { limits } from '../base/limits.ts';

export interface RequestBody {
  readonly bytes: Buffer;
  /** Parsed JSON; undefined when there was none. */
  readonly value: unknown;
}

/**
 * API bodies have their own budget, so that webhook deliveries without a token can't displace them.
 */
const apiBodies = createBodyBudget();

/**
 * `json`: the body must be declared as JSON, or not declared at all. `any`: JSON is accepted under every
 * type, as `curl -d` sends it. That is safe where only a token in a header gives rights. A page of
 * another site can post such a body without a preflight, but it has no token.
 */
type AcceptedBodyType = 'json' | 'any';

/** Reads the whole body as JSON, up to the limit, with or without a declared length. */
export async function readJsonBody(
  request: IncomingMessage,
  accepted: AcceptedBodyType,
): Promise<RequestBody> {
  const bytes = await readBodyBytes(request, limits.requestBytesMax, apiBodies);
  if (!Buffer.isBuffer(bytes)) throw tooLarge();
  if (bytes.length === 0) return { bytes, value: undefined };
  const isJson = isDeclaredJson(request);
  if (!isJson && accepted === 'json') throw notJson();
  try {
    return { bytes, value: parse(bytes) };
  } catch (thrown) {
    // A body that is neither declared as JSON nor parses as JSON was meant to be another type.
    throw isJson ? thrown : notJson();
  }
}

/** Body over the limit; the size is the declared one, or the number of bytes received so far. */
interface OversizeBody {
  readonly size: number;
}

/** Reads the whole body as bytes; stops reading when it exceeds the limit. */
export function readBodyBytes(
  request: IncomingMessage,
  bytesMax: number,
  budget: BodyBudget,
): Promise<Buffer | OversizeBody> {
  const declared = Number(request.headers['content-length'] ?? 0);
  if (declared > bytesMax)
    return Promise.resolve({ size: Math.min(declared, Number.MAX_SAFE_INTEGER) });
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let size = 0;
    const leaveRest = (): void => {
      request.pause();
      request.removeAllListeners('data');
      reservation.release();
    };
    const reservation = budget.reserve(() => {
      leaveRest();
      const message =
        'too many large request bodies are in flight; this one was the slowest and was dropped';
      reject(new DuctileError('CROWDED', message));
    });
    // The client may be gone; then this error reaches no one.
    const cut = (): void => {
      reservation.release();
      reject(new DuctileError('REQUEST_INVALID', 'the body was cut short'));
    };
    request.on('data', (chunk: Buffer) => {
      size += chunk.length;
      chunks.push(chunk);
      if (size > bytesMax) {
        leaveRest();
        resolve({ size });
      } else reservation.grow(chunk.length);
    });
    request.once('end', () => {
      request.off('close', cut);
      reservation.release();
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

/** Decides by the headers; a body without a type counts as JSON. */
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

/** A byte order mark is kept, so that parsing refuses it. */
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

/** Memory limit for all large bodies that are being received, together. */
interface BodyBudget {
  /** Calls `giveWay` when the budget is exceeded and this body has been large for longest. */
  reserve(giveWay: () => void): BodyReservation;
}

interface BodyReservation {
  /** Reports that more bytes have arrived. */
  grow(bytes: number): void;
  /** Ends the reservation: the body is complete or was dropped. */
  release(): void;
}

export function createBodyBudget(
  bytesMax: number = limits.bodiesBytesMax,
  smallBytes: number = limits.bodySmallBytes,
): BodyBudget {
  // In the order in which they became large: a body sent at a normal pace is complete before it is
  // dropped.
  const large = new Map<BodyReservation, () => void>();
  let total = 0;
  const dropLongest = (): void => {
    for (const [longest, giveWay] of large) {
      if (total <= bytesMax) return;
      longest.release();
      giveWay();
    }
  };
  return {
    reserve(giveWay) {
      let size = 0;
      const reservation: BodyReservation = {
        grow(bytes) {
          size += bytes;
          if (size <= smallBytes) return;
          total += large.has(reservation) ? bytes : size;
          large.set(reservation, giveWay);
          dropLongest();
        },
        release() {
          if (large.delete(reservation)) total -= size;
        },
      };
      return reservation;
    },
  };
}
