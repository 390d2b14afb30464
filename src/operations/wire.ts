import * as z from 'zod';
import { DuctileError } from '../base/errors.ts';
import { isObject } from '../base/json.ts';
import type { HttpSurface, Operation } from './define.ts';

/** How an operation's input travels as text: through a URL, a body or a command line. */
export interface FieldSchema {
  readonly types: readonly string[];
  readonly description: string;
  readonly choices: readonly string[];
  readonly required: boolean;
}

/** The fields of an operation's input, `dry_run` included where it can be asked for. */
export function describeInput({ input, effect }: Operation): Map<string, FieldSchema> {
  const { properties = {}, required = [] } = z.toJSONSchema(input, { io: 'input' });
  const fields = new Map<string, FieldSchema>();
  for (const [name, property] of Object.entries(properties)) {
    const schema = property as Schema;
    const choices = (schema.enum ?? (schema.items as Schema | undefined)?.enum ?? []).map(String);
    const { description = '' } = schema;
    fields.set(name, {
      types: typesOf(schema),
      description,
      choices,
      required: required.includes(name),
    });
  }
  if (effect !== 'read') fields.set('dry_run', dryRun);
  return fields;
}

/** A value that came as text, as the field's type wants it; what does not fit stays text. */
export function decodeText(field: FieldSchema | undefined, text: string): unknown {
  if (field === undefined || field.types.every((type) => type === 'string')) return text;
  if (field.types.includes('array')) return text.split(',');
  try {
    const value: unknown = JSON.parse(text);
    return value;
  } catch {
    return text;
  }
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

export interface RequestParts {
  readonly params: Readonly<Record<string, string>>;
  readonly query: Readonly<Record<string, readonly string[]>>;
  /** Parsed JSON; undefined when there was none. */
  readonly body: unknown;
}

export function fromRequest(
  fields: ReadonlyMap<string, FieldSchema>,
  surface: HttpSurface,
  { params, query, body }: RequestParts,
): Record<string, unknown> {
  const decoded = Object.entries(query).map(
    ([name, values]) => [name, decodeText(fields.get(name), values.join(','))] as const,
  );
  return { ...Object.fromEntries(decoded), ...readBody(surface, body), ...params };
}

type Schema = z.core.JSONSchema.BaseSchema;

const dryRun: FieldSchema = {
  types: ['boolean'],
  description: 'say what would happen, and do nothing',
  choices: [],
  required: false,
};

function typesOf(schema: Schema): string[] {
  if (schema.type !== undefined) return [schema.type].flat();
  return (schema.anyOf ?? []).flatMap((part) => typesOf(part));
}

function encodeText(value: unknown): string {
  if (Array.isArray(value)) return value.join(',');
  return typeof value === 'string' ? value : JSON.stringify(value);
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
