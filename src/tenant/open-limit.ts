/** Limits how many tenants open at once, and how many are open. */
export interface Gate {
  /** True if another one needn't wait. */
  readonly isOpen: boolean;
  /** True if all slots are in use or reserved. */
  readonly isFull: boolean;
  readonly waiting: number;
  /** Runs `enter` when a slot is free. The slot is released if it returns false or throws. */
  pass(name: string, enter: () => Promise<boolean>): Promise<void>;
  /** Lets waiters of that name, or all, continue without a slot, so that they fail quickly. */
  hurry(name?: string): void;
  /** Releases a slot. */
  leave(): void;
}

/** `makeRoom` is called when all slots are in use and someone waits. */
export function makeGate(passingMax: number, insideMax: number, makeRoom: () => void): Gate {
  let waiting: Waiting[] = [];
  let passing = 0;
  let inside = 0;

  const isFull = (): boolean => inside + passing >= insideMax;
  const isOpen = (): boolean => passing < passingMax && !isFull();
  const next = (): void => {
    while (isOpen() && waiting.length > 0) {
      passing += 1;
      waiting.shift()?.begin();
    }
    if (waiting.length > 0 && isFull()) makeRoom();
  };

  return {
    get isOpen() {
      return isOpen() && waiting.length === 0;
    },
    get isFull() {
      return isFull();
    },
    get waiting() {
      return waiting.length;
    },
    async pass(name, enter) {
      await new Promise<void>((begin) => {
        waiting.push({ name, begin });
        next();
      });
      let isInside = false;
      try {
        isInside = await enter();
      } finally {
        passing -= 1;
        if (isInside) inside += 1;
        next();
      }
    },
    hurry(name) {
      const meant = waiting.filter((one) => name === undefined || one.name === name);
      waiting = waiting.filter((one) => !meant.includes(one));
      passing += meant.length;
      for (const { begin } of meant) begin();
    },
    leave() {
      inside -= 1;
      next();
    },
  };
}

interface Waiting {
  readonly name: string;
  readonly begin: () => void;
}
