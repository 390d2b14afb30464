import { limits } from '../base/limits.ts';
import type { OpenTenant } from './open-tenant.service.ts';

/** The slots of a process for open tenants, and for tenants that are being opened. */
export interface OpenLimit {
  /** True if another tenant can open without waiting. */
  readonly isFree: boolean;
  /** True if all slots are in use or reserved. */
  readonly isFull: boolean;
  /** The number of tenants that wait for a slot. */
  readonly waiting: number;
  /** Runs `open` when a slot is free. The slot is released if it returns false or throws. */
  enter(name: string, open: () => Promise<boolean>): Promise<void>;
  /** Lets waiters of that name, or all, continue without a slot, so that they fail quickly. */
  hurry(name?: string): void;
  /** Releases the slot of a closed tenant. */
  leave(): void;
}

/** `makeSpace` is called when all slots are in use and a tenant waits. */
export function makeOpenLimit(
  openingMax: number,
  openMax: number,
  makeSpace: () => void,
): OpenLimit {
  let waiting: Waiter[] = [];
  let opening = 0;
  let open = 0;

  const isFull = (): boolean => open + opening >= openMax;
  const isFree = (): boolean => opening < openingMax && !isFull();
  const next = (): void => {
    while (isFree() && waiting.length > 0) {
      opening += 1;
      waiting.shift()?.begin();
    }
    if (waiting.length > 0 && isFull()) makeSpace();
  };

  return {
    get isFree() {
      return isFree() && waiting.length === 0;
    },
    get isFull() {
      return isFull();
    },
    get waiting() {
      return waiting.length;
    },
    async enter(name, openTenant) {
      await new Promise<void>((begin) => {
        waiting.push({ name, begin });
        next();
      });
      let isOpen = false;
      try {
        isOpen = await openTenant();
      } finally {
        opening -= 1;
        if (isOpen) open += 1;
        next();
      }
    },
    hurry(name) {
      const hurried = waiting.filter((one) => name === undefined || one.name === name);
      waiting = waiting.filter((one) => !hurried.includes(one));
      opening += hurried.length;
      for (const { begin } of hurried) begin();
    },
    leave() {
      open -= 1;
      next();
    },
  };
}

interface Waiter {
  readonly name: string;
  readonly begin: () => void;
}

export interface EvictionOptions {
  /** Lists the open tenants that aren't being closed. */
  readonly tenants: () => readonly OpenTenant[];
  /** Returns how many tenants wait for a slot. */
  readonly wanted: () => number;
  readonly close: (tenant: OpenTenant) => Promise<void>;
  readonly onError: (error: unknown) => void;
}

/**
 * Closes tenants while others wait for a slot: first the one that has been idle for longest. If none is
 * idle, the one that has been open for longest stops claiming and is closed when its attempts have
 * ended. No attempt is interrupted.
 */
export class TenantEviction {
  readonly #options: EvictionOptions;
  readonly #draining = new Set<OpenTenant>();
  #running: Promise<void> | undefined;
  #isRequested = false;

  constructor(options: EvictionOptions) {
    this.#options = options;
  }

  /** Closes or drains a tenant, if another one waits. A call during a pass requests one more pass. */
  makeSpace(): Promise<void> {
    this.#isRequested = true;
    return (this.#running ??= this.#runAll().finally(() => (this.#running = undefined)));
  }

  /** Stops draining a tenant: a caller visits it, or its slot isn't needed any more. */
  cancel(tenant: OpenTenant): void {
    if (this.#draining.delete(tenant)) tenant.engine.resume();
  }

  async #runAll(): Promise<void> {
    while (this.#isRequested) {
      this.#isRequested = false;
      await this.#runOnce().catch(this.#options.onError);
    }
  }

  async #runOnce(): Promise<void> {
    if (this.#options.wanted() === 0) {
      for (const tenant of this.#draining) this.cancel(tenant);
      return;
    }
    const idle = await this.#findIdle();
    if (idle !== undefined) await this.#close(idle);
    else this.#drainOldest();
  }

  /** Finds the tenant that has been idle for longest. */
  async #findIdle(): Promise<OpenTenant | undefined> {
    let found: OpenTenant | undefined;
    let foundMs = 0;
    for (const tenant of this.#options.tenants()) {
      const ms = await tenant.idleMs();
      if (ms > foundMs) [found, foundMs] = [tenant, ms];
    }
    return found;
  }

  #drainOldest(): void {
    if (this.#draining.size >= this.#options.wanted()) return;
    const [oldest] = this.#options
      .tenants()
      .filter((tenant) => tenant.visits === 0 && !this.#draining.has(tenant))
      .sort((one, other) => other.openMs - one.openMs);
    if (oldest === undefined || oldest.openMs < limits.tenantAwakeTurnMs) return;
    this.#draining.add(oldest);
    this.#drain(oldest).catch(this.#options.onError);
  }

  async #drain(tenant: OpenTenant): Promise<void> {
    await tenant.engine.drain();
    if (this.#draining.delete(tenant)) await this.#close(tenant);
  }

  /** Checks for visits again, because one may have started meanwhile. */
  async #close(tenant: OpenTenant): Promise<void> {
    if (tenant.visits > 0) return;
    this.#draining.delete(tenant);
    await this.#options.close(tenant);
  }
}
