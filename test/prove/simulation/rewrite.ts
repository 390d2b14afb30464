/** Statements with typical mistakes. */
import type { RowsStatement } from '../../../src/ledger/dialect.ts';

/** The statement in its place. */
export type Rewrite = (sql: string) => string;

export function asWritten(rewrite: Rewrite | undefined): {
  readonly text: Rewrite;
  readonly rows: <R>(statement: RowsStatement<R>) => RowsStatement<R>;
} {
  if (rewrite === undefined) return { text: (sql) => sql, rows: (statement) => statement };
  let known = rewritten.get(rewrite);
  if (known === undefined) rewritten.set(rewrite, (known = new Map()));
  const others = known;
  return {
    text: rewrite,
    rows: <R>(statement: RowsStatement<R>) => {
      let other = others.get(statement) as RowsStatement<R> | undefined;
      if (other === undefined) {
        other = { ...statement, sql: (...given) => rewrite(statement.sql(...given)) };
        others.set(statement, other);
      }
      return other;
    },
  };
}

/** Compiled statements are cached forever, so worlds must share them. */
const rewritten = new WeakMap<Rewrite, Map<RowsStatement<never>, RowsStatement<never>>>();
