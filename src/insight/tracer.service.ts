import { fromTimestamp } from '../base/clock.ts';
import { messageOf } from '../base/errors.ts';
import type { Json } from '../base/json.ts';
import type { Log } from '../base/log.ts';
import { maskText } from '../base/secrets.ts';
import { makeLoop, type Service } from '../base/service.ts';
import { parseTraceparent, toSpanId, toTraceId } from '../base/trace.ts';
import type { OtlpConfig } from '../config/config.ts';
import { findTrace, isTerminal } from '../job/job.ts';
import type { Closing } from '../ledger/commit.ts';
import type { Run } from '../pipeline/run/run.ts';

/** Sends spans to an OTLP collector, in batches and in the background. No work waits for it. */
export interface Tracer extends Service {
  /** A collector is configured. */
  readonly isOn: boolean;
  add(spans: readonly Span[]): void;
}

/** The tracer of a process without a collector. */
export const noTracer: Tracer = {
  name: 'tracer',
  isOn: false,
  add: () => undefined,
  start: () => Promise.resolve(),
  stop: () => Promise.resolve(),
};

interface TracerOptions {
  readonly config: () => OtlpConfig | undefined;
  readonly service: () => { readonly name: string; readonly version: string };
  readonly log: Log;
}

/** The most spans that wait to be sent. Beyond that, the oldest are dropped. */
const WAITING_MAX = 8192;
const BATCH = 512;
const EVERY_MS = 2000;
const TIMEOUT_MS = 10_000;
const STOP_TIMEOUT_MS = 2000;

export function makeTracer({ config, service, log }: TracerOptions): Tracer {
  let waiting: Span[] = [];
  let dropped = 0;
  let isLogged = false;

  const flush = async (timeoutMs: number, totalMs = Infinity): Promise<void> => {
    const endMs = performance.now() + totalMs;
    while (waiting.length > 0 && performance.now() < endMs) {
      const otlp = config();
      // A reload may have removed the collector.
      if (otlp === undefined) return void (waiting = []);
      const batch = waiting.slice(0, BATCH);
      await post(otlp, toOtlp(batch, service()), timeoutMs);
      // Meanwhile, spans may have been added at the end and dropped at the front.
      const sent = new Set(batch);
      waiting = waiting.filter((span) => !sent.has(span));
      isLogged = false;
    }
  };
  const logOutage = (error: unknown): void => {
    // Log an outage once, so that it doesn't fill the log.
    if (!isLogged) log.warn('traces could not be sent', { error: messageOf(error), dropped });
    isLogged = true;
  };
  const loop = makeLoop({
    name: 'tracer',
    everyMs: () => EVERY_MS,
    runOnce: () => flush(TIMEOUT_MS),
    onError: logOutage,
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
      if (waiting.length >= BATCH && !isLogged) loop.soon();
    },
    async stop() {
      await loop.stop();
      // A slow collector must not delay the end of the process.
      await flush(STOP_TIMEOUT_MS, STOP_TIMEOUT_MS).catch(logOutage);
    },
  };
}

async function post(
  { endpoint, headers }: OtlpConfig,
  body: unknown,
  timeoutMs: number,
): Promise<void> {
  const response = await fetch(`${endpoint}/v1/traces`, {
    method: 'POST',
    headers: { ...headers, 'content-type': 'application/json' },
    body: JSON.stringify(body),
    redirect: 'error',
    signal: AbortSignal.timeout(timeoutMs),
  });
  // A response that isn't read keeps its connection.
  await response.body?.cancel();
  // The collector will never accept this batch, so it isn't sent again.
  const isRefused = response.status === 400 || response.status === 413;
  if (!response.ok && !isRefused) throw new Error(`the collector returned ${response.status}`);
}

const INTERNAL = 1;
const SERVER = 2;
const OK = 1;
const ERROR = 2;

/** Converts spans to the JSON form of OTLP: ids in hexadecimal, times in nanoseconds as text. */
function toOtlp(
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

/** Appends zeros to whole milliseconds. As a number, the result would be too large to be exact. */
function toNanoseconds(ms: number): string {
  return `${Math.round(ms)}000000`;
}

/** A timed operation in a trace. */
export interface Span {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string | undefined;
  readonly name: string;
  readonly isServer?: boolean;
  readonly startMs: number;
  readonly endMs: number;
  readonly attributes: Readonly<Record<string, string | number>>;
  /** Undefined if it succeeded. */
  readonly error?: string | undefined;
}

/** Returns the spans of an ended attempt: its own, one for each phase, and the job's if that has ended. */
export function spansOf({ job, report, ending }: Closing, nowMs: number): Span[] {
  const { traceId, parentSpanId, isSampled } = findTrace(job);
  if (!isSampled) return [];
  const attempt = toSpanId(job.id, job.attempt);
  const jobSpan = toSpanId(job.id);
  const attributes = {
    'ductile.job_id': job.id,
    'ductile.plugin': job.plugin,
    'ductile.command': job.command,
    'ductile.attempt': job.attempt,
    'ductile.status': report.status,
    'ductile.cause': report.cause,
    ...(job.runId === null ? {} : { 'ductile.run_id': job.runId }),
  };
  const phases = toPhases(report, nowMs).map(({ name, startMs, endMs }) => ({
    traceId,
    spanId: toSpanId(job.id, job.attempt, name),
    parentSpanId: attempt,
    name,
    startMs,
    endMs,
    attributes: {},
  }));
  const startMs = Math.min(nowMs, ...phases.map((phase) => phase.startMs));
  const name = `${job.plugin} ${job.command}`;
  // The collector is another system, so secrets are masked.
  const error = report.status === 'succeeded' ? undefined : maskText(report.error ?? report.cause);
  const attemptSpan: Span = {
    traceId,
    spanId: attempt,
    parentSpanId: jobSpan,
    name: `${name} attempt ${job.attempt}`,
    startMs,
    endMs: nowMs,
    attributes,
    error,
  };
  if (!isTerminal(ending.status)) return [attemptSpan, ...phases];
  const whole: Span = {
    traceId,
    spanId: jobSpan,
    parentSpanId,
    name,
    startMs: Math.min(fromTimestamp(job.createdAt), startMs),
    endMs: nowMs,
    attributes: { ...attributes, 'ductile.status': ending.status },
    error,
  };
  return [whole, attemptSpan, ...phases];
}

/** Lays out the phases one after the other. The last one ends now. */
function toPhases(
  { queueMs, spawnMs, runMs, settleMs }: Closing['report'],
  nowMs: number,
): { readonly name: string; readonly startMs: number; readonly endMs: number }[] {
  const parts = Object.entries({ queue: queueMs, spawn: spawnMs, run: runMs, settle: settleMs });
  let endMs = nowMs;
  return parts
    .toReversed()
    .flatMap(([name, ms]) => {
      if (ms === null) return [];
      const phase = { name, startMs: endMs - ms, endMs };
      endMs -= ms;
      return [phase];
    })
    .toReversed();
}

/** Returns the span of an ended run, in the trace of its baggage. Undefined if that isn't sampled. */
export function runSpanOf(run: Run, traceparent: Json | undefined): Span | undefined {
  const outer = parseTraceparent(traceparent);
  const { completedAt, parentJobId } = run;
  if (completedAt === null || outer?.isSampled === false) return undefined;
  return {
    traceId: outer?.traceId ?? toTraceId(run.rootJobId),
    spanId: toSpanId(run.id),
    parentSpanId: parentJobId === null ? outer?.spanId : toSpanId(parentJobId),
    name: `pipeline ${run.pipeline}`,
    startMs: fromTimestamp(run.createdAt),
    endMs: fromTimestamp(completedAt),
    attributes: { 'ductile.run_id': run.id, 'ductile.status': run.status },
    error: run.status === 'succeeded' ? undefined : maskText(run.haltMessage ?? run.status),
  };
}
