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
): RowsStatement<BatchRow<C, P, Q>> {
  return {
    ...bindProperties(table, properties, parameters),
    ...(returns === undefined ? {} : { returns }),
    sql: (r, d) => {
      const columnOf = (property: string) => table.fields.get(property)?.column ?? property;
      const computed = Object.entries<string | undefined>(sql?.(r, d) ?? {});
      const texts = new Map(
        computed.map(([property, text = 'null']) => [columnOf(property), text]),
      );
      const columns = [...new Set([...properties.map(columnOf), ...texts.keys()])];
      const values = columns.map((column) => texts.get(column) ?? r(column));
      return `insert into ${d.table(table.name)} (${columns.join(', ')})
        ${r.values(values.join(', '))} ${rest}`;
    },
  };
}

/** Defines a statement over rows that have properties of the table. Its SQL names their columns. */
export function defineRowsOf<
  C extends TableColumns,
  P extends keyof C & string,
  Q extends string = never,
>(
  table: TableDeclaration<TableName, C>,
  properties: readonly P[],
  {
    parameters,
    ...statement
  }: Pick<RowsStatement, 'key' | 'returns' | 'sql'> & Pick<InsertDefinition<C, P, Q>, 'parameters'>,
): RowsStatement<BatchRow<C, P, Q>> {
  return { ...bindProperties(table, properties, parameters), ...statement };
}

function bindProperties(
  { fields }: TableDeclaration<TableName, TableColumns>,
  properties: readonly string[],
  parameters: RowsStatement['columns'] = {},
): { columns: RowsStatement['columns']; propertyOf: (column: string) => never } {
  const bound = properties.flatMap((property) => fields.get(property) ?? []);
  const propertyOf = new Map(bound.map(({ column, property }) => [column, property]));
  return {
    columns: {
      ...Object.fromEntries(bound.map(({ column, type }) => [column, type])),
      ...parameters,
    },
    propertyOf: (column) => (propertyOf.get(column) ?? column) as never,
  };
}

/** A row of a batch. A property without a value is null if its column can be. */
type BatchRow<C extends TableColumns, P extends keyof C, Q extends string> = BatchProperties<
  Pick<RowOfColumns<C>, P>
> &
  Readonly<Record<Q, Value>>;

type BatchProperties<R> = {
  readonly [P in keyof R as null extends R[P] ? never : P]: R[P];
} & { readonly [P in keyof R as null extends R[P] ? P : never]?: R[P] | undefined };
