import { parseStrictJson } from '../base/strict-json.ts';
import type { HttpSurface } from './define.ts';

/** How an operation's input travels as text: through a URL, a body or a command line. */
export interface FieldSchema {
  readonly types: readonly string[];
  readonly description: string;
  readonly choices: readonly string[];
  readonly required: boolean;
}

/** A value that came as text, as the field's type wants it; what does not fit stays text. */
export function decodeText(field: FieldSchema | undefined, text: string): unknown {
  if (field === undefined || field.types.every((type) => type === 'string')) return text;
  if (field.types.includes('array')) return decodeList(text);
  const parsed = parseStrictJson(text);
  return parsed.ok ? parsed.value : text;
}

/** With commas between, or as JSON where what is in it has commas of its own. */
function decodeList(text: string): unknown {
  const parsed = text.startsWith('[') ? parseStrictJson(text) : undefined;
  return parsed?.ok === true && Array.isArray(parsed.value) ? parsed.value : text.split(',');
}

export interface WireRequest {
  readonly method: string;
  /** With the query. */
  readonly path: string;
  readonly body: string | undefined;
}

/** The request that asks for an operation; `fromRequest` undoes it. */
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
  const inBody = ([name]: [string, unknown]): boolean =>
    surface.method !== 'GET' && (surface.body === undefined || surface.body === name);
  const body = Object.fromEntries([...rest].filter(inBody));
  const query = new URLSearchParams();
  for (const entry of rest) if (!inBody(entry)) query.set(entry[0], encodeText(entry[1]));
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
