import type { Value } from './dialect.ts';

/** The conditions of a query, collected from the fields of a filter that are set. */
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

  /** Adds the condition that a text contains another one, ignoring case. */
  contains(column: string, part: string): this {
    const pattern = `%${part.replaceAll(/[!%_]/g, '!$&')}%`;
    return this.and(`lower(${column}) like lower(?) escape '!'`, pattern);
  }

  /** Adds the condition that at least one of several texts contains another one, ignoring case. */
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
 * Formats the order of a list. Rows with a common prefix of ids are ordered by id, which is also the
 * order of time. Ordering them by number would search all rows for the newest ones.
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
