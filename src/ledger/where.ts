import type { Value } from './dialect.ts';

/** The conditions of a list, collected from the parts of a filter that are set. */
export class WhereClause {
  readonly #conditions: string[] = ['true'];
  readonly values: Value[] = [];

  get text(): string {
    return this.#conditions.join(' and ');
  }

  get isEmpty(): boolean {
    return this.#conditions.length === 1;
  }

  equals(columns: Readonly<Record<string, Value | undefined>>): this {
    for (const [column, value] of Object.entries(columns)) {
      if (value !== undefined) this.and(`${column} = ?`, value);
    }
    return this;
  }

  /** Adds that a text contains another one, whatever the case. */
  contains(column: string, part: string): this {
    const pattern = `%${part.replaceAll(/[!%_]/g, '!$&')}%`;
    return this.and(`lower(${column}) like lower(?) escape '!'`, pattern);
  }

  /** Adds that at least one of several texts contains another one, whatever the case. */
  containsAny(columns: readonly string[], part: string): this {
    const each = columns.map((column) => new WhereClause().contains(column, part));
    const texts = each.map((one) => one.#conditions.at(-1));
    return this.and(`(${texts.join(' or ')})`, ...each.flatMap(({ values }) => values));
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
export function formatOrder({
  idPrefix,
  order = 'newest',
}: {
  readonly idPrefix?: string;
  readonly order?: 'newest' | 'oldest';
}): string {
  const column = idPrefix === undefined ? 'seq' : 'id';
  return `order by ${column} ${order === 'oldest' ? 'asc' : 'desc'}`;
}
