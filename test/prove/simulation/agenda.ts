/** Future events by time; those of one moment are in the order of their requests. */
import type { Actor } from './time.ts';

export interface Entry {
  at: number;
  readonly order: number;
  readonly actor: Actor | undefined;
  readonly run: () => void;
  /** True if it happened or was cancelled. */
  isDone: boolean;
}

/** A heap. */
export class Agenda {
  readonly #heap: Entry[] = [];
  #order = 0;

  add(at: number, actor: Actor | undefined, run: () => void): Entry {
    const entry = { at, order: (this.#order += 1), actor, run, isDone: false };
    this.#push(entry);
    return entry;
  }

  /** A removed event is to happen later; its position within one moment stays. */
  putOff(entry: Entry, at: number): void {
    entry.at = at;
    this.#push(entry);
  }

  take(): Entry | undefined {
    for (;;) {
      const first = this.#pop();
      if (first === undefined || !first.isDone) return first;
    }
  }

  #push(entry: Entry): void {
    const heap = this.#heap;
    let index = heap.push(entry) - 1;
    while (index > 0) {
      const above = (index - 1) >> 1;
      if (!isBefore(heap, index, above)) break;
      swap(heap, index, above);
      index = above;
    }
  }

  #pop(): Entry | undefined {
    const heap = this.#heap;
    if (heap.length <= 1) return heap.pop();
    swap(heap, 0, heap.length - 1);
    const first = heap.pop();
    for (let index = 0; ;) {
      const below = 2 * index + 1;
      const least = isBefore(heap, below + 1, below) ? below + 1 : below;
      if (!isBefore(heap, least, index)) return first;
      swap(heap, least, index);
      index = least;
    }
  }
}

function isBefore(heap: readonly Entry[], one: number, other: number): boolean {
  const [a, b] = [heap[one], heap[other]];
  if (a === undefined || b === undefined) return false;
  return a.at === b.at ? a.order < b.order : a.at < b.at;
}

function swap(heap: Entry[], one: number, other: number): void {
  const [a, b] = [heap[one], heap[other]];
  if (a === undefined || b === undefined) return;
  heap[one] = b;
  heap[other] = a;
}
