/** Lets so many through at once, and so many be inside. */
export interface Gate {
  /** Whether one more would not have to wait. */
  readonly isOpen: boolean;
  /** Whether all places inside are taken, or will be. */
  readonly isFull: boolean;
  /** How many have to wait. */
  readonly waiting: number;
  /** Runs it when there is room; who is not inside afterwards (it says so, or throws) has left. */
  pass(name: string, enter: () => Promise<boolean>): Promise<void>;
  /** Those of that name, or all, need not wait for room: they only come to hear that they may not. */
  hurry(name?: string): void;
  /** One that was inside has left. */
  leave(): void;
}

/** `makeRoom` is asked when all places inside are taken and somebody waits. */
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
