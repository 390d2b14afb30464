import { isOffered, type HttpSurface, type Operation } from '../operation/define.ts';
import type { FieldSchema } from '../operation/request.ts';
import { describeInput } from '../operation/request-codec.ts';

/** An operation at its place, with everything about it that is the same for each request. */
export interface Route {
  readonly operation: Operation;
  readonly surface: HttpSurface;
  readonly fields: ReadonlyMap<string, FieldSchema>;
}

/** A place that fits a path: what stands there by method, and the names in it. */
export interface Place {
  readonly segments: readonly string[];
  readonly routes: Map<string, Route>;
}

export interface Router {
  /** All places that fit a path, the one with the most literal words first. */
  find(segments: readonly string[]): readonly Place[];
}

export function makeRouter(operations: readonly Operation[]): Router {
  const shelves = new Map<string, Place[]>();
  const add = (path: string, route: Route): void => {
    const segments = splitPath(path);
    const shelf = shelves.get(shelfOf(segments)) ?? [];
    const known = shelf.find((place) => place.segments.join('/') === segments.join('/'));
    const place = known ?? { segments, routes: new Map<string, Route>() };
    place.routes.set(route.surface.method, route);
    if (known !== undefined) return;
    shelf.push(place);
    shelf.sort((a, b) => countNames(a) - countNames(b));
    shelves.set(shelfOf(segments), shelf);
  };
  for (const operation of operations) {
    const { http: surface } = operation;
    if (!isOffered(surface)) continue;
    const route = makeRoute(operation, surface);
    for (const path of [surface.path, ...(surface.also ?? [])]) {
      for (const form of formsOf(path)) add(form, route);
    }
  }
  return {
    find: (segments) =>
      (shelves.get(shelfOf(segments)) ?? []).filter((place) => fits(place, segments)),
  };
}

export function splitPath(path: string): string[] {
  return path.split('/').slice(1);
}

/** The values of the names in a place, as they stand in the path. */
export function paramsOf({ segments }: Place, given: readonly string[]): Record<string, string> {
  const params: Record<string, string> = {};
  for (const [at, word] of segments.entries()) {
    if (word.startsWith(':')) params[word.slice(1)] = given[at] ?? '';
  }
  return params;
}

/** Its fields are worked out when it is first asked: for all routes at once, a start would wait long. */
function makeRoute(operation: Operation, surface: HttpSurface): Route {
  let fields: Route['fields'] | undefined;
  return {
    operation,
    surface,
    get fields() {
      return (fields ??= describeInput(operation));
    },
  };
}

/** A last name that may be left out makes two places. */
function formsOf(path: string): string[] {
  return path.endsWith('?') ? [path.slice(0, -1), path.slice(0, path.lastIndexOf('/'))] : [path];
}

/** Places whose number of segments and first word are the same; the first word is never a name. */
function shelfOf(segments: readonly string[]): string {
  return `${segments.length} ${segments[0]}`;
}

function fits(place: Place, segments: readonly string[]): boolean {
  return place.segments.every(
    (word, at) => word === segments[at] || (word.startsWith(':') && segments[at] !== ''),
  );
}

function countNames({ segments }: Place): number {
  return segments.filter((word) => word.startsWith(':')).length;
}
