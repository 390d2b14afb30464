import type { Value } from '../dialect.ts';

/** The conditions of a list, collected from the parts of a filter that are set. */
export class Where {
  readonly #conditions: string[] = ['true'];
  readonly values: Value[] = [];

  get text(): string {
    return this.#conditions.join(' and ');
  }

  equals(columns: Readonly<Record<string, Value | undefined>>): this {
    for (const [column, value] of Object.entries(columns)) {
      if (value !== undefined) this.and(`${column} = ?`, value);
    }
    return this;
  }

  and(condition: string, ...values: readonly Value[]): this {
    this.#conditions.push(condition);
    this.values.push(...values);
    return this;
  }
}

/**
 * The order of a list. Those whose ids begin alike come in the order of their ids, which is that of
 * time too: by their numbers, the newest would be looked for among all rows.
 */
export function orderOf({
  idPrefix,
  order = 'newest',
}: {
  readonly idPrefix?: string;
  readonly order?: 'newest' | 'oldest';
}): string {
  const column = idPrefix === undefined ? 'seq' : 'id';
  return `order by ${column} ${order === 'oldest' ? 'asc' : 'desc'}`;
}
