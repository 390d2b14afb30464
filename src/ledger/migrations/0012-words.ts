import type { Dialect, TableName, Migration } from '../dialect.ts';

/** Generated columns, which can't be written. */
export const derivedColumns = {
  // Signals don't change.
  signals: { updated_at: 'inserted_at' },
  directives: {
    actor_user_id: 'actor',
    inserted_at: 'requested_at',
    updated_at: 'coalesce(completed_at, started_at, approved_at, requested_at)',
  },
} as const satisfies Partial<Record<TableName, Readonly<Record<string, string>>>>;

/** Common names for existing columns, as generated columns that every query can read. */
export const words: Migration = {
  version: 12,
  name: 'words',
  statements: (d) => [...columns(d, 'signals'), ...columns(d, 'directives')],
};

function columns(d: Dialect, table: keyof typeof derivedColumns): string[] {
  return Object.entries(derivedColumns[table]).map(
    ([column, from]) =>
      `alter table ${d.table(table)} add column ${column} ${d.types.text}
        generated always as (${from}) ${d.types.derived}`,
  );
}
