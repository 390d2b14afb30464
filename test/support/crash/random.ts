/** Returns pseudo-random numbers in [0, 1), which are reproducible by their seed. */
export type Random = () => number;

export function makeRandom(seed: number): Random {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Returns an integer from `low` to `high`. */
export function between(random: Random, low: number, high: number): number {
  return low + Math.floor(random() * (high - low + 1));
}

export function pick<T>(from: readonly T[], random: Random): T {
  const picked = from[between(random, 0, from.length - 1)];
  if (picked === undefined) throw new Error('there is nothing to pick from');
  return picked;
}
