import type { Span } from './spans.service.ts';

const INTERNAL = 1;
const SERVER = 2;
const OK = 1;
const ERROR = 2;

/** Spans as OTLP writes them in JSON: ids in hexadecimal, times in nanoseconds as text. */
export function toOtlp(
  spans: readonly Span[],
  { name, version }: { readonly name: string; readonly version: string },
): object {
  const resource = {
    attributes: toAttributes({ 'service.name': name, 'service.version': version }),
  };
  const scope = { name: 'ductile', version };
  return { resourceSpans: [{ resource, scopeSpans: [{ scope, spans: spans.map(toSpan) }] }] };
}

function toSpan(span: Span): object {
  const { traceId, spanId, parentSpanId, name, startMs, endMs, attributes, error } = span;
  return {
    traceId,
    spanId,
    ...(parentSpanId === undefined ? {} : { parentSpanId }),
    name,
    kind: span.isServer === true ? SERVER : INTERNAL,
    startTimeUnixNano: toNanoseconds(startMs),
    endTimeUnixNano: toNanoseconds(Math.max(startMs, endMs)),
    attributes: toAttributes(attributes),
    status: error === undefined ? { code: OK } : { code: ERROR, message: error },
  };
}

function toAttributes(attributes: Span['attributes']): object[] {
  return Object.entries(attributes).map(([key, value]) => ({
    key,
    value:
      typeof value === 'number' ? { intValue: String(Math.round(value)) } : { stringValue: value },
  }));
}

/** Whole milliseconds: as a number it would be too large to be exact. */
function toNanoseconds(ms: number): string {
  return `${Math.round(ms)}000000`;
}
