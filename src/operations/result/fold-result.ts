import { isObject, type JsonObject } from '../../base/json.ts';
import type { Cut } from './digest.ts';
import type { ResultShape } from './result-shape.ts';

export interface FoldedResult<Value> {
  readonly value: Value;
  /** One for each list that was folded. */
  readonly cuts: readonly Cut[];
}

/**
 * Makes a large result smaller without cutting: attempts of a job that ended in the same way one after
 * the other are folded, and columns that few callers need are left out of the rows.
 */
export function foldResult<Value>(
  value: Value,
  { rows, details = [] }: FoldRules,
): FoldedResult<Value> {
  if (!isObject(value)) return { value, cuts: [] };
  const cuts: Cut[] = [];
  const entries = Object.entries(value).map(([field, entry], index) => {
    if (field === 'attempts' && isRows(entry) && entry.every((row) => 'attempt' in row)) {
      const folded = foldAttempts(entry);
      if (folded.length < entry.length) {
        cuts.push({ path: [index], kind: 'folded', total: entry.length, shown: folded.length });
      }
      return [field, folded];
    }
    if (details.length === 0 || field !== rows?.field || !isRows(entry)) return [field, entry];
    cuts.push({
      path: [index],
      kind: 'columns',
      total: details.length,
      shown: 0,
      columns: details,
    });
    return [field, entry.map((row) => withoutFields(row, details))];
  });
  return cuts.length === 0
    ? { value, cuts }
    : { value: Object.fromEntries(entries) as Value, cuts };
}

type FoldRules = Pick<ResultShape, 'rows' | 'details'>;

function withoutFields(row: JsonObject, names: readonly string[]): JsonObject {
  return Object.fromEntries(Object.entries(row).filter(([name]) => !names.includes(name)));
}

/** Attempts are equal when they agree in these; numbers in an error, such as a pid, may differ. */
const EQUAL_IN = ['status', 'cause', 'exit_code', 'signal', 'last_error'] as const;

function foldAttempts(attempts: readonly JsonObject[]): JsonObject[] {
  const folded: JsonObject[] = [];
  let group: JsonObject[] = [];
  const close = (): void => {
    const last = group.at(-1);
    if (last !== undefined) folded.push(group.length === 1 ? last : describeGroup(group, last));
    group = [];
  };
  for (const attempt of attempts) {
    const [first] = group;
    if (first !== undefined && keyOf(first) !== keyOf(attempt)) close();
    group.push(attempt);
  }
  close();
  return folded;
}

function keyOf(attempt: JsonObject): string {
  return JSON.stringify(EQUAL_IN.map((field) => withoutNumbers(attempt[field])));
}

function withoutNumbers(value: unknown): unknown {
  return typeof value === 'string' ? value.replaceAll(/\d+/g, '0') : (value ?? null);
}

function describeGroup(group: readonly JsonObject[], last: JsonObject): JsonObject {
  const [first] = group;
  const { cause, status } = last;
  const word = [cause, status].find((one) => typeof one === 'string') ?? 'attempt';
  return {
    ...last,
    folded: `${group.length} × ${word}`,
    folded_count: group.length,
    folded_from_attempt: first?.['attempt'] ?? null,
    folded_since: first?.['completed_at'] ?? null,
  };
}

function isRows(value: unknown): value is readonly JsonObject[] {
  return Array.isArray(value) && value.length > 0 && value.every(isObject);
}
