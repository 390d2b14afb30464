import { DuctileError } from '../base/errors.ts';
import { isObject, parseStrictJson } from '../base/json.ts';
import { isOffered, type HttpSurface, type Operation } from './define.ts';

/** A field of an operation's input, for the surfaces that receive it as text. */
export interface FieldSchema {
  /** The JSON types that it accepts. */
  readonly types: readonly string[];
  readonly description: string;
  readonly choices: readonly string[];
  readonly required: boolean;
}

/** Converts text to the type of its field. Text that doesn't fit stays text, for the schema to refuse. */
export function decodeText(field: FieldSchema | undefined, text: string): unknown {
  if (field === undefined || field.types.every((type) => type === 'string')) return text;
  if (field.types.includes('array')) return decodeList(text);
  const parsed = parseStrictJson(text);
  return parsed.ok ? parsed.value : text;
}

/** Reads entries between commas, or a JSON list, whose entries may contain commas. */
function decodeList(text: string): unknown {
  const parsed = text.startsWith('[') ? parseStrictJson(text) : undefined;
  return parsed?.ok === true && Array.isArray(parsed.value) ? parsed.value : text.split(',');
}

/** An HTTP request for an operation, as the client sends it. */
interface WireRequest {
  readonly method: string;
  /** With the query. */
  readonly path: string;
  readonly body: string | undefined;
}

/** Creates the request for an operation; `fromRequest` is its inverse. */
export function toRequest(
  surface: HttpSurface,
  input: Readonly<Record<string, unknown>>,
): WireRequest {
  const rest = new Map(Object.entries(input).filter(([, value]) => value !== undefined));
  const path = surface.path.replaceAll(/\/:(\w+)(\?)?/g, (_, name: string) => {
    const value = rest.get(name);
    rest.delete(name);
    return value === undefined ? '' : `/${encodeURIComponent(encodeText(value))}`;
  });
  const isInBody = ([name]: [string, unknown]): boolean =>
    surface.method !== 'GET' && (surface.body === undefined || surface.body === name);
  const body = Object.fromEntries([...rest].filter(isInBody));
  const query = new URLSearchParams();
  for (const entry of rest) if (!isInBody(entry)) query.set(entry[0], encodeText(entry[1]));
  return {
    method: surface.method,
    path: query.size === 0 ? path : `${path}?${query.toString()}`,
    body: surface.method === 'GET' ? undefined : JSON.stringify(body),
  };
}

function encodeText(value: unknown): string {
  if (Array.isArray(value)) return value.join(',');
  return typeof value === 'string' ? value : JSON.stringify(value);
}

/** The parts of an HTTP request that hold input. */
export interface RequestParts {
  readonly params: Readonly<Record<string, string>>;
  readonly query: Readonly<Record<string, readonly string[]>>;
  /** Parsed JSON; undefined if the request has no body. */
  readonly body: unknown;
}

/** Reads an operation's input from a request. */
export function fromRequest(
  fields: ReadonlyMap<string, FieldSchema>,
  surface: HttpSurface,
  { params, query, body }: RequestParts,
): Record<string, unknown> {
  const inQuery = Object.fromEntries(
    Object.entries(query).map(([name, values]) => [
      name,
      decodeText(fields.get(name), values.join(',')),
    ]),
  );
  const inBody = readBody(surface, body);
  const seen = new Set<string>();
  for (const name of [inQuery, inBody, params].flatMap((part) => Object.keys(part))) {
    // Either value could be the intended one, and for dry_run a wrong guess changes something.
    if (seen.has(name)) {
      const message = `${name} is given twice, in the URL and in the body`;
      throw new DuctileError('INPUT_INVALID', message, { place: 'body' });
    }
    seen.add(name);
  }
  return { ...inQuery, ...inBody, ...params };
}

function readBody(surface: HttpSurface, body: unknown): Record<string, unknown> {
  if (body === undefined) return {};
  if (!isObject(body)) {
    throw new DuctileError('INPUT_INVALID', 'the body must be a JSON object', { place: 'body' });
  }
  const { body: field } = surface;
  if (field === undefined) return body;
  const isWrapped = Object.keys(body).length === 1 && Object.hasOwn(body, field);
  return isWrapped ? body : { [field]: body };
}

/** True for reads other than event streams. Callers can pick fields of the result, and rows are masked for them. */
export function returnsRows({ effect, http }: Operation): boolean {
  return effect === 'read' && !(isOffered(http) && http.isStream === true);
}

interface WriteMode {
  readonly dryRun: boolean;
  /** The input without `dry_run`, and without `apply` where the operation doesn't require it. */
  readonly rest: unknown;
}

/**
 * Splits `dry_run` and `apply` from the input of an operation that changes something. Every such
 * operation accepts both; `apply` reaches only the operations that require one of them.
 */
export function readWriteMode({ plan, input }: Operation, raw: unknown): WriteMode {
  if (plan === undefined || !isObject(raw)) return { dryRun: false, rest: raw };
  const { dry_run: dryRun = false, apply, ...rest } = raw;
  const isDry = isDryRun(dryRun, apply);
  const isRequired = apply !== undefined && 'apply' in input.shape;
  return { dryRun: isDry, rest: isRequired ? { ...rest, apply } : rest };
}

/** Returns whether only a plan is wanted. An unclear request is refused, because it must change nothing. */
export function isDryRun(dryRun: unknown = false, apply?: unknown): boolean {
  if (typeof dryRun !== 'boolean') {
    throw new DuctileError('INPUT_INVALID', 'dry_run must be true or false', { place: 'dry_run' });
  }
  if (apply === undefined) return dryRun;
  if (apply !== true) {
    throw new DuctileError('INPUT_INVALID', 'apply must be true', {
      place: 'apply',
      hint: 'Nothing was changed. Use dry_run to see what would happen.',
    });
  }
  if (!dryRun) return false;
  throw new DuctileError('INPUT_INVALID', 'dry_run and apply cannot be used together', {
    place: 'apply',
    hint: 'Nothing was changed. Use dry_run to see what would happen, or apply to do it.',
  });
}
