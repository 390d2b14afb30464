import { messageOf } from '../base/errors.ts';
import type { Log } from '../base/log.ts';
import type { OtlpConfig } from '../config/config.ts';
import { makeLoop, type Service } from '../base/service.ts';
import type { Span } from './spans.service.ts';

/** Sends spans to a collector, in batches and beside the work; nothing ever waits for it. */
export interface Tracer extends Service {
  /** Whether anybody wants spans. */
  readonly isOn: boolean;
  add(spans: readonly Span[]): void;
}

/** Nobody wants to know. */
export const noTracer: Tracer = {
  name: 'tracer',
  isOn: false,
  add: () => undefined,
  start: () => Promise.resolve(),
  stop: () => Promise.resolve(),
};

export interface TracerOptions {
  readonly config: () => OtlpConfig | undefined;
  readonly service: () => { readonly name: string; readonly version: string };
  readonly log: Log;
}

/** Spans that wait to be sent; while the collector is away for longer than they last, the oldest go. */
const WAITING_MAX = 8192;
const BATCH = 512;
const EVERY_MS = 2000;
const PATIENCE_MS = 10_000;
const LAST_PATIENCE_MS = 2000;

export function makeTracer({ config, service, log }: TracerOptions): Tracer {
  let waiting: Span[] = [];
  let dropped = 0;
  let isTold = false;

  const flush = async (patienceMs: number, allMs = Infinity): Promise<void> => {
    const endMs = performance.now() + allMs;
    while (waiting.length > 0 && performance.now() < endMs) {
      const otlp = config();
      // A reload may have ended it.
      if (otlp === undefined) return void (waiting = []);
      const batch = waiting.slice(0, BATCH);
      await post(otlp, toOtlp(batch, service()), patienceMs);
      // What came meanwhile stands behind, and what was too much was taken from the front.
      const sent = new Set(batch);
      waiting = waiting.filter((span) => !sent.has(span));
      isTold = false;
    }
  };
  const tell = (error: unknown): void => {
    // Once for each outage: the log is not what is to be filled by it.
    if (!isTold) log.warn('traces could not be sent', { error: messageOf(error), dropped });
    isTold = true;
  };
  const loop = makeLoop({
    name: 'tracer',
    everyMs: () => EVERY_MS,
    runOnce: () => flush(PATIENCE_MS),
    onError: tell,
  });

  return {
    ...loop,
    get isOn() {
      return config() !== undefined;
    },
    add(spans) {
      if (config() === undefined) return;
      waiting.push(...spans);
      if (waiting.length > WAITING_MAX) {
        dropped += waiting.length - WAITING_MAX;
        waiting = waiting.slice(-WAITING_MAX);
      }
      if (waiting.length >= BATCH && !isTold) loop.soon();
    },
    async stop() {
      await loop.stop();
      // A collector that is slow with each batch must not hold up the end of the process.
      await flush(LAST_PATIENCE_MS, LAST_PATIENCE_MS).catch(tell);
    },
  };
}

async function post(
  { endpoint, headers }: OtlpConfig,
  body: unknown,
  patienceMs: number,
): Promise<void> {
  const response = await fetch(`${endpoint}/v1/traces`, {
    method: 'POST',
    headers: { ...headers, 'content-type': 'application/json' },
    body: JSON.stringify(body),
    redirect: 'error',
    signal: AbortSignal.timeout(patienceMs),
  });
  // An answer that is not read keeps its connection.
  await response.body?.cancel();
  // What the collector will never take must not be offered for ever.
  const isRefused = response.status === 400 || response.status === 413;
  if (!response.ok && !isRefused) throw new Error(`the collector answered ${response.status}`);
}

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
