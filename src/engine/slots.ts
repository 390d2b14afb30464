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

/**
 * The places of this process in which attempts run, and the claims that wait for one. Where attempts
 * take seconds none waits: another host could have it. Where they take milliseconds, a place that
 * waited for the next claim would be empty for much of its time.
 */
export class Slots<T> {
  readonly #count: () => number;
  /** Runs it to its end; never rejects. */
  readonly #run: (held: T, waitedMs: number) => Promise<void>;
  readonly #giveBack: (held: readonly T[]) => void;
  readonly #waiting: Waiting<T>[] = [];
  #busy = 0;
  #meanMs = Infinity;
  #watched = false;

  constructor(
    count: () => number,
    run: (held: T, waitedMs: number) => Promise<void>,
    giveBack: (held: readonly T[]) => void,
  ) {
    this.#count = count;
    this.#run = run;
    this.#giveBack = giveBack;
  }

  /** How many claims may be held: one for each slot, and one for each that will soon be free. */
  get capacity(): number {
    const count = this.#count();
    return count + Math.min(count, Math.floor((count * AHEAD_MS) / this.#meanMs));
  }

  enter(held: T): void {
    if (this.#busy < this.#count()) {
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
    while (this.#busy < this.#count()) {
      const next = this.#waiting.shift();
      if (next === undefined) return;
      this.#start(next.held, performance.now() - next.sinceMs);
    }
  }

  #start(held: T, waitedMs: number): void {
    const beganAt = performance.now();
    this.#busy += 1;
    void this.#run(held, waitedMs).then(() => {
      this.#busy -= 1;
      this.#learn(performance.now() - beganAt);
      this.fill();
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
    this.#giveBack(this.withdraw((held) => late.has(held)));
    const [first] = this.#waiting;
    if (first !== undefined) this.#watchFor(Math.max(1, first.sinceMs - latest));
  }
}
