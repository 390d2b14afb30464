import { hash, randomBytes } from 'node:crypto';
import { limits } from '../base/limits.ts';

/** What was answered to agents, for a while: to show more of it, or only what changed. */
export interface Kept {
  /** The name of this answer to this caller. Nobody who wrote a part of it could know it. */
  nameOf(caller: string, text: string): string;
  /** False when it is too large to be kept. */
  keep(caller: string, name: string, text: string): boolean;
  find(caller: string, name: string): string | undefined;
}

const NAME_CHARS = 20;

/** The least recently used goes first: a caller's own, and when all have too much, anybody's. */
export function makeKept(
  perCaller: number = limits.toolKeptCharsPerCaller,
  ofAll: number = limits.toolKeptCharsMax,
): Kept {
  const key = randomBytes(32).toString('hex');
  const callers = new Map<string, Shelf>();
  let total = 0;

  const drop = (caller: string, shelf: Shelf): void => {
    const [name = '', text = ''] = shelf.answers.entries().next().value ?? [];
    shelf.answers.delete(name);
    shelf.chars -= text.length;
    total -= text.length;
    if (shelf.answers.size === 0) callers.delete(caller);
  };
  const makeRoom = (): void => {
    for (const [caller, shelf] of callers) {
      for (let left = shelf.answers.size; left > 0; left -= 1) {
        if (total <= ofAll) return;
        drop(caller, shelf);
      }
    }
  };
  const touch = (caller: string): Shelf => {
    const shelf = callers.get(caller) ?? { answers: new Map<string, string>(), chars: 0 };
    callers.delete(caller);
    callers.set(caller, shelf);
    return shelf;
  };

  return {
    nameOf: (caller, text) =>
      // Nobody gets to see all of it, so nothing can be put behind what was hashed; this is far quicker.
      hash('sha256', `${key}\n${caller}\n${text}`).slice(0, NAME_CHARS),
    keep(caller, name, text) {
      if (text.length > Math.min(perCaller, ofAll)) return false;
      const shelf = touch(caller);
      if (!shelf.answers.delete(name)) {
        shelf.chars += text.length;
        total += text.length;
      }
      shelf.answers.set(name, text);
      while (shelf.chars > perCaller) drop(caller, shelf);
      makeRoom();
      return true;
    },
    find(caller, name) {
      const text = callers.get(caller)?.answers.get(name);
      if (text === undefined) return undefined;
      const shelf = touch(caller);
      shelf.answers.delete(name);
      shelf.answers.set(name, text);
      return text;
    },
  };
}

interface Shelf {
  /** The one that was used last comes last. */
  readonly answers: Map<string, string>;
  chars: number;
}
