import { isObject, parseStored, type JsonObject } from '../base/json.ts';
import type { SignalDraft } from './signal.ts';

/** The key of a signal's metadata, and of the reserved part of the baggage, for deliveries. */
const WEBHOOK_KEY = 'webhook';

/** How the source of a delivery's signal begins. */
export const WEBHOOK_SOURCE = 'webhook:';

type Described = Pick<SignalDraft, 'source' | 'metadata'>;

/** The webhook, event type and headers in the metadata of a delivery's signal. */
export function deliveryEventIn({ source, metadata }: Described): JsonObject | undefined {
  if (!source.startsWith(WEBHOOK_SOURCE)) return undefined;
  // Most signals say nothing of it, and parsing would cost all of them.
  if (metadata?.includes(`"${WEBHOOK_KEY}":`) !== true) return undefined;
  const parsed = parseStored(metadata);
  const event = isObject(parsed) ? parsed[WEBHOOK_KEY] : undefined;
  return isObject(event) ? event : undefined;
}

/** The sender's event type behind a signal, in the form that routes and pipelines match. */
export function eventBehind(signal: Described): string | undefined {
  const event = deliveryEventIn(signal)?.['event'];
  return typeof event === 'string' ? event : undefined;
}

/** A delivery's event as metadata. */
export function toEventMetadata(event: JsonObject | undefined): JsonObject {
  return event === undefined ? {} : { [WEBHOOK_KEY]: event };
}

/** The same as baggage, in the part that no step may write. */
export function toEventBaggage(event: JsonObject | undefined): JsonObject {
  return event === undefined ? {} : { ductile: { [WEBHOOK_KEY]: event } };
}
