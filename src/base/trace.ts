import { hash, randomBytes } from 'node:crypto';

/** A place in a trace, as W3C's `traceparent` names it. */
export interface TraceContext {
  readonly traceId: string;
  readonly spanId: string;
  readonly isSampled: boolean;
}

/** What a chain of work carries in its baggage, when it began within somebody else's trace. */
export const TRACE_KEY = 'traceparent';

const PATTERN = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;

/** Undefined for what is none: then it is as if nothing had been said. */
export function parseTraceparent(text: unknown): TraceContext | undefined {
  const [, version, traceId, spanId, flags, more] =
    typeof text === 'string' && text.length <= 200 ? (PATTERN.exec(text) ?? []) : [];
  if (traceId === undefined || spanId === undefined || version === 'ff') return undefined;
  // What the first version may not have, later ones may.
  if (version === '00' && more !== undefined) return undefined;
  if (/^0+$/.test(traceId) || /^0+$/.test(spanId)) return undefined;
  return { traceId, spanId, isSampled: (Number.parseInt(flags ?? '00', 16) & 1) === 1 };
}

export function formatTraceparent({ traceId, spanId, isSampled }: TraceContext): string {
  return `00-${traceId}-${spanId}-${isSampled ? '01' : '00'}`;
}

/** The same for the same words, on every host and in every attempt to tell it. */
export function toSpanId(...words: readonly (string | number)[]): string {
  return hash('sha256', JSON.stringify(words)).slice(0, 16);
}

/** An id of ours is as long as that of a trace. */
export function toTraceId(id: string): string {
  const digits = id.replaceAll('-', '');
  if (/^[0-9a-f]{32}$/.test(digits)) return digits;
  return hash('sha256', id).slice(0, 32);
}

/** A new trace, or the next place in one. */
export function createTraceContext(parent: TraceContext | undefined): TraceContext {
  return {
    traceId: parent?.traceId ?? randomBytes(16).toString('hex'),
    spanId: randomBytes(8).toString('hex'),
    isSampled: parent?.isSampled ?? true,
  };
}
