import type { Seat, Turns } from './fair-share.service.ts';

/** A job that is claimed ahead should find a free slot within this time. */
const AHEAD_MS = 20;
/** When it has not after this time, others may have it. */
const WAIT_MS_MAX = 1000;
/** What the newest attempt counts for in the mean of all. */
const NEWEST_WEIGHT = 0.1;

interface Waiting<T> {
  readonly held: T;
  readonly sinceMs: number;
}

export interface SlotsOptions<T> {
  readonly turns: Turns;
  /** How many may run at once at most. */
  readonly most: () => number | undefined;
  /** Runs it to its end; never rejects. */
  readonly run: (held: T, waitedMs: number) => Promise<void>;
  readonly giveBack: (held: readonly T[]) => void;
  /** A place is kept, and nothing waits for it. */
  readonly onSpare: () => void;
}

/**
 * The places in which attempts of this ledger run, and the claims that wait for one. Where attempts
 * take seconds none waits: another host could have it. Where they take milliseconds, a place that
 * waited for the next claim would be empty for much of its time.
 */
export class Slots<T> {
  readonly #options: SlotsOptions<T>;
  readonly #seat: Seat;
  readonly #waiting: Waiting<T>[] = [];
  #meanMs = Infinity;
  #watched = false;

  constructor(options: SlotsOptions<T>) {
    this.#options = options;
    this.#seat = options.turns.join(options.most, () => {
      this.fill();
      if (this.#seat.isKept) options.onSpare();
    });
  }

  /** How many claims may be held: one for each slot, and one for each that will soon be free. */
  get capacity(): number {
    const count = this.#seat.places;
    return count + Math.min(count, Math.floor((count * AHEAD_MS) / this.#meanMs));
  }

  enter(held: T): void {
    if (this.#seat.take()) {
      this.#start(held, 0);
    } else {
      this.#waiting.push({ held, sinceMs: performance.now() });
      if (!this.#watched) this.#watchFor(WAIT_MS_MAX);
    }
  }

  /** Takes back those of the waiting that it is true of. */
  withdraw(isMeant: (held: T) => boolean): T[] {
    const meant = this.#waiting.filter(({ held }) => isMeant(held));
    for (const waiting of meant) this.#waiting.splice(this.#waiting.indexOf(waiting), 1);
    return meant.map(({ held }) => held);
  }

  /** Lets those begin that wait, as far as there is room: an attempt has ended, or there are more slots. */
  fill(): void {
    while (this.#waiting.length > 0 && this.#seat.take()) {
      const next = this.#waiting.shift();
      if (next !== undefined) this.#start(next.held, performance.now() - next.sinceMs);
    }
  }

  /** There is more to claim than there is room for. */
  want(): void {
    this.#seat.want();
  }

  /** Nothing was found for the place that is kept. */
  pass(): void {
    this.#seat.pass();
  }

  /** It takes no more turns; what runs has ended. */
  leave(): void {
    this.#seat.leave();
  }

  #start(held: T, waitedMs: number): void {
    const beganAt = performance.now();
    void this.#options.run(held, waitedMs).then(() => {
      this.#learn(performance.now() - beganAt);
      this.#seat.give();
    });
  }

  #learn(ms: number): void {
    const before = this.#meanMs === Infinity ? ms : this.#meanMs;
    this.#meanMs = before + (ms - before) * NEWEST_WEIGHT;
  }

  #watchFor(ms: number): void {
    this.#watched = true;
    setTimeout(() => this.#giveUp(), ms).unref();
  }

  #giveUp(): void {
    this.#watched = false;
    const latest = performance.now() - WAIT_MS_MAX;
    const late = new Set(
      this.#waiting.filter(({ sinceMs }) => sinceMs <= latest).map(({ held }) => held),
    );
    // Nothing ended meanwhile: to go on claiming ahead would only give back once a second.
    if (late.size > 0) this.#meanMs = Math.max(this.#meanMs, WAIT_MS_MAX);
    this.#options.giveBack(this.withdraw((held) => late.has(held)));
    const [first] = this.#waiting;
    if (first !== undefined) this.#watchFor(Math.max(1, first.sinceMs - latest));
  }
}
