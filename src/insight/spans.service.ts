import { fromTimestamp } from '../base/clock.ts';
import type { Json } from '../base/json.ts';
import { parseTraceparent, toSpanId, toTraceId } from '../base/trace.ts';
import { maskText } from '../base/secrets.ts';
import { isTerminal, findTrace } from '../job/job.ts';
import type { Closing } from '../ledger/commit.ts';
import type { Run } from '../pipeline/run/run.ts';

/** A stretch of time in a trace. */
export interface Span {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string | undefined;
  readonly name: string;
  readonly isServer?: boolean;
  readonly startMs: number;
  readonly endMs: number;
  readonly attributes: Readonly<Record<string, string | number>>;
  /** Why it did not end well. */
  readonly error?: string | undefined;
}

/** The spans of an attempt that has ended: itself, its phases, and the job when that is over too. */
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
  // A collector is somebody else's: what looks like a secret stays here.
  const error = report.status === 'succeeded' ? undefined : maskText(report.error ?? report.cause);
  const own: Span = {
    traceId,
    spanId: attempt,
    parentSpanId: jobSpan,
    name: `${name} attempt ${job.attempt}`,
    startMs,
    endMs: nowMs,
    attributes,
    error,
  };
  if (!isTerminal(ending.status)) return [own, ...phases];
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
  return [whole, own, ...phases];
}

/** One after the other, up to now. */
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

/** The span of a run that is over, in the trace that its chain says it stands in. */
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
