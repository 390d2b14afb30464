/** Freezes a tree of plain data, so that snapshots can't change. */
export function deepFreeze<T>(value: T): T {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return value;
  Object.freeze(value);
  for (const { value: inner } of Object.values(Object.getOwnPropertyDescriptors(value))) {
    deepFreeze(inner);
  }
  return value;
}

/** Makes a record without a prototype, so that names such as `constructor` find nothing. */
export function makeRecord<T>(entries: Iterable<readonly [string, T]>): Record<string, T> {
  const record = Object.create(null) as Record<string, T>;
  for (const [key, value] of entries) record[key] = value;
  return record;
}
