/** The input and the result of operations as plain data, for surfaces and documents. */
import * as z from 'zod';
import { compact, isObject } from '../base/json.ts';
import { isOffered, type Operation } from './define.ts';
import { returnsRows, type FieldSchema } from './request.ts';

/** Describes the fields of an operation's input, with those that all operations of its kind accept. */
export function describeInput(operation: Operation): Map<string, FieldSchema> {
  const { input, effect } = operation;
  const { properties = {}, required = [] } = z.toJSONSchema(input, { io: 'input' });
  const fields = new Map<string, FieldSchema>();
  for (const [name, property] of Object.entries(properties)) {
    const schema = property as BaseSchema;
    const choices = (schema.enum ?? (schema.items as BaseSchema | undefined)?.enum ?? []).map(
      String,
    );
    const { description = '' } = schema;
    fields.set(name, {
      types: typesOf(schema),
      description,
      choices,
      required: required.includes(name),
    });
  }
  if (effect !== 'read') {
    fields.set('dry_run', dryRunField);
    if (!fields.has('apply')) fields.set('apply', applyField);
  }
  if (returnsRows(operation)) fields.set('fields', fieldsField);
  return fields;
}

type BaseSchema = z.core.JSONSchema.BaseSchema;

const dryRunField: FieldSchema = {
  types: ['boolean'],
  description: 'show the plan and change nothing',
  choices: [],
  required: false,
};

const applyField: FieldSchema = {
  types: ['boolean'],
  description: 'make the change (the default)',
  choices: [],
  required: false,
};

const fieldsField: FieldSchema = {
  types: ['array'],
  description: 'only these fields of the result, or of the rows of a list',
  choices: [],
  required: false,
};

function typesOf(schema: BaseSchema): string[] {
  if (schema.type !== undefined) return [schema.type].flat();
  return (schema.anyOf ?? []).flatMap((part) => typesOf(part));
}

/** The parts of an operation's result, as plain data; a surface needs them to make a result smaller. */
export interface ResultShape {
  /** Fields of the result; empty if the result is a document of any form. */
  readonly fields: readonly string[];
  readonly rows?: RowsShape;
  /** Columns that are left out first if a result is too large. */
  readonly details?: readonly string[];
  /** Fields, at any depth, that hold JSON of plugins, senders or files. It is shown unchanged. */
  readonly data: readonly string[];
}

interface RowsShape {
  readonly field: string;
  readonly columns: readonly string[];
  /** True for a list operation: a name then means a column before it means a field of the result. */
  readonly isList: boolean;
}

const shapes = new WeakMap<Operation, ResultShape>();

export function describeResult(operation: Operation): ResultShape {
  const known = shapes.get(operation);
  if (known !== undefined) return known;
  const schema = z.toJSONSchema(operation.output, { unrepresentable: 'any' }) as ResultSchema;
  const data = new Set<string>();
  findData(schema, data, new Set());
  const isOpen = schema.additionalProperties !== false;
  const rows = findRows(operation, schema);
  const shape: ResultShape = {
    fields: isOpen ? [] : Object.keys(schema.properties ?? {}),
    ...compact({ rows, details: operation.details }),
    data: [...data].toSorted(),
  };
  shapes.set(operation, shape);
  return shape;
}

interface ResultSchema {
  readonly type?: string;
  readonly properties?: Readonly<Record<string, ResultSchema>>;
  readonly additionalProperties?: unknown;
  readonly items?: ResultSchema;
  readonly anyOf?: readonly ResultSchema[];
  readonly [more: string]: unknown;
}

function findRows({ input, cli }: Operation, schema: ResultSchema): RowsShape | undefined {
  const table = isOffered(cli) ? cli.table?.rows : undefined;
  const isList = table !== undefined || 'limit' in input.shape;
  const lists = Object.entries(schema.properties ?? {}).flatMap(([field, property]) => {
    const columns = Object.keys(property.items?.properties ?? {});
    return columns.length === 0 ? [] : [{ field, columns, isList }];
  });
  if (isList) return lists.find(({ field }) => field === table) ?? lists[0];
  return lists.length === 1 ? lists[0] : undefined;
}

/** Collects the names of fields whose schema doesn't describe their content. */
function findData(schema: ResultSchema, data: Set<string>, seen: Set<ResultSchema>): void {
  if (seen.has(schema)) return;
  seen.add(schema);
  for (const [field, property] of Object.entries(schema.properties ?? {})) {
    if (isData(property)) data.add(field);
    else findData(property, data, seen);
  }
  if (schema.items !== undefined) findData(schema.items, data, seen);
  for (const part of schema.anyOf ?? []) findData(part, data, seen);
}

function isData(schema: ResultSchema): boolean {
  if (schema.anyOf !== undefined) return schema.anyOf.some(isData);
  if (schema.type === 'object') return schema.additionalProperties !== false;
  const keywords = ['type', 'enum', 'const', '$ref', 'allOf', 'oneOf', 'not'];
  return keywords.every((keyword) => !(keyword in schema));
}

/** Keywords of a schema whose value is data. */
const DATA_KEYWORDS: ReadonlySet<string> = new Set([
  'const',
  'default',
  'enum',
  'example',
  'examples',
]);
/** Keywords of a schema whose value maps names to schemas. */
const NAMING_KEYWORDS: ReadonlySet<string> = new Set([
  '$defs',
  'definitions',
  'dependentSchemas',
  'patternProperties',
  'properties',
]);

/** Rewrites the references of a JSON Schema that a document contains at `location` (such as `#/properties/x`). */
export function moveRefs(schema: unknown, location: string): unknown {
  if (Array.isArray(schema)) return schema.map((entry) => moveRefs(entry, location));
  // The references of a schema with its own id are relative to that schema, wherever it is.
  if (!isObject(schema) || typeof schema['$id'] === 'string') return schema;
  return mapValues(schema, (value, key) => {
    if (key === '$ref' && typeof value === 'string') return value.replace(/^#(?=\/|$)/, location);
    if (DATA_KEYWORDS.has(key)) return value;
    if (NAMING_KEYWORDS.has(key) && isObject(value)) {
      return mapValues(value, (inner) => moveRefs(inner, location));
    }
    return moveRefs(value, location);
  });
}

function mapValues(
  object: Readonly<Record<string, unknown>>,
  change: (value: unknown, key: string) => unknown,
): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(object).map(([key, value]) => [key, change(value, key)]),
  );
}
