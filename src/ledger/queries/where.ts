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
