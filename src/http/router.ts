import { isOffered, type HttpSurface, type Operation } from '../operation/define.ts';
import type { FieldSchema } from '../operation/request.ts';
import { describeInput } from '../operation/schema.ts';
import { DuctileError } from '../base/errors.ts';

/** Operation with its HTTP surface and everything that is the same for each request. */
export interface ApiRoute {
  readonly operation: Operation;
  readonly surface: HttpSurface;
  readonly fields: ReadonlyMap<string, FieldSchema>;
}

/** Path pattern with its routes by method. */
export interface RoutePattern {
  readonly segments: readonly string[];
  readonly routes: Map<string, ApiRoute>;
}

export interface ApiRouter {
  /** Returns all patterns that match a path, the one with the most literal segments first. */
  find(segments: readonly string[]): readonly RoutePattern[];
}

export function createRouter(operations: readonly Operation[]): ApiRouter {
  const buckets = new Map<string, RoutePattern[]>();
  const add = (path: string, route: ApiRoute): void => {
    const segments = splitPath(path);
    const bucket = buckets.get(bucketOf(segments)) ?? [];
    const known = bucket.find((pattern) => pattern.segments.join('/') === segments.join('/'));
    const pattern = known ?? { segments, routes: new Map<string, ApiRoute>() };
    pattern.routes.set(route.surface.method, route);
    if (known !== undefined) return;
    bucket.push(pattern);
    bucket.sort((a, b) => countNames(a) - countNames(b));
    buckets.set(bucketOf(segments), bucket);
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
      (buckets.get(bucketOf(segments)) ?? []).filter((pattern) => fits(pattern, segments)),
  };
}

export function splitPath(path: string): string[] {
  return path.split('/').slice(1);
}

/** Reads the values of a pattern's parameters from the path. */
export function readParams(
  { segments }: RoutePattern,
  given: readonly string[],
): Record<string, string> {
  const params: Record<string, string> = {};
  for (const [at, word] of segments.entries()) {
    if (word.startsWith(':')) params[word.slice(1)] = given[at] ?? '';
  }
  return params;
}

/**
 * The fields are described at the first request: doing it for all routes would slow down the start.
 */
function makeRoute(operation: Operation, surface: HttpSurface): ApiRoute {
  let fields: ApiRoute['fields'] | undefined;
  return {
    operation,
    surface,
    get fields() {
      return (fields ??= describeInput(operation));
    },
  };
}

/** An optional last parameter makes two patterns. */
function formsOf(path: string): string[] {
  return path.endsWith('?') ? [path.slice(0, -1), path.slice(0, path.lastIndexOf('/'))] : [path];
}

/**
 * Patterns with the same number of segments and the same first segment, which is never a parameter.
 */
function bucketOf(segments: readonly string[]): string {
  return `${segments.length} ${segments[0]}`;
}

function fits(pattern: RoutePattern, segments: readonly string[]): boolean {
  return pattern.segments.every(
    (word, at) => word === segments[at] || (word.startsWith(':') && segments[at] !== ''),
  );
}

function countNames({ segments }: RoutePattern): number {
  return segments.filter((word) => word.startsWith(':')).length;
}

/** PostgreSQL accepts U+0000 in no text. */
const NUL = '\0';

/** Reads the query by name. A repeated value is a list if the field is one, else it is refused. */
export function readQuery(
  url: string,
  { fields, surface }: ApiRoute,
): Record<string, readonly string[]> {
  const at = url.indexOf('?');
  const query: Record<string, string[]> = Object.create(null) as Record<string, string[]>;
  if (at === -1) return query;
  for (const part of url.slice(at + 1).split('&')) {
    if (part === '') continue;
    const equals = part.indexOf('=');
    const name = decode(equals === -1 ? part : part.slice(0, equals));
    const value = equals === -1 ? '' : decode(part.slice(equals + 1));
    // The authenticator reads this parameter; the operation doesn't know it.
    if (name === 'token' && surface.isStream === true) continue;
    if (value.includes(NUL)) {
      const message = `${name} contains U+0000, which cannot be stored`;
      throw new DuctileError('INPUT_INVALID', message, { place: name });
    }
    const values = (query[name] ??= []);
    values.push(value);
    if (values.length > 1 && fields.get(name)?.types.includes('array') !== true) {
      throw new DuctileError('INPUT_INVALID', `${name} is repeated`, { place: name });
    }
  }
  return query;
}

export function decodeSegments(params: Readonly<Record<string, string>>): Record<string, string> {
  const decoded: Record<string, string> = {};
  for (const [name, value] of Object.entries(params)) {
    const text = value.includes('%') ? decodeSegment(value) : value;
    if (text.includes(NUL)) {
      throw new DuctileError('ENDPOINT_NOT_FOUND', `the ${name} in the path is invalid`);
    }
    decoded[name] = text;
  }
  return decoded;
}

function decode(text: string): string {
  return decodeSegment(text.replaceAll('+', ' '));
}

function decodeSegment(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw new DuctileError('REQUEST_INVALID', 'the URL has invalid percent-encoding');
  }
}
