import { toTimestamp, type Timestamp } from '../base/clock.ts';
import { limits } from '../base/limits.ts';

/** A figure and when it was read. */
export interface Figure<T> {
  readonly value: T;
  readonly at: Timestamp;
}

interface KeptFigure<T> extends Figure<T> {
  readonly atMs: number;
  readonly tookMs: number;
}

/**
 * A figure that all clients share instead of reading it each for itself. A figure over few rows is
 * read again for each caller, and callers that come together share one read that begins after all of
 * them have asked, so that callers see their own writes. A figure over many rows is kept for a second or, if
 * that is longer, for twenty times as long as it took to read.
 */
export class SharedFigure<T> {
  readonly #read: () => Promise<T>;
  readonly #rowsOf: (value: T) => number;
  #kept: KeptFigure<T> | undefined;
  #reading: Promise<KeptFigure<T>> | undefined;
  #next: Promise<KeptFigure<T>> | undefined;
  #hasFailed = false;
  #watchedUntilMs = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(read: () => Promise<T>, rowsOf: (value: T) => number) {
    this.#read = read;
    this.#rowsOf = rowsOf;
  }

  /** Reads the figure, or returns a fresh one. */
  async get(): Promise<Figure<T>> {
    const kept = this.#kept;
    if (kept === undefined || this.#rowsOf(kept.value) <= limits.figureRowsMax) {
      return await this.#readNext();
    }
    const ageMs = performance.now() - kept.atMs;
    if (ageMs <= Math.max(limits.figureMs, limits.figureRest * kept.tookMs)) return kept;
    const reading = this.#readNext();
    if (ageMs > limits.figureStaleMs) return await reading;
    reading.catch(() => undefined);
    return kept;
  }

  /**
   * The figure from memory, for monitors: undefined while it is unknown. While monitors ask, it is
   * read again in the background.
   */
  peek(): Figure<T> | undefined {
    this.#watchedUntilMs = performance.now() + limits.figureWatchedMs;
    this.#watch();
    const kept = this.#kept;
    if (kept === undefined || this.#hasFailed) return undefined;
    return performance.now() - kept.atMs > limits.figureStaleMs ? undefined : kept;
  }

  /** Reads it once, if that has never been done. */
  async prime(): Promise<void> {
    if (this.#kept === undefined) await this.#readNext();
  }

  #watch(): void {
    if (this.#timer !== undefined || this.#kept === undefined) return;
    const everyMs = Math.max(limits.figureEveryMs, limits.figureRest * this.#kept.tookMs);
    this.#timer = setTimeout(() => {
      const reading = performance.now() < this.#watchedUntilMs ? this.#readNext() : undefined;
      const again = (): void => {
        this.#timer = undefined;
        if (reading !== undefined) this.#watch();
      };
      if (reading === undefined) again();
      else reading.then(again, again);
    }, everyMs).unref();
  }

  /** A read that begins after now: one that is in progress may not have seen the latest commit. */
  #readNext(): Promise<KeptFigure<T>> {
    if (this.#reading === undefined) return this.#readNow();
    this.#next ??= this.#reading.then(
      () => this.#readNow(),
      () => this.#readNow(),
    );
    return this.#next;
  }

  #readNow(): Promise<KeptFigure<T>> {
    this.#next = undefined;
    const reading = this.#measure().finally(() => {
      if (this.#reading === reading) this.#reading = undefined;
    });
    this.#reading = reading;
    return reading;
  }

  async #measure(): Promise<KeptFigure<T>> {
    const since = performance.now();
    const at = toTimestamp(Date.now());
    try {
      const value = await this.#read();
      const atMs = performance.now();
      this.#hasFailed = false;
      this.#kept = { value, at, atMs, tookMs: atMs - since };
      return this.#kept;
    } catch (error) {
      this.#hasFailed = true;
      throw error;
    }
  }
}
