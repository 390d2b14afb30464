import { limits } from '../base/limits.ts';

/** A job that is claimed ahead should find a free slot within this time. */
const AHEAD_MS = 20;
/** When it has not after this time, others may have it. */
const WAIT_MS_MAX = 1000;
/** The weight of the newest attempt in the moving average. */
const NEWEST_WEIGHT = 0.1;

interface Waiting<T> {
  readonly held: T;
  readonly sinceMs: number;
}

interface SlotsOptions<T> {
  readonly turns: SlotPool;
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
  readonly #seat: SlotShare;
  readonly #waiting: Waiting<T>[] = [];
  #meanMs = Infinity;
  #watched = false;

  constructor(options: SlotsOptions<T>) {
    this.#options = options;
    this.#seat = options.turns.join(options.most, () => {
      this.fill();
      if (this.#seat.isReserved) options.onSpare();
    });
  }

  /** How many claims may be held: one for each slot, and one for each that will soon be free. */
  get capacity(): number {
    const count = this.#seat.places;
    return count + Math.min(count, Math.floor((count * AHEAD_MS) / this.#meanMs));
  }

  enter(held: T): void {
    if (this.#seat.acquire()) {
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
    while (this.#waiting.length > 0 && this.#seat.acquire()) {
      const next = this.#waiting.shift();
      if (next !== undefined) this.#start(next.held, performance.now() - next.sinceMs);
    }
  }

  /** There is more to claim than there is room for. */
  want(): void {
    this.#seat.request();
  }

  /** Nothing was found for the place that is kept. */
  pass(): void {
    this.#seat.decline();
  }

  /** It takes no more turns; what runs has ended. */
  leave(): void {
    this.#seat.leave();
  }

  #start(held: T, waitedMs: number): void {
    const beganAt = performance.now();
    void this.#options.run(held, waitedMs).then(() => {
      this.#learn(performance.now() - beganAt);
      this.#seat.release();
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

/** The share of one ledger in the slots of a process. */
export interface SlotShare {
  /** How many places it has or could have now. */
  readonly places: number;
  /** A place is kept for it that it has not taken. */
  readonly isReserved: boolean;
  /** Takes a place if it may have one now; else `onRoom` is called when it may. */
  acquire(): boolean;
  /** It would fill a place that others have; `onRoom` is called when there is one. */
  request(): void;
  /** Releases a reserved slot that isn't needed. */
  decline(): void;
  /** Gives one back. */
  release(): void;
  /** It wants no more of them. */
  leave(): void;
}

export interface SlotPool {
  /** Joins those who take turns; `most` is what it may have at once, undefined for all. */
  join(most: () => number | undefined, onRoom: () => void): SlotShare;
}

interface PoolMember {
  readonly most: () => number | undefined;
  readonly onRoom: () => void;
  /** Places in which its attempts run. */
  busy: number;
  /** A place is kept for it, until then. */
  reservedUntil: number | undefined;
  isWaiting: boolean;
  /** When it was last given one, as a number that grows. */
  servedAt: number;
}

/**
 * The places of a process, for all ledgers that are awake in it. A place that is given back is for
 * the one who wants it and has the fewest, then for the one that was served longest ago. While there
 * is more than one, none may have all: who comes next finds a place at once, however long the
 * attempts of the others are.
 */
export function makeSlotPool(count: () => number): SlotPool {
  return new FairSlotPool(count);
}

class FairSlotPool implements SlotPool {
  readonly #count: () => number;
  readonly #sitters = new Set<PoolMember>();
  /** Places that are busy or kept. */
  #used = 0;
  #turn = 0;
  #isWatching = false;

  constructor(count: () => number) {
    this.#count = count;
  }

  join(most: () => number | undefined, onRoom: () => void): SlotShare {
    const sitter: PoolMember = {
      most,
      onRoom,
      busy: 0,
      reservedUntil: undefined,
      isWaiting: false,
      servedAt: 0,
    };
    this.#sitters.add(sitter);
    const room = (): number => this.#room(sitter);
    return {
      get places() {
        return placesOf(sitter) + room();
      },
      get isReserved() {
        return sitter.reservedUntil !== undefined;
      },
      acquire: () => this.#take(sitter),
      request: () => {
        // Alone it finds what it gives back.
        if (this.#sitters.size > 1) sitter.isWaiting = true;
      },
      decline: () => {
        if (this.#release(sitter)) this.#offer();
      },
      release: () => {
        sitter.busy -= 1;
        this.#used -= 1;
        this.#offer();
      },
      leave: () => {
        this.#release(sitter);
        this.#sitters.delete(sitter);
        this.#offer();
      },
    };
  }

  #take(sitter: PoolMember): boolean {
    if (!this.#release(sitter) && this.#room(sitter) === 0) {
      sitter.isWaiting = true;
      return false;
    }
    sitter.busy += 1;
    sitter.servedAt = this.#turn += 1;
    this.#used += 1;
    return true;
  }

  /** How many more it may have now. */
  #room(sitter: PoolMember): number {
    const all = this.#count();
    const open = this.#sitters.size > 1 && all > 1 ? all - 1 : all;
    const most = Math.min(open, sitter.most() ?? open);
    return Math.max(0, Math.min(all - this.#used, most - placesOf(sitter)));
  }

  /** Keeps a place for whoever is next, one after the other, as long as there are any. */
  #offer(): void {
    for (let next = this.#next(); next !== undefined; next = this.#next()) {
      next.isWaiting = false;
      next.reservedUntil = performance.now() + limits.turnMs;
      this.#used += 1;
      next.onRoom();
      if (next.reservedUntil !== undefined) this.#watch();
    }
  }

  #next(): PoolMember | undefined {
    let next: PoolMember | undefined;
    for (const sitter of this.#sitters) {
      if (!sitter.isWaiting || this.#room(sitter) === 0) continue;
      if (next === undefined || comesBefore(sitter, next)) next = sitter;
    }
    return next;
  }

  /** Expires reservations that aren't used, so that they don't block other ledgers. */
  #watch(): void {
    if (this.#isWatching) return;
    this.#isWatching = true;
    const look = (): void => {
      this.#isWatching = false;
      const now = performance.now();
      for (const sitter of this.#sitters) {
        if ((sitter.reservedUntil ?? Infinity) <= now) this.#release(sitter);
      }
      this.#offer();
      if ([...this.#sitters].some(({ reservedUntil: keptUntil }) => keptUntil !== undefined))
        this.#watch();
    };
    setTimeout(look, limits.turnMs).unref();
  }

  /** Drops the reservation. Returns whether there was one. */
  #release(sitter: PoolMember): boolean {
    if (sitter.reservedUntil === undefined) return false;
    sitter.reservedUntil = undefined;
    this.#used -= 1;
    return true;
  }
}

function placesOf({ busy, reservedUntil: keptUntil }: PoolMember): number {
  return busy + (keptUntil === undefined ? 0 : 1);
}

function comesBefore(one: PoolMember, other: PoolMember): boolean {
  const [mine, theirs] = [placesOf(one), placesOf(other)];
  return mine === theirs ? one.servedAt < other.servedAt : mine < theirs;
}
