import { limits } from '../base/limits.ts';
import { parseTraceparent, TRACE_KEY } from '../base/trace.ts';

/** An unverified HTTP request. */
export interface WebhookRequest {
  readonly method: string;
  /** As the sender sees it, with scheme and host. */
  readonly url: string;
  /**
   * A pair per header line, in order, with names in lower case. Repeated headers appear
   * repeatedly.
   */
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly rawBody: Buffer;
}

/** A delivery as a listener has read it. */
export interface IncomingDelivery {
  readonly request: WebhookRequest;
  /** The address of the sender. Forwarded addresses count only for trusted proxies. */
  readonly source: string;
  /** True if the body exceeds the maximum of all webhooks. The rest was not read. */
  readonly isOversize: boolean;
  /** The known size of a body that was not read completely. */
  readonly bodyBytes?: number;
  /** Returns a signal that fires when the sender disconnects. */
  readonly hungUp?: () => AbortSignal;
  /** The distance from the first cause, if a running job made the delivery. */
  readonly hops?: number;
  /** The directive that delivers it as a test, without the listener. */
  readonly test?: DeliveryTest;
}

/** A test delivery: who requested it, and by which directive. */
export interface DeliveryTest {
  readonly actor: string;
  readonly directiveId: string;
}

/** Returns the `traceparent` of the sender. Undefined unless there is exactly one and it is valid. */
export function traceparentIn({ request }: IncomingDelivery): string | undefined {
  const given = request.headers.filter(([name]) => name === TRACE_KEY).map(([, value]) => value);
  const [only] = given;
  return given.length === 1 && parseTraceparent(only) !== undefined ? only : undefined;
}

export type HeaderFault = 'header_missing' | 'header_repeated' | 'header_too_long';

export type HeaderResult =
  | { readonly ok: true; readonly value: string }
  | { readonly ok: false; readonly reason: HeaderFault };

/**
 * Reads a header that a decision depends on. It must occur once: with two values, other programs
 * may have used the other one.
 */
export function readHeader(request: WebhookRequest, name: string): HeaderResult {
  const [first, second] = valuesOf(request, name);
  if (first === undefined || first === '') return { ok: false, reason: 'header_missing' };
  if (second !== undefined) return { ok: false, reason: 'header_repeated' };
  if (first.length > limits.webhookHeaderCharsMax) return { ok: false, reason: 'header_too_long' };
  return { ok: true, value: first };
}

export function hasHeader(request: WebhookRequest, name: string): boolean {
  return request.headers.some(([key]) => key === name);
}

function valuesOf({ headers }: WebhookRequest, name: string): string[] {
  return headers.filter(([key]) => key === name).map(([, value]) => value);
}
