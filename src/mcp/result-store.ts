import { hash, randomBytes } from 'node:crypto';
import { limits } from '../base/limits.ts';

/** Recent results of agents, to show more of one or only its changes. */
export interface ResultStore {
  /** Names a result. The name can't be guessed by the author of a part of it. */
  nameOf(caller: string, text: string): string;
  /** Stores a result. Returns false if the text is too large. */
  save(caller: string, name: string, text: string): boolean;
  find(caller: string, name: string): string | undefined;
}

const NAME_CHARS = 20;

/**
 * Drops the least recently used result first: the caller's own, and over the total limit any
 * caller's.
 */
export function createResultStore(
  perCaller: number = limits.toolKeptCharsPerCaller,
  forAll: number = limits.toolKeptCharsMax,
): ResultStore {
  const key = randomBytes(32).toString('hex');
  const callers = new Map<string, CallerResults>();
  let total = 0;

  const drop = (caller: string, results: CallerResults): void => {
    const [name = '', text = ''] = results.texts.entries().next().value ?? [];
    results.texts.delete(name);
    results.chars -= text.length;
    total -= text.length;
    if (results.texts.size === 0) callers.delete(caller);
  };
  const dropOldest = (): void => {
    for (const [caller, results] of callers) {
      for (let left = results.texts.size; left > 0; left -= 1) {
        if (total <= forAll) return;
        drop(caller, results);
      }
    }
  };
  const touch = (caller: string): CallerResults => {
    const results = callers.get(caller) ?? { texts: new Map<string, string>(), chars: 0 };
    callers.delete(caller);
    callers.set(caller, results);
    return results;
  };

  return {
    nameOf: (caller, text) =>
      // A plain hash suffices instead of an HMAC, and is far quicker: only a part of the digest is
      // shown, so it can't be extended.
      hash('sha256', `${key}\n${caller}\n${text}`).slice(0, NAME_CHARS),
    save(caller, name, text) {
      if (text.length > Math.min(perCaller, forAll)) return false;
      const results = touch(caller);
      if (!results.texts.delete(name)) {
        results.chars += text.length;
        total += text.length;
      }
      results.texts.set(name, text);
      while (results.chars > perCaller) drop(caller, results);
      dropOldest();
      return true;
    },
    find(caller, name) {
      const text = callers.get(caller)?.texts.get(name);
      if (text === undefined) return undefined;
      const results = touch(caller);
      results.texts.delete(name);
      results.texts.set(name, text);
      return text;
    },
  };
}

interface CallerResults {
  /** In the order of use, the most recent last. */
  readonly texts: Map<string, string>;
  chars: number;
}
