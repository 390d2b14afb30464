import { blake3 as hash } from '@noble/hashes/blake3.js';

/** Returns the BLAKE3 hash (256 bits) of data in memory, in hexadecimal. */
export function blake3(data: Uint8Array): string {
  return Buffer.from(hash(data)).toString('hex');
}
