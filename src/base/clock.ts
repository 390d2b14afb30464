/** Time as the product writes it: UTC, ISO 8601, always three digits of milliseconds, so it sorts. */
export type Timestamp = string;

export function toTimestamp(ms: number): Timestamp {
  return new Date(ms).toISOString();
}

export function fromTimestamp(at: Timestamp): number {
  return Date.parse(at);
}

/** Monotonic milliseconds for durations inside one process. */
export function monotonicMs(): number {
  return performance.now();
}
