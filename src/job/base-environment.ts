import { isObject } from '../base/json.ts';
import { limits } from '../base/limits.ts';
import { parseJson } from '../base/parse-json.ts';

/** What lies beneath the payloads of a block's branches, as bytes: it may be large, and they are many. */
export interface Base {
  /** The names of its members. */
  readonly keys: readonly string[];
  /** Its members without those that the branch has itself, as they stand in JSON between the braces. */
  without(keys: readonly string[]): Buffer;
}

export type Bases = (key: string) => Promise<Base>;

/** What lies beneath a block never changes, so it is read once for many jobs of its branches. */
export function makeBases(read: (key: string) => Promise<string>): Bases {
  const known = new Map<string, Promise<Base>>();

  const load = async (key: string): Promise<Base> => {
    try {
      return toBase(await read(key));
    } catch (error) {
      known.delete(key);
      throw error;
    }
  };

  return (key) => {
    const base = known.get(key) ?? load(key);
    // The one that was asked for last is forgotten last.
    known.delete(key);
    known.set(key, base);
    for (const oldest of known.keys()) {
      if (known.size <= limits.basesMax) break;
      known.delete(oldest);
    }
    return base;
  };
}

/** Branches of one block mostly have the same keys, so the bytes for the last ones are kept. */
function toBase(text: string): Base {
  const value: unknown = parseJson(text);
  const members = isObject(value) ? value : {};
  let kept: { readonly keys: string; readonly bytes: Buffer } | undefined;
  return {
    keys: Object.keys(members),
    without(keys) {
      const asked = JSON.stringify(keys);
      if (kept?.keys !== asked) {
        const left = Object.entries(members).filter(([name]) => !keys.includes(name));
        const inner = JSON.stringify(Object.fromEntries(left)).slice(1, -1);
        kept = { keys: asked, bytes: Buffer.from(inner) };
      }
      return kept.bytes;
    },
  };
}
