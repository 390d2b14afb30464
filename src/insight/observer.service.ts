import {
  createTraceContext,
  formatTraceparent,
  parseTraceparent,
  TRACE_KEY,
  type TraceContext,
} from '../base/trace.ts';
import type { LedgerContext } from '../engine/context.ts';
import type { Closing } from '../ledger/commit.ts';
import type { WebhookResponse } from '../webhook/check.ts';
import { traceparentIn, type IncomingDelivery } from '../webhook/request.ts';
import type { Webhooks } from '../webhook/webhooks.ts';
import type { IncidentWatcher } from './incident-watcher.service.ts';
import type { Metrics } from './metrics.service.ts';
import { runSpanOf, spansOf, type Span, type Tracer } from './tracer.service.ts';

/** Passes ended attempts and runs to metrics, traces and the incident watcher, after the commit. */
export function makeObserver(
  { ledger }: LedgerContext,
  metrics: Metrics,
  tracer: Tracer,
  watcher: IncidentWatcher,
) {
  const traceRun = async (runId: string): Promise<void> => {
    const run = await ledger.runs.find(runId);
    if (run === undefined) return;
    const { eventContextId } = run;
    const context = eventContextId === null ? {} : await ledger.runs.readContext(eventContextId);
    const span = runSpanOf(run, context[TRACE_KEY]);
    if (span !== undefined) tracer.add([span]);
  };

  return {
    observeAttempts(closings: readonly Closing[]): void {
      watcher.observe(closings);
      metrics.countAttempts(closings);
      if (!tracer.isOn || closings.length === 0) return;
      const nowMs = Date.now();
      tracer.add(closings.flatMap((closing) => spansOf(closing, nowMs)));
    },
    observeRuns(runIds: readonly string[]): void {
      if (!tracer.isOn) return;
      // A run whose span can't be read is left out of its trace. Nothing else depends on it.
      for (const runId of runIds) void traceRun(runId).catch(() => undefined);
    },
  };
}

/** Counts deliveries, and traces verified ones: unverified senders must not fill the collector. */
export function observeWebhooks(
  webhooks: Webhooks,
  { metrics, tracer }: { readonly metrics: Metrics; readonly tracer: Tracer },
): Webhooks {
  const begin = (name: string, incoming: IncomingDelivery) => {
    const outer = parseTraceparent(traceparentIn(incoming));
    const context = tracer.isOn ? createTraceContext(outer) : undefined;
    const startMs = Date.now();
    const end = (response: WebhookResponse): WebhookResponse => {
      const { status } = response;
      metrics.countDelivery(status);
      if (context?.isSampled === true && isVerified(response)) {
        tracer.add([toDeliverySpan({ name, context, outer, startMs, status })]);
      }
      return response;
    };
    return { traced: context === undefined ? incoming : withTrace(incoming, context), end };
  };
  return {
    ...webhooks,
    async receive(webhookId, incoming) {
      const { traced, end } = begin(webhookId, incoming);
      return end(await webhooks.receive(webhookId, traced));
    },
    receiveAt(path, incoming) {
      const { traced, end } = begin(path, incoming);
      return webhooks.receiveAt(path, traced)?.then(end);
    },
  };
}

/** Makes the delivery the parent of everything that it starts. */
function withTrace(incoming: IncomingDelivery, context: TraceContext): IncomingDelivery {
  const { request } = incoming;
  const others = request.headers.filter(([name]) => name !== TRACE_KEY);
  const headers = [...others, [TRACE_KEY, formatTraceparent(context)] as const];
  return { ...incoming, request: { ...request, headers } };
}

function isVerified({ status }: WebhookResponse): boolean {
  return status < 300 || status === 409 || status === 422 || status === 503;
}

interface DeliveryTrace {
  readonly name: string;
  readonly context: TraceContext;
  readonly outer: TraceContext | undefined;
  readonly startMs: number;
  readonly status: number;
}

function toDeliverySpan({ name, context, outer, startMs, status }: DeliveryTrace): Span {
  return {
    traceId: context.traceId,
    spanId: context.spanId,
    parentSpanId: outer?.spanId,
    name: `webhook ${name}`,
    isServer: true,
    startMs,
    endMs: Date.now(),
    attributes: { 'ductile.webhook': name, 'http.response.status_code': status },
    error: status < 300 ? undefined : `the response had the status ${status}`,
  };
}
