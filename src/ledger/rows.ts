import type { Dialect, Row, RowsStatement, RowsWriter, Value } from './dialect.ts';

/** Compiles a statement over rows for one database, once. */
export interface CompiledRows {
  readonly text: string;
  /** Parameter lists: one for each row where rows are looped, a single one where they are unnested. */
  bind(rows: readonly Row[], common: readonly Value[]): Value[][] | [unknown[]];
}

const compiled = new WeakMap<Dialect, Map<RowsStatement, CompiledRows>>();

export function compileRows(dialect: Dialect, statement: RowsStatement): CompiledRows {
  let ofDialect = compiled.get(dialect);
  if (ofDialect === undefined) compiled.set(dialect, (ofDialect = new Map()));
  let result = ofDialect.get(statement);
  if (result === undefined) {
    result = dialect.rowsOf === 'loop' ? looped(dialect, statement) : unnested(dialect, statement);
    ofDialect.set(statement, result);
  }
  return result;
}

/** Values get their numbers as they are named: SQLite refuses values that no number asks for. */
function looped(dialect: Dialect, statement: RowsStatement): CompiledRows {
  const columns = Object.keys(statement.columns);
  const used: (string | number)[] = [];
  const mark = (what: string | number): string => {
    if (!used.includes(what)) used.push(what);
    return `?${used.indexOf(what) + 1}`;
  };
  const writer: RowsWriter = Object.assign(
    (column: string) => mark(columns[position(columns, column)] ?? column),
    { common: mark, from: '', lateral: (select: string) => `(${select}) q` },
  );
  const text = statement.sql(writer, dialect);
  return {
    text,
    bind: (rows, common) =>
      rows.map((row) =>
        used.map((what) => (typeof what === 'number' ? common[what] : row[what]) ?? null),
      ),
  };
}

function unnested(dialect: Dialect, statement: RowsStatement): CompiledRows {
  const columns = Object.keys(statement.columns);
  const arrays = columns.map((column, i) => `$${i + 1}::${sqlType(statement.columns[column])}[]`);
  const source = `unnest(${arrays.join(', ')}) as r(${columns.join(', ')})`;
  const writer: RowsWriter = Object.assign((column: string) => `r.${columns[position(columns, column)]}`, {
    common: (index: number, type: 'text' | 'int' = 'text') =>
      `$${columns.length + index + 1}::${sqlType(type)}`,
    from: `from ${source}`,
    lateral: (select: string) => `${source} cross join lateral (${select}) q`,
  });
  return {
    text: statement.sql(writer, dialect),
    bind: (rows, common) => [
      [...columns.map((column) => rows.map((row) => row[column] ?? null)), ...common],
    ],
  };
}

function sqlType(type: 'text' | 'int' | undefined): string {
  return type === 'int' ? 'bigint' : 'text';
}

function position(columns: readonly string[], column: string): number {
  const found = columns.indexOf(column);
  if (found < 0) throw new Error(`the statement has no column ${column}`);
  return found;
}
