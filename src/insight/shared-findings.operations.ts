import { setTimeout as sleep } from 'node:timers/promises';
import { limits } from '../base/limits.ts';
import type { Ledger } from '../ledger/ledger.ts';
import { ANONYMOUS } from '../access/authorize.operations.ts';
import type { Context } from '../operation/context.ts';
import { seesHidden } from '../access/visibility.operations.ts';
import { bareLedger, veilEngine } from '../access/cover.operations.ts';

/**
 * An examination of the whole service that callers share. It begins after all of its callers have
 * asked, so that each of them sees its own writes. The next one rests for twenty times as long as the
 * last one took, or for a second, so that many clients don't keep the service busy.
 */
export class SharedExamination<T> {
  #examine: (() => Promise<T>) | undefined;
  #current: Promise<unknown> = Promise.resolve();
  #next: Promise<T> | undefined;
  #restMs = 0;
  #endedAtMs = -Infinity;

  /** Joins the next examination. Of several callers, the last one brings what is run. */
  get(examine: () => Promise<T>): Promise<T> {
    this.#examine = examine;
    this.#next ??= this.#begin(examine);
    return this.#next;
  }

  async #begin(first: () => Promise<T>): Promise<T> {
    await this.#current.catch(() => undefined);
    const leftMs = this.#endedAtMs + this.#restMs - performance.now();
    if (leftMs > 0) await sleep(leftMs);
    this.#next = undefined;
    const running = this.#measure(this.#examine ?? first);
    this.#current = running;
    return await running;
  }

  async #measure(examine: () => Promise<T>): Promise<T> {
    const since = performance.now();
    try {
      return await examine();
    } finally {
      this.#endedAtMs = performance.now();
      const tookMs = this.#endedAtMs - since;
      this.#restMs = Math.min(limits.figureMs, limits.figureRest * tookMs);
    }
  }
}

type BySight<T> = Readonly<Record<'exact' | 'masked', SharedExamination<T>>>;

/** Shares an examination between the callers of a service that see the same. */
export function makeSharedFindings<T>(): (
  context: Context,
  examine: (context: Context) => Promise<T>,
) => Promise<T> {
  const known = new WeakMap<Ledger, BySight<T>>();
  return (context, examine) => {
    const ledger = bareLedger(context.engine.ledger);
    let shared = known.get(ledger);
    if (shared === undefined) {
      shared = { exact: new SharedExamination(), masked: new SharedExamination() };
      known.set(ledger, shared);
    }
    if (seesHidden(context.principal)) return shared.exact.get(() => examine(context));
    // A caller sees the data of its own jobs, which the others must not see.
    const engine = veilEngine(context.engine, ANONYMOUS);
    return shared.masked.get(() => examine({ ...context, engine, principal: ANONYMOUS }));
  };
}
