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
}

/** Every route that an event takes, in the order of definition. Words match exactly or not at all. */
export function matchRoutes<R extends Pick<Route, 'from' | 'eventType'>>(
  routes: readonly R[],
  { source, type }: RoutedEvent,
): R[] {
  return routes.filter(
    ({ from, eventType }) => eventType === type && (from === undefined || from === source),
  );
}
