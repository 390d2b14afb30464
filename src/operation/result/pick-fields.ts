import { DuctileError } from '../../base/errors.ts';
import { isObject, type JsonObject } from '../../base/json.ts';
import { suggest } from '../../base/text.ts';
import type { JsonOutput } from '../define.ts';
import type { ResultShape } from '../schema.ts';

/**
 * Picks fields of a result by their names: columns of the rows of a list, or fields of the result
 * itself. `attempts.status` picks within. Counts and cursors of a list stay.
 */
export function pickFields(
  output: JsonOutput,
  names: readonly string[],
  shape: ResultShape,
): JsonOutput {
  if (output['dry_run'] === true || names.length === 0) return output;
  const own: string[] = [];
  const columns: string[] = [];
  for (const name of names) (findOwner(name, shape) === 'rows' ? columns : own).push(name);
  const { rows } = shape;
  const picked = pickPaths(output, own);
  if (rows === undefined || columns.length === 0) return picked;
  const list = output[rows.field];
  const scalars = Object.entries(output).filter(
    ([, value]) => typeof value !== 'object' || value === null,
  );
  const trimmed = Array.isArray(list) ? list.map((row: unknown) => pickPaths(row, columns)) : list;
  return { ...picked, [rows.field]: trimmed, ...Object.fromEntries(scalars) };
}

/** Refuses a name that no result of the operation can have. */
export function checkFieldNames(names: readonly string[], shape: ResultShape): void {
  for (const name of names) findOwner(name, shape);
}

function findOwner(name: string, { fields, rows }: ResultShape): 'result' | 'rows' {
  const [first = ''] = name.split('.');
  const isColumn = rows?.columns.includes(first) === true;
  const isField = fields.length === 0 || fields.includes(first);
  if (isColumn && (rows.isList || !isField)) return 'rows';
  if (isField) return 'result';
  const known = [...(rows?.columns ?? []), ...fields];
  throw new DuctileError('INPUT_INVALID', `there is no field ${name} in this result`, {
    place: 'fields',
    hint: suggest(first, known, 'fields'),
  });
}

function pickPaths(value: unknown, paths: readonly string[]): JsonObject {
  if (!isObject(value)) return {};
  const byFirst = new Map<string, string[]>();
  for (const path of paths) {
    const [first = '', ...rest] = path.split('.');
    byFirst.set(first, [...(byFirst.get(first) ?? []), rest.join('.')]);
  }
  const picked: JsonObject = {};
  for (const [field, rests] of byFirst) {
    const entry = value[field] ?? null;
    // A path that ends here means the whole value.
    picked[field] = rests.includes('') ? entry : pickWithin(entry, rests);
  }
  return picked;
}

function pickWithin(value: JsonObject[string], paths: readonly string[]): JsonObject[string] {
  if (Array.isArray(value)) return value.map((entry) => pickWithin(entry, paths));
  return isObject(value) ? pickPaths(value, paths) : value;
}

/** Reads the names in `a,b,c`, or in a list of such texts. */
export function readFieldNames(given: unknown): string[] {
  const parts = Array.isArray(given) ? given : [given];
  const isText = parts.every((part) => typeof part === 'string');
  const names = isText ? parts.flatMap((part) => part.split(',')).map((name) => name.trim()) : [];
  if (names.length > 0 && names.every((name) => NAME.test(name))) return names;
  throw new DuctileError('INPUT_INVALID', 'fields must be names of fields, such as id,status', {
    place: 'fields',
  });
}

const NAME = /^[\w-]+(\.[\w-]+)*$/;
