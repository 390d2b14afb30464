import type { Row, Session, TableName, Value } from './dialect.ts';
import {
  requireNumber,
  requireText,
  type RowOfColumns,
  type TableDeclaration,
  type TableColumns,
} from './table.ts';

/** Reads rows of a table. `rest` starts with `where` or `order by`. */
export async function readRows<C extends TableColumns>(
  session: Session,
  { name, columns, decode }: TableDeclaration<TableName, C>,
  rest: string,
  values: readonly Value[] = [],
): Promise<RowOfColumns<C>[]> {
  const rows = await session.run(
    `select ${columns()} from ${session.dialect.table(name)} ${rest}`,
    values,
  );
  return rows.map((row) => decode(row));
}

/**
 * Finds the drafts whose rows were written, in their order. Mostly all of them were, and then no set
 * of ids is built: interning each id costs V8 more than the rest of this function.
 */
export function filterWritten<T extends { readonly id: string }>(
  drafts: readonly T[],
  written: readonly Row[],
): readonly T[] {
  if (written.length === drafts.length) return drafts;
  const ids = new Set(written.map((row) => text(row, 'id')));
  return drafts.filter(({ id }) => ids.has(id));
}

export function text(row: Row, column: string): string {
  return requireText(row[column], column);
}

export function textOrNull(row: Row, column: string): string | null {
  return row[column] === null || row[column] === undefined ? null : text(row, column);
}

export function int(row: Row, column: string): number {
  return requireNumber(row[column], column);
}

export function intOrNull(row: Row, column: string): number | null {
  return row[column] === null || row[column] === undefined ? null : int(row, column);
}
