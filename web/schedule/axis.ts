/** Past and coming times on one axis. */
export interface Span {
  readonly from: number;
  readonly to: number;
}

/** Where a time lies, from 0 to 1; undefined outside. */
export function placeOf(at: number, { from, to }: Span): number | undefined {
  const share = (at - from) / (to - from);
  return share < 0 || share > 1 ? undefined : share;
}

const HOUR = 60 * 60 * 1000;
const steps = [HOUR / 4, HOUR / 2, HOUR, 3 * HOUR, 6 * HOUR, 12 * HOUR, 24 * HOUR, 48 * HOUR];
const MARKS_MAX = 9;

/** Round times within the span, few enough to be read. */
export function marksOf(span: Span, offsetMs: number): number[] {
  const step = steps.find((one) => (span.to - span.from) / one <= MARKS_MAX) ?? 96 * HOUR;
  const first = Math.ceil((span.from - offsetMs) / step) * step + offsetMs;
  const marks: number[] = [];
  for (let at = first; at <= span.to; at += step) marks.push(at);
  return marks;
}
