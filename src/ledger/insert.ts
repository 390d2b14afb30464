import { toValue } from './batch-statement.ts';
import type {
  Dialect,
  Row,
  RowsStatement,
  RowsWriter,
  Session,
  TableName,
  Value,
} from './dialect.ts';
import type { RowOfColumns, TableColumns, TableDeclaration } from './table.ts';

/** A value that the database computes, such as its clock, with the values of its `?` placeholders. */
export interface SqlExpression {
  readonly sql: string;
  readonly values?: readonly Value[];
}

/** The values of an insert. A property without a value is null if its column can be. */
type InsertValues<R> = { readonly [P in keyof R]: InsertValue<R[P]> | SqlExpression };
type InsertValue<T> = null extends T ? T | undefined : T;

/**
 * Inserts one row. Properties without a column are skipped, so that a draft can be spread into the row.
 * `rest` is the end of the statement, such as `on conflict … returning …`.
 */
export async function insertRow<C extends TableColumns>(
  tx: Session,
  table: TableDeclaration<TableName, C>,
  row: Partial<InsertValues<RowOfColumns<C>>>,
  rest = '',
): Promise<Row[]> {
  const columns: string[] = [];
  const parts: string[] = [];
  const values: Value[] = [];
  for (const [property, value] of Object.entries<unknown>(row)) {
    const field = table.fields.get(property);
    if (field === undefined) continue;
    const { column, kind } = field;
    columns.push(column);
    const isExpression = kind !== 'json' && isSqlExpression(value);
    parts.push(isExpression ? value.sql : '?');
    if (isExpression) values.push(...(value.values ?? []));
    else values.push(kind === 'json' ? JSON.stringify(value) : toValue(value));
  }
  return await tx.run(
    `insert into ${tx.dialect.table(table.name)} (${columns.join(', ')})
      values (${parts.join(', ')}) ${rest}`,
    values,
  );
}

function isSqlExpression(value: unknown): value is SqlExpression {
  return typeof value === 'object' && value !== null && 'sql' in value;
}

/** An insert of many rows. */
interface InsertDefinition<C extends TableColumns, P extends keyof C, Q extends string> {
  /** The properties that each row has. Others get the default of their column. */
  readonly properties: readonly P[];
  /** The parameters of `sql` that aren't columns of the table. */
  readonly parameters?: Readonly<Record<Q, 'text' | 'int'>>;
  /** The columns that the database computes. They replace the values of rows. */
  readonly sql?: (r: RowsWriter, d: Dialect) => { readonly [Computed in keyof C]?: string };
  /** The end of the statement, such as `on conflict do nothing`. */
  readonly rest?: string;
  readonly returns?: string;
}

/** Defines the insert of many rows. The rows have the properties of the table. */
export function defineInsert<
  C extends TableColumns,
  P extends keyof C & string,
  Q extends string = never,
>(
  table: TableDeclaration<TableName, C>,
  { properties, parameters, sql, rest = '', returns }: InsertDefinition<C, P, Q>,
): RowsStatement<BatchRow<Pick<RowOfColumns<C>, P>> & Readonly<Record<Q, Value>>> {
  const fields = properties.flatMap((property) => table.fields.get(property) ?? []);
  const propertyOf = new Map(fields.map(({ column, property }) => [column, property]));
  return {
    columns: {
      ...Object.fromEntries(fields.map(({ column, type }) => [column, type])),
      ...parameters,
    },
    propertyOf: (column) => (propertyOf.get(column) ?? column) as never,
    ...(returns === undefined ? {} : { returns }),
    sql: (r, d) => {
      const computed = Object.entries<string | undefined>(sql?.(r, d) ?? {});
      const written = new Map(fields.map(({ column }) => [column, '']));
      for (const [property, text = 'null'] of computed)
        written.set(table.fields.get(property)?.column ?? property, text);
      const texts = [...written].map(([column, text]) => (text === '' ? r(column) : text));
      return `insert into ${d.table(table.name)} (${[...written.keys()].join(', ')})
        ${r.values(texts.join(', '))} ${rest}`;
    },
  };
}

/** A row of a batch. A property without a value is null if its column can be. */
type BatchRow<R> = {
  readonly [P in keyof R as null extends R[P] ? never : P]: R[P];
} & { readonly [P in keyof R as null extends R[P] ? P : never]?: R[P] | undefined };
