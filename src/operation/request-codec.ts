import * as z from 'zod';
import { DuctileError } from '../base/errors.ts';
import { isObject } from '../base/json.ts';
import { isOffered, type HttpSurface, type Operation } from './define.ts';
import { decodeText } from './request.ts';
import type { FieldSchema } from './request.ts';

/** Whether a caller can pick fields of the result. A stream has no result, and its events are whole. */
export function hasFields({ effect, http }: Operation): boolean {
  return effect === 'read' && !(isOffered(http) && http.isStream === true);
}

/** The fields of an operation's input, with those that all operations of its kind accept. */
export function describeInput(operation: Operation): Map<string, FieldSchema> {
  const { input, effect } = operation;
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
  if (effect !== 'read') {
    fields.set('dry_run', dryRun);
    if (!fields.has('apply')) fields.set('apply', apply);
  }
  if (hasFields(operation)) fields.set('fields', picked);
  return fields;
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
  const asked = Object.fromEntries(decoded);
  const sent = readBody(surface, body);
  const seen = new Set<string>();
  for (const name of [asked, sent, params].flatMap((part) => Object.keys(part))) {
    // Of two values nobody can know which one was meant, least of all for dry_run.
    if (seen.has(name)) {
      const message = `${name} came twice, in the URL and in the body`;
      throw new DuctileError('INPUT_INVALID', message, { place: 'body' });
    }
    seen.add(name);
  }
  return { ...asked, ...sent, ...params };
}

type Schema = z.core.JSONSchema.BaseSchema;

const dryRun: FieldSchema = {
  types: ['boolean'],
  description: 'say what would happen, and do nothing',
  choices: [],
  required: false,
};

const apply: FieldSchema = {
  types: ['boolean'],
  description: 'do it, which is the default',
  choices: [],
  required: false,
};

const picked: FieldSchema = {
  types: ['array'],
  description: 'only these fields of the result, or of the rows of a list',
  choices: [],
  required: false,
};

function typesOf(schema: Schema): string[] {
  if (schema.type !== undefined) return [schema.type].flat();
  return (schema.anyOf ?? []).flatMap((part) => typesOf(part));
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
