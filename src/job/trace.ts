import { isObject } from '../base/json.ts';
import { parseJson } from '../base/parse-json.ts';
import {
  parseTraceparent,
  toSpanId,
  toTraceId,
  TRACE_KEY,
  formatTraceparent,
  type TraceContext,
} from '../base/trace.ts';
import type { Job } from './job.ts';

type TracedJob = Job & { readonly context?: string };

/** Returns the W3C `traceparent` of a job's current attempt. */
export function traceparentOf(job: TracedJob): string {
  const { traceId, isSampled } = findTrace(job);
  return formatTraceparent({ traceId, spanId: toSpanId(job.id, job.attempt), isSampled });
}

/**
 * Finds the trace of a job: the trace in its baggage, or one named after the first job of its lineage.
 * Span ids are computed from job ids alone, so hosts need no coordination.
 */
export function findTrace(
  job: TracedJob,
): Omit<TraceContext, 'spanId'> & { readonly parentSpanId?: string | undefined } {
  const outer = parseTraceparent(readBaggage(job)[TRACE_KEY]);
  const parentSpanId = job.runId ?? job.parentJobId;
  return {
    traceId: outer?.traceId ?? toTraceId(job.rootJobId),
    isSampled: outer?.isSampled ?? true,
    parentSpanId: parentSpanId === null ? outer?.spanId : toSpanId(parentSpanId),
  };
}

function readBaggage({ context = '{}' }: TracedJob): Readonly<Record<string, unknown>> {
  // Most jobs carry no trace: don't parse the baggage of those.
  if (!context.includes(TRACE_KEY)) return {};
  const value: unknown = parseJson(context);
  return isObject(value) ? value : {};
}
