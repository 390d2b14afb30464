import { DuctileError } from './errors.ts';
import { findUnsafe } from './json.ts';
import { limits } from './limits.ts';

/** What somebody gave, as the ledger keeps it; refuses what cannot be kept. */
export function toKeptText(
  value: unknown,
  field: string,
  bytesMax: number = limits.payloadBytesMax,
): string {
  const unsafe = findUnsafe(value, limits.jsonDepthMax);
  if (unsafe !== undefined) {
    throw new DuctileError('INPUT_INVALID', `${field}: ${unsafe}`, { place: field });
  }
  const text = JSON.stringify(value);
  if (Buffer.byteLength(text) <= bytesMax) return text;
  const message = `the ${field} is larger than ${bytesMax} bytes`;
  throw new DuctileError('PAYLOAD_TOO_LARGE', message, { place: field });
}
