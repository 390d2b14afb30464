import { hash, randomBytes } from 'node:crypto';

/** A position in a trace, as in W3C's `traceparent`. */
export interface TraceContext {
  readonly traceId: string;
  readonly spanId: string;
  readonly isSampled: boolean;
}

/** The baggage key for the trace that a caller started a chain of work in. */
export const TRACE_KEY = 'traceparent';

const PATTERN = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/;

/** Parses a `traceparent`. Returns undefined for an invalid one, which is ignored. */
export function parseTraceparent(text: unknown): TraceContext | undefined {
  const [, version, traceId, spanId, flags, more] =
    typeof text === 'string' && text.length <= 200 ? (PATTERN.exec(text) ?? []) : [];
  if (traceId === undefined || spanId === undefined || version === 'ff') return undefined;
  // Only later versions may have further fields.
  if (version === '00' && more !== undefined) return undefined;
  if (/^0+$/.test(traceId) || /^0+$/.test(spanId)) return undefined;
  return { traceId, spanId, isSampled: (Number.parseInt(flags ?? '00', 16) & 1) === 1 };
}

export function formatTraceparent({ traceId, spanId, isSampled }: TraceContext): string {
  return `00-${traceId}-${spanId}-${isSampled ? '01' : '00'}`;
}

/** Returns the same id for the same words on every host, so that a repeated export has the same spans. */
export function toSpanId(...words: readonly (string | number)[]): string {
  return hash('sha256', JSON.stringify(words)).slice(0, 16);
}

/** Converts an id of Ductile to a trace id: a UUID has as many digits. */
export function toTraceId(id: string): string {
  const digits = id.replaceAll('-', '');
  if (/^[0-9a-f]{32}$/.test(digits)) return digits;
  return hash('sha256', id).slice(0, 32);
}

/** Creates a new trace, or a child position in a trace. */
export function createTraceContext(parent: TraceContext | undefined): TraceContext {
  return {
    traceId: parent?.traceId ?? randomBytes(16).toString('hex'),
    spanId: randomBytes(8).toString('hex'),
    isSampled: parent?.isSampled ?? true,
  };
}
