import {
  createTraceContext,
  parseTraceparent,
  TRACE_KEY,
  formatTraceparent,
  type TraceContext,
} from '../base/trace.ts';
import type { WebhookResponse } from './check.ts';
import type { IncomingDelivery } from './request.ts';
import type { Webhooks } from './webhooks.ts';
import type { Metrics } from '../insight/metrics.service.ts';
import type { Tracer } from '../insight/tracer.service.ts';

/** Counts what is delivered, and traces what was verified: strangers fill nobody's collector. */
export function observeWebhooks(
  webhooks: Webhooks,
  { meters, tracer }: { readonly meters: Metrics; readonly tracer: Tracer },
): Webhooks {
  const begin = (name: string, incoming: IncomingDelivery) => {
    const outer = parseTraceparent(traceparentIn(incoming));
    const place = tracer.isOn ? createTraceContext(outer) : undefined;
    const startMs = Date.now();
    const note = (answer: WebhookResponse): WebhookResponse => {
      const { status } = answer;
      meters.countDelivery(status);
      if (place?.isSampled === true && isVerified(answer)) {
        tracer.add([toSpan({ name, place, outer, startMs, status })]);
      }
      return answer;
    };
    return { traced: place === undefined ? incoming : withPlace(incoming, place), note };
  };
  return {
    ...webhooks,
    async receive(webhookId, incoming) {
      const { traced, note } = begin(webhookId, incoming);
      return note(await webhooks.receive(webhookId, traced));
    },
    receiveAt(path, incoming) {
      const { traced, note } = begin(path, incoming);
      return webhooks.receiveAt(path, traced)?.then(note);
    },
  };
}

/** Where in a trace a sender says that it stands; undefined unless it says it once and well. */
export function traceparentIn({ request }: IncomingDelivery): string | undefined {
  const given = request.headers.filter(([name]) => name === TRACE_KEY).map(([, value]) => value);
  const [only] = given;
  return given.length === 1 && parseTraceparent(only) !== undefined ? only : undefined;
}

/** What is started stands under the delivery. */
function withPlace(incoming: IncomingDelivery, place: TraceContext): IncomingDelivery {
  const { request } = incoming;
  const others = request.headers.filter(([name]) => name !== TRACE_KEY);
  const headers = [...others, [TRACE_KEY, formatTraceparent(place)] as const];
  return { ...incoming, request: { ...request, headers } };
}

function isVerified({ status }: WebhookResponse): boolean {
  return status < 300 || status === 409 || status === 422 || status === 503;
}

interface Received {
  readonly name: string;
  readonly place: TraceContext;
  readonly outer: TraceContext | undefined;
  readonly startMs: number;
  readonly status: number;
}

function toSpan({ name, place, outer, startMs, status }: Received) {
  return {
    traceId: place.traceId,
    spanId: place.spanId,
    parentSpanId: outer?.spanId,
    name: `webhook ${name}`,
    isServer: true,
    startMs,
    endMs: Date.now(),
    attributes: { 'ductile.webhook': name, 'http.response.status_code': status },
    error: status < 300 ? undefined : `it was answered with ${status}`,
  };
}
