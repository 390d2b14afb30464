/** A rule from an event to the plugin that handles it. */
export interface Route {
  /** Only events of this source; of any when undefined. */
  readonly from: string | undefined;
  readonly eventType: string;
  readonly plugin: string;
  readonly command: string;
}

export interface RoutedEvent {
  readonly source: string;
  readonly type: string;
  /** The event type of a delivery's sender, such as `push`, or `ANY_EVENT`. */
  readonly event?: string | undefined;
}

/** Stands for every event type where a delivery isn't there yet; no event type has this sign. */
export const ANY_EVENT = '*';

/**
 * Whether a rule for a type is for this event. A delivery's signal of type `webhook.received` with the
 * event `push` also matches `webhook.received.push`.
 */
export function isOfType(wanted: string | undefined, { type, event }: Omit<RoutedEvent, 'source'>) {
  if (wanted === type) return true;
  if (event === ANY_EVENT) return wanted?.startsWith(`${type}.`) === true;
  return event !== undefined && wanted === `${type}.${event}`;
}

/** Every route that an event takes, in the order of definition. Words match exactly or not at all. */
export function matchRoutes<R extends Pick<Route, 'from' | 'eventType'>>(
  routes: readonly R[],
  event: RoutedEvent,
): R[] {
  return routes.filter(
    ({ from, eventType }) =>
      isOfType(eventType, event) && (from === undefined || from === event.source),
  );
}
