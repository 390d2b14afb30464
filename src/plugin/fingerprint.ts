import { createHash } from 'node:crypto';
import { canonical } from '../base/json.ts';

/** A digest of everything that decides how a plugin behaves: its files and its settings. */
export function fingerprint(files: readonly Buffer[], settings: unknown): string {
  const hash = createHash('sha256');
  for (const part of [...files, Buffer.from(canonical(settings))]) {
    // The length keeps the end of one part and the beginning of the next apart.
    hash.update(`${part.length}:`).update(part);
  }
  return hash.digest('hex');
}
