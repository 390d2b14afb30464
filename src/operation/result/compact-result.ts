import { isObject } from '../../base/json.ts';
import { REDACTED } from '../../base/secrets.ts';

/**
 * Leaves out what says nothing: null fields in the rows of lists, and headers whose value is masked.
 * JSON that plugins, senders and files brought keeps its nulls, because there null is a value.
 */
export function compactResult<Value>(value: Value, data: ReadonlySet<string>): Value {
  return compact(value, data, false) as Value;
}

function compact(value: unknown, data: ReadonlySet<string>, isRow: boolean): unknown {
  if (Array.isArray(value)) return value.map((entry) => compact(entry, data, true));
  if (!isObject(value)) return value;
  const kept = Object.entries(value).filter(([, entry]) => !isRow || entry !== null);
  return Object.fromEntries(
    kept.map(([field, entry]) => {
      if (field === 'headers') return [field, dropMasked(entry)];
      return [field, data.has(field) ? dropMaskedIn(entry) : compact(entry, data, isRow)];
    }),
  );
}

/** In JSON that came from elsewhere nothing is left out but masked headers. */
function dropMaskedIn(value: unknown): unknown {
  if (!isObject(value) || !('headers' in value)) return value;
  return { ...value, headers: dropMasked(value['headers']) };
}

/** Headers are pairs of a name and a value, or an object. */
function dropMasked(headers: unknown): unknown {
  if (Array.isArray(headers)) {
    return headers.filter((pair) => !Array.isArray(pair) || pair[1] !== REDACTED);
  }
  if (!isObject(headers)) return headers;
  return Object.fromEntries(Object.entries(headers).filter(([, value]) => value !== REDACTED));
}
