import { limits } from '../base/limits.ts';
import type { House } from './open-tenant.service.ts';

export interface RoomOptions {
  /** Those that are awake, and not being put to sleep. */
  readonly houses: () => readonly House[];
  /** How many wait for a place. */
  readonly wanted: () => number;
  readonly close: (house: House) => Promise<void>;
  readonly onError: (error: unknown) => void;
}

/**
 * Places for tenants that wait to be woken while as many as may be are awake. Who has nothing to do
 * goes first. Where all have, each has its turn: who has been awake longest starts nothing more and
 * goes when what it runs has ended, which it does by itself or by its timeout: nothing is cut short.
 */
export class Room {
  readonly #options: RoomOptions;
  readonly #leaving = new Set<House>();
  #making: Promise<void> | undefined;
  #isAsked = false;

  constructor(options: RoomOptions) {
    this.#options = options;
  }

  /** Does what can be done now for one of those that wait, if any do. */
  make(): Promise<void> {
    this.#isAsked = true;
    return (this.#making ??= this.#makeAll().finally(() => (this.#making = undefined)));
  }

  /** Somebody came to it, or its place is not needed any more. */
  recall(house: House): void {
    if (this.#leaving.delete(house)) house.engine.resume();
  }

  /** Whoever still waits when one has gone asks again meanwhile. */
  async #makeAll(): Promise<void> {
    while (this.#isAsked) {
      this.#isAsked = false;
      await this.#make().catch(this.#options.onError);
    }
  }

  async #make(): Promise<void> {
    if (this.#options.wanted() === 0) {
      for (const house of this.#leaving) this.recall(house);
      return;
    }
    const idle = await this.#findIdle();
    if (idle !== undefined) await this.#close(idle);
    else this.#endTurn();
  }

  /** The one that has had nothing to do for longest. */
  async #findIdle(): Promise<House | undefined> {
    let found: House | undefined;
    let foundMs = 0;
    for (const house of this.#options.houses()) {
      const ms = await house.idleMs();
      if (ms > foundMs) [found, foundMs] = [house, ms];
    }
    return found;
  }

  #endTurn(): void {
    if (this.#leaving.size >= this.#options.wanted()) return;
    const [first] = this.#options
      .houses()
      .filter((house) => house.visitors === 0 && !this.#leaving.has(house))
      .sort((one, other) => other.awakeMs - one.awakeMs);
    if (first === undefined || first.awakeMs < limits.tenantAwakeTurnMs) return;
    this.#leaving.add(first);
    this.#seeOff(first).catch(this.#options.onError);
  }

  async #seeOff(house: House): Promise<void> {
    await house.engine.drain();
    if (this.#leaving.delete(house)) await this.#close(house);
  }

  /** Somebody may have come while it was looked at. */
  async #close(house: House): Promise<void> {
    if (house.visitors > 0) return;
    this.#leaving.delete(house);
    await this.#options.close(house);
  }
}
