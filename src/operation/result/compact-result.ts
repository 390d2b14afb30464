import { isObject, type JsonObject } from '../../base/json.ts';
import { REDACTED } from '../../base/secrets.ts';
import type { ResultShape } from '../schema.ts';
import type { ResultCut } from './digest.ts';

/**
 * Leaves out fields without information: null fields in the rows of lists, and headers whose value is
 * masked. The fields in `data` hold JSON of plugins, senders and files. They keep their nulls, because
 * there null is a value.
 */
export function compactResult<Value>(value: Value, data: ReadonlySet<string>): Value {
  return dropEmpty(value, data, false) as Value;
}

function dropEmpty(value: unknown, data: ReadonlySet<string>, isRow: boolean): unknown {
  if (Array.isArray(value)) return value.map((entry) => dropEmpty(entry, data, true));
  if (!isObject(value)) return value;
  const kept = Object.entries(value).filter(([, entry]) => !isRow || entry !== null);
  return Object.fromEntries(
    kept.map(([field, entry]) => {
      if (field === 'headers') return [field, dropMasked(entry)];
      return [field, data.has(field) ? dropMaskedIn(entry) : dropEmpty(entry, data, isRow)];
    }),
  );
}

/** Drops masked headers from JSON of a plugin, a sender or a file, and nothing else. */
function dropMaskedIn(value: unknown): unknown {
  if (!isObject(value) || !('headers' in value)) return value;
  return { ...value, headers: dropMasked(value['headers']) };
}

/** Drops masked headers. They are pairs of a name and a value, or an object. */
function dropMasked(headers: unknown): unknown {
  if (Array.isArray(headers)) {
    return headers.filter((pair) => !Array.isArray(pair) || pair[1] !== REDACTED);
  }
  if (!isObject(headers)) return headers;
  return Object.fromEntries(Object.entries(headers).filter(([, value]) => value !== REDACTED));
}

interface FoldedResult<Value> {
  readonly value: Value;
  /** The lists that were folded. */
  readonly cuts: readonly ResultCut[];
}

/**
 * Makes a large result smaller without cutting values. Consecutive attempts of a job that ended in the
 * same way are folded, and columns that few callers need are left out of the rows.
 */
export function foldResult<Value>(
  value: Value,
  { rows, details = [] }: FoldRules,
): FoldedResult<Value> {
  if (!isObject(value)) return { value, cuts: [] };
  const cuts: ResultCut[] = [];
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

/** The fields that make two attempts equal. Numbers in an error, such as a pid, may differ. */
const EQUAL_FIELDS = [
  'status',
  'cause',
  'exit_code',
  'command_exit_code',
  'signal',
  'last_error',
] as const;

type AttemptRow = Readonly<Record<string, unknown>>;

/** Folds consecutive attempts that ended in the same way into the last of them. */
export function foldAttempts<Row extends AttemptRow>(attempts: readonly Row[]): Row[] {
  const groups: Row[][] = [];
  for (const attempt of attempts) {
    const group = groups.at(-1);
    const isSame = group?.[0] !== undefined && keyOf(group[0]) === keyOf(attempt);
    if (isSame) group.push(attempt);
    else groups.push([attempt]);
  }
  return groups.flatMap((group): Row[] => {
    const [first, last] = [group[0], group.at(-1)];
    if (first === undefined || last === undefined || group.length === 1) return group;
    return [{ ...last, ...describeGroup(group.length, first, last) }];
  });
}

function keyOf(attempt: AttemptRow): string {
  return JSON.stringify(EQUAL_FIELDS.map((field) => withoutNumbers(attempt[field])));
}

function withoutNumbers(value: unknown): unknown {
  return typeof value === 'string' ? value.replaceAll(/\d+/g, '0') : (value ?? null);
}

function describeGroup(count: number, first: AttemptRow, { cause, status }: AttemptRow) {
  const word = [cause, status].find((one) => typeof one === 'string') ?? 'attempt';
  return {
    folded: `${count} × ${word}`,
    folded_count: count,
    folded_from_attempt: first['attempt'] ?? null,
    folded_since: first['completed_at'] ?? null,
  };
}

function isRows(value: unknown): value is readonly JsonObject[] {
  return Array.isArray(value) && value.length > 0 && value.every(isObject);
}
