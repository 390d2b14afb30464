/** Time as the product writes it: UTC, ISO 8601, always three digits of milliseconds, so it sorts. */
export type Timestamp = string;

let lastSecond = NaN;
let upToSecond = '';

/** Most are of the second that was written last; to write all of it anew takes twenty times as long. */
export function toTimestamp(ms: number): Timestamp {
  const whole = Math.trunc(ms);
  const second = Math.floor(whole / 1000);
  if (second !== lastSecond) {
    upToSecond = new Date(second * 1000).toISOString().slice(0, -'000Z'.length);
    lastSecond = second;
  }
  return `${upToSecond}${String(whole - second * 1000).padStart(3, '0')}Z`;
}

export function fromTimestamp(at: Timestamp): number {
  return Date.parse(at);
}

/** Monotonic milliseconds for durations inside one process. */
export function monotonicMs(): number {
  return performance.now();
}
