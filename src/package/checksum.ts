import { blake3 } from '../base/blake3.ts';
import { toCanonicalJson, type JsonObject } from '../base/json.ts';

/** Equal configurations have equal checksums, whatever the order of their keys. */
export function configChecksum(config: JsonObject): string {
  return blake3(Buffer.from(toCanonicalJson(config)));
}
