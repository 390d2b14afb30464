import type { Dialect, TableName, Migration } from '../dialect.ts';

/** What the database makes of other columns, and nobody can write. */
export const derivedColumns = {
  // Facts do not change.
  signals: { updated_at: 'inserted_at' },
  directives: {
    actor_user_id: 'actor',
    inserted_at: 'requested_at',
    updated_at: 'coalesce(completed_at, started_at, approved_at, requested_at)',
  },
} as const satisfies Partial<Record<TableName, Readonly<Record<string, string>>>>;

/** Names that people know for what is told already: nobody writes them, everybody can ask for them. */
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
