/** Range of a time axis. */
export interface Span {
  readonly from: number;
  readonly to: number;
}

/** Returns the position of a time on the axis, from 0 to 1; undefined outside. */
export function placeOf(at: number, { from, to }: Span): number | undefined {
  const share = (at - from) / (to - from);
  return share < 0 || share > 1 ? undefined : share;
}

const HOUR = 60 * 60 * 1000;
const steps = [HOUR / 4, HOUR / 2, HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, 24 * HOUR, 48 * HOUR];
const MARKS_MAX = 9;

/** Returns round times within the span, at most nine. */
export function marksOf(span: Span, offsetMs: number): number[] {
  const step = steps.find((ms) => (span.to - span.from) / ms <= MARKS_MAX) ?? 96 * HOUR;
  const first = Math.ceil((span.from - offsetMs) / step) * step + offsetMs;
  const marks: number[] = [];
  for (let at = first; at <= span.to; at += step) marks.push(at);
  return marks;
}
