/** The rate of growth, robust against outliers. */

/** The median of the slopes between all pairs (Theil and Sen): a few wild values do not change it. */
export function slopeOf(values: readonly number[]): number {
  const slopes = values.flatMap((value, from) =>
    values.slice(from + 1).map((later, index) => (later - value) / (index + 1)),
  );
  return medianOf(slopes);
}

export function medianOf(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = (sorted.length - 1) / 2;
  const low = sorted[Math.floor(middle)] ?? 0;
  const high = sorted[Math.ceil(middle)] ?? 0;
  return (low + high) / 2;
}
