import { limits } from '../base/limits.ts';

/** Bodies on their way in: what is kept of the large ones is limited for all of them together. */
export interface Crowd {
  /** `giveWay` is called when there is too much, and this one has been large for longest. */
  enter(giveWay: () => void): Passage;
}

export interface Passage {
  /** So many bytes more came of it. */
  grow(bytes: number): void;
  /** It is here wholly, or given up. */
  leave(): void;
}

export function makeCrowd(
  bytesMax: number = limits.bodiesBytesMax,
  smallBytes: number = limits.bodySmallBytes,
): Crowd {
  // In the order in which they became large: who sends at an ordinary pace is gone before its turn.
  const large = new Map<Passage, () => void>();
  let total = 0;
  const makeRoom = (): void => {
    for (const [longest, giveWay] of large) {
      if (total <= bytesMax) return;
      longest.leave();
      giveWay();
    }
  };
  return {
    enter(giveWay) {
      let size = 0;
      const passage: Passage = {
        grow(bytes) {
          size += bytes;
          if (size <= smallBytes) return;
          total += large.has(passage) ? bytes : size;
          large.set(passage, giveWay);
          makeRoom();
        },
        leave() {
          if (large.delete(passage)) total -= size;
        },
      };
      return passage;
    },
  };
}
