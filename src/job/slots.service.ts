import { limits } from '../base/limits.ts';

/** A job that is claimed ahead should find a free slot within this time. */
const AHEAD_MS = 20;
/** A claim that found no slot within this time is released, so that other hosts can have the job. */
const WAIT_MS_MAX = 1000;
/** The weight of the newest attempt in the moving average. */
const NEWEST_WEIGHT = 0.1;

interface WaitingClaim<T> {
  readonly claim: T;
  readonly sinceMs: number;
}

interface SlotsOptions<T> {
  readonly pool: SlotPool;
  /** The most claims that may run at once. */
  readonly slotsMax: () => number | undefined;
  /** Runs a claim to its end. Never rejects. */
  readonly run: (claim: T, waitedMs: number) => Promise<void>;
  readonly release: (claims: readonly T[]) => void;
  /** Called when a slot is reserved for this ledger and no claim waits for it. */
  readonly onReserved: () => void;
}

/**
 * The slots in which attempts of one ledger run, and the claims that wait for a slot. If attempts take
 * seconds, no claim waits: another host could run the job. If they take milliseconds, jobs are claimed
 * ahead. A slot would otherwise be empty for much of its time, until the next claim is committed.
 */
export class Slots<T> {
  readonly #options: SlotsOptions<T>;
  readonly #share: SlotShare;
  readonly #waiting: WaitingClaim<T>[] = [];
  /** The moving average of the duration of attempts. */
  #meanMs = Infinity;
  #isTimerSet = false;

  constructor(options: SlotsOptions<T>) {
    this.#options = options;
    this.#share = options.pool.join(options.slotsMax, () => {
      this.startWaiting();
      if (this.#share.isReserved) options.onReserved();
    });
  }

  /** The number of claims to hold: one for each slot, and one for each slot that is free soon. */
  get capacity(): number {
    const { slots } = this.#share;
    return slots + Math.min(slots, Math.floor((slots * AHEAD_MS) / this.#meanMs));
  }

  /** Runs a claim, now or when a slot is free. */
  add(claim: T): void {
    if (this.#share.acquire()) {
      this.#start(claim, 0);
    } else {
      this.#waiting.push({ claim, sinceMs: performance.now() });
      if (!this.#isTimerSet) this.#setTimer(WAIT_MS_MAX);
    }
  }

  /** Removes and returns the waiting claims that match. */
  remove(matches: (claim: T) => boolean): T[] {
    const matching = this.#waiting.filter(({ claim }) => matches(claim));
    for (const waiting of matching) this.#waiting.splice(this.#waiting.indexOf(waiting), 1);
    return matching.map(({ claim }) => claim);
  }

  /** Starts waiting claims in the slots that are free. */
  startWaiting(): void {
    while (this.#waiting.length > 0 && this.#share.acquire()) {
      const next = this.#waiting.shift();
      if (next !== undefined) this.#start(next.claim, performance.now() - next.sinceMs);
    }
  }

  /** Requests one more slot from the pool. */
  request(): void {
    this.#share.request();
  }

  /** Declines the reserved slot. */
  decline(): void {
    this.#share.decline();
  }

  leave(): void {
    this.#share.leave();
  }

  #start(claim: T, waitedMs: number): void {
    const startedAt = performance.now();
    void this.#options.run(claim, waitedMs).then(() => {
      this.#updateMean(performance.now() - startedAt);
      this.#share.release();
    });
  }

  #updateMean(ms: number): void {
    const before = this.#meanMs === Infinity ? ms : this.#meanMs;
    this.#meanMs = before + (ms - before) * NEWEST_WEIGHT;
  }

  #setTimer(ms: number): void {
    this.#isTimerSet = true;
    setTimeout(() => this.#releaseLate(), ms).unref();
  }

  #releaseLate(): void {
    this.#isTimerSet = false;
    const latest = performance.now() - WAIT_MS_MAX;
    const late = new Set(
      this.#waiting.filter(({ sinceMs }) => sinceMs <= latest).map(({ claim }) => claim),
    );
    // No attempt ended in the meantime. Claiming ahead would only release the claims every second.
    if (late.size > 0) this.#meanMs = Math.max(this.#meanMs, WAIT_MS_MAX);
    this.#options.release(this.remove((claim) => late.has(claim)));
    const [first] = this.#waiting;
    if (first !== undefined) this.#setTimer(Math.max(1, first.sinceMs - latest));
  }
}

/** The share of one ledger in the slots of a process. */
export interface SlotShare {
  /** The number of slots that it has or could have now. */
  readonly slots: number;
  /** True if a slot is reserved for it. */
  readonly isReserved: boolean;
  /** Takes a slot and returns true, or returns false. Then `onSlot` is called when one is reserved. */
  acquire(): boolean;
  /** Requests a slot that another ledger uses. `onSlot` is called when one is reserved. */
  request(): void;
  /** Releases a reserved slot that isn't needed. */
  decline(): void;
  /** Releases a slot that it acquired. */
  release(): void;
  leave(): void;
}

export interface SlotPool {
  /** Adds a ledger. `slotsMax` returns how many slots it may have, undefined for no limit of its own. */
  join(slotsMax: () => number | undefined, onSlot: () => void): SlotShare;
}

interface PoolMember {
  readonly slotsMax: () => number | undefined;
  readonly onSlot: () => void;
  /** The number of slots in which its attempts run. */
  busy: number;
  /** When the reservation of a slot expires. Undefined without a reservation. */
  reservedUntil: number | undefined;
  isWaiting: boolean;
  /** The number of its last turn. Turns are numbered in sequence. */
  lastTurn: number;
}

/**
 * Creates the slots of a process, which all its open ledgers share. A slot that becomes free goes to
 * the waiting ledger with the fewest slots, then to the one whose last turn is longest ago. With
 * several ledgers none may have all slots. So a ledger that gets work finds a slot at once, however
 * long the attempts of the others take.
 */
export function makeSlotPool(count: () => number): SlotPool {
  return new FairSlotPool(count);
}

class FairSlotPool implements SlotPool {
  readonly #count: () => number;
  readonly #members = new Set<PoolMember>();
  /** The number of slots that are busy or reserved. */
  #used = 0;
  #turn = 0;
  #isTimerSet = false;

  constructor(count: () => number) {
    this.#count = count;
  }

  join(slotsMax: () => number | undefined, onSlot: () => void): SlotShare {
    const member: PoolMember = {
      slotsMax,
      onSlot,
      busy: 0,
      reservedUntil: undefined,
      isWaiting: false,
      lastTurn: 0,
    };
    this.#members.add(member);
    const countFree = (): number => this.#countFree(member);
    return {
      get slots() {
        return countSlots(member) + countFree();
      },
      get isReserved() {
        return member.reservedUntil !== undefined;
      },
      acquire: () => this.#acquire(member),
      request: () => {
        // A single ledger finds the slots that it releases anyway.
        if (this.#members.size > 1) member.isWaiting = true;
      },
      decline: () => {
        if (this.#dropReservation(member)) this.#reserveSlots();
      },
      release: () => {
        member.busy -= 1;
        this.#used -= 1;
        this.#reserveSlots();
      },
      leave: () => {
        this.#dropReservation(member);
        this.#members.delete(member);
        this.#reserveSlots();
      },
    };
  }

  #acquire(member: PoolMember): boolean {
    if (!this.#dropReservation(member) && this.#countFree(member) === 0) {
      member.isWaiting = true;
      return false;
    }
    member.busy += 1;
    member.lastTurn = this.#turn += 1;
    this.#used += 1;
    return true;
  }

  /** Counts the slots that a member may acquire now. */
  #countFree(member: PoolMember): number {
    const all = this.#count();
    const shared = this.#members.size > 1 && all > 1 ? all - 1 : all;
    const most = Math.min(shared, member.slotsMax() ?? shared);
    return Math.max(0, Math.min(all - this.#used, most - countSlots(member)));
  }

  /** Reserves the free slots for waiting members, one after the other. */
  #reserveSlots(): void {
    for (let next = this.#findNext(); next !== undefined; next = this.#findNext()) {
      next.isWaiting = false;
      next.reservedUntil = performance.now() + limits.ledgerTurnMs;
      this.#used += 1;
      next.onSlot();
      if (next.reservedUntil !== undefined) this.#setTimer();
    }
  }

  #findNext(): PoolMember | undefined {
    let next: PoolMember | undefined;
    for (const member of this.#members) {
      if (!member.isWaiting || this.#countFree(member) === 0) continue;
      if (next === undefined || comesBefore(member, next)) next = member;
    }
    return next;
  }

  /** Expires reservations that aren't used, so that they don't block other ledgers. */
  #setTimer(): void {
    if (this.#isTimerSet) return;
    this.#isTimerSet = true;
    const expire = (): void => {
      this.#isTimerSet = false;
      const now = performance.now();
      for (const member of this.#members) {
        if ((member.reservedUntil ?? Infinity) <= now) this.#dropReservation(member);
      }
      this.#reserveSlots();
      if ([...this.#members].some(({ reservedUntil }) => reservedUntil !== undefined))
        this.#setTimer();
    };
    setTimeout(expire, limits.ledgerTurnMs).unref();
  }

  /** Drops the reservation. Returns whether there was one. */
  #dropReservation(member: PoolMember): boolean {
    if (member.reservedUntil === undefined) return false;
    member.reservedUntil = undefined;
    this.#used -= 1;
    return true;
  }
}

function countSlots({ busy, reservedUntil }: PoolMember): number {
  return busy + (reservedUntil === undefined ? 0 : 1);
}

function comesBefore(one: PoolMember, other: PoolMember): boolean {
  const [mine, theirs] = [countSlots(one), countSlots(other)];
  return mine === theirs ? one.lastTurn < other.lastTurn : mine < theirs;
}
