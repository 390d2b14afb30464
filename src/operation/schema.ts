import * as z from 'zod';
import { isOffered, type Operation } from './define.ts';

/** What a surface has to know of an operation's result to make it smaller, as plain data. */
export interface ResultShape {
  /** Fields of the result; empty when it is a document of any form. */
  readonly fields: readonly string[];
  readonly rows?: RowsShape;
  /** Columns that are left out first when a result is too large. */
  readonly details?: readonly string[];
  /** Fields, at any depth, that hold JSON of plugins, senders or files. It is shown as it is. */
  readonly data: readonly string[];
}

export interface RowsShape {
  readonly field: string;
  readonly columns: readonly string[];
  /** The operation is a list: a name means a column before it means a field of the result. */
  readonly isList: boolean;
}

const shapes = new WeakMap<Operation, ResultShape>();

export function describeResult(operation: Operation): ResultShape {
  const known = shapes.get(operation);
  if (known !== undefined) return known;
  const schema = z.toJSONSchema(operation.output, { unrepresentable: 'any' }) as Schema;
  const data = new Set<string>();
  findData(schema, data, new Set());
  const isOpen = schema.additionalProperties !== false;
  const rows = findRows(operation, schema);
  const shape: ResultShape = {
    fields: isOpen ? [] : Object.keys(schema.properties ?? {}),
    ...(rows === undefined ? {} : { rows }),
    ...(operation.details === undefined ? {} : { details: operation.details }),
    data: [...data].toSorted(),
  };
  shapes.set(operation, shape);
  return shape;
}

interface Schema {
  readonly type?: string;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly additionalProperties?: unknown;
  readonly items?: Schema;
  readonly anyOf?: readonly Schema[];
  readonly [more: string]: unknown;
}

function findRows({ input, cli }: Operation, schema: Schema): RowsShape | undefined {
  const table = isOffered(cli) ? cli.table?.rows : undefined;
  const isList = table !== undefined || 'limit' in input.shape;
  const lists = Object.entries(schema.properties ?? {}).flatMap(([field, property]) => {
    const columns = Object.keys(property.items?.properties ?? {});
    return columns.length === 0 ? [] : [{ field, columns, isList }];
  });
  if (isList) return lists.find(({ field }) => field === table) ?? lists[0];
  return lists.length === 1 ? lists[0] : undefined;
}

/** Collects the names of fields whose schema says nothing about what is in them. */
function findData(schema: Schema, data: Set<string>, seen: Set<Schema>): void {
  if (seen.has(schema)) return;
  seen.add(schema);
  for (const [field, property] of Object.entries(schema.properties ?? {})) {
    if (isData(property)) data.add(field);
    else findData(property, data, seen);
  }
  if (schema.items !== undefined) findData(schema.items, data, seen);
  for (const part of schema.anyOf ?? []) findData(part, data, seen);
}

function isData(schema: Schema): boolean {
  if (schema.anyOf !== undefined) return schema.anyOf.some(isData);
  if (schema.type === 'object') return schema.additionalProperties !== false;
  const says = ['type', 'enum', 'const', '$ref', 'allOf', 'oneOf', 'not'];
  return says.every((word) => !(word in schema));
}
