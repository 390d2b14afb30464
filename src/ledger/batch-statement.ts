import type { Timestamp } from '../base/clock.ts';
import type { Dialect, RowsStatement, RowsWriter, Value } from './dialect.ts';

/** Neighboring rows that differ in their key only. A statement without a key has a run for each row. */
interface StatementRun {
  readonly row: BoundRow;
  readonly keys: Value[];
}

/** A row as its statement reads it. The types of `each` and `send` check it against the statement. */
type BoundRow = Readonly<Record<string, unknown>>;

export function toRuns<R>(
  statement: RowsStatement<R>,
  rows: readonly NoInfer<R>[],
): StatementRun[] {
  const bound = rows as readonly BoundRow[];
  const { columns, key } = statement;
  if (key === undefined) return bound.map((row) => ({ row, keys: [null] }));
  const others = Object.keys(columns).filter((column) => column !== key);
  const otherProperties = others.map((column) => toProperty(statement, column));
  const keyProperty = toProperty(statement, key);
  const runs: StatementRun[] = [];
  for (const row of bound) {
    const own = toValue(row[keyProperty]);
    const last = runs.at(-1);
    const isSameRun = otherProperties.every((property) => last?.row[property] === row[property]);
    if (isSameRun && last !== undefined) last.keys.push(own);
    else runs.push({ row, keys: [own] });
  }
  return runs;
}

/** Converts a property to the value of its column. */
export function toValue(value: unknown): Value {
  return typeof value === 'boolean' ? Number(value) : ((value ?? null) as Value);
}

/** A statement that is executed once for each run of rows, with their values as parameters. */
interface CompiledRun {
  readonly text: string;
  readonly bind: (run: StatementRun, common: readonly Value[], now?: Timestamp) => Value[];
}

export function compileRun<R>(
  dialect: Dialect,
  statement: RowsStatement<R>,
  run: StatementRun,
): CompiledRun {
  return (run.keys.length === 1 ? compileOne : compileMany)(dialect, statement);
}

const compileOne = once((dialect, statement) => compileKeys(dialect, statement, 'one'));
const compileMany = once((dialect, statement) => compileKeys(dialect, statement, 'many'));

/** Numbers parameters in the order of their use: SQLite refuses values without a parameter. */
function compileKeys(
  dialect: Dialect,
  statement: AnyStatement,
  keyed: 'one' | 'many',
): CompiledRun {
  const { columns, key = '' } = statement;
  const propertyOf = (column: string): string =>
    column in columns ? toProperty(statement, column) : column;
  const used: (string | number)[] = [];
  const numberOf = (what: string | number): number => {
    if (!used.includes(what)) used.push(what);
    return used.indexOf(what) + 1;
  };
  const writer: RowsWriter = Object.assign(
    (column: string) => dialect.parameter(numberOf(column), typeOf(columns, column)),
    {
      isKey: () =>
        keyed === 'one'
          ? `= ${dialect.parameter(numberOf(key), typeOf(columns, key))}`
          : dialect.among(numberOf(KEYS), typeOf(columns, key)),
      common: (index: number, type: 'text' | 'int' = 'text') =>
        dialect.parameter(numberOf(index), type),
      values: (list: string) => `values (${list})`,
      from: '',
      lateral: (select: string) => `(${select}) q`,
    },
  );
  const clock = (): string =>
    dialect.takesTime ? dialect.parameter(numberOf(NOW), 'text') : selectNow(dialect);
  const text = writeSql(statement, writer, dialect, clock);
  const sources = used.map((what) => (typeof what === 'number' ? what : propertyOf(what)));
  return {
    text,
    bind: ({ row, keys }, common, now) =>
      sources.map((source) => {
        if (source === KEYS) return dialect.list(keys);
        if (source === NOW) return now ?? null;
        return typeof source === 'number' ? (common[source] ?? null) : toValue(row[source]);
      }),
  };
}

/** Placeholders for the keys of a run and for its time among the names of columns. */
const KEYS = '(keys)';
const NOW = '(now)';

/** A statement that takes all rows at once, each column as an array. */
interface CompiledSet {
  readonly text: string;
  readonly bind: (rows: readonly unknown[], common: readonly Value[]) => Value[];
}

export const compileSet = once((dialect: Dialect, statement: AnyStatement): CompiledSet => {
  const { columns, key = '' } = statement;
  const names = Object.keys(columns);
  const properties = names.map((name) => toProperty(statement, name));
  const arrays = names.map((name, i) => `${dialect.parameter(i + 1, typeOf(columns, name))}[]`);
  const source = `unnest(${arrays.join(', ')}) as r(${names.join(', ')})`;
  const valueOf = (column: string): string => {
    typeOf(columns, column);
    return `r.${column}`;
  };
  const writer: RowsWriter = Object.assign(valueOf, {
    isKey: () => `= ${valueOf(key)}`,
    common: (index: number, type: 'text' | 'int' = 'text') =>
      dialect.parameter(names.length + index + 1, type),
    values: (list: string) => `select ${list} from ${source} where true`,
    from: `from ${source}`,
    lateral: (select: string) => `${source} cross join lateral (${select}) q`,
  });
  return {
    text: writeSql(statement, writer, dialect, () => selectNow(dialect)),
    bind: (rows, common) => [
      ...properties.map((property) =>
        dialect.list((rows as readonly BoundRow[]).map((row) => toValue(row[property]))),
      ),
      ...common,
    ],
  };
});

function writeSql(
  { sql, returns }: AnyStatement,
  writer: RowsWriter,
  dialect: Dialect,
  clock: () => string,
): string {
  const timedDialect: Dialect = {
    ...dialect,
    get now() {
      return clock();
    },
    get statementNow() {
      return dialect.takesTime ? clock() : dialect.statementNow;
    },
  };
  const text = sql(writer, timedDialect);
  return returns === undefined || dialect.name === 'sqlite' ? text : `${text} returning ${returns}`;
}

/** Reads the clock in a subquery, which is evaluated once; a volatile call is evaluated for each row. */
function selectNow({ now }: Dialect): string {
  return `(select ${now})`;
}

/** A statement over rows of any type. */
type AnyStatement = RowsStatement<never>;

function toProperty({ propertyOf }: AnyStatement, column: string): string {
  return propertyOf === undefined ? column : propertyOf(column);
}

function typeOf(columns: RowsStatement['columns'], column: string): 'text' | 'int' {
  const type = columns[column];
  if (type === undefined) throw new Error(`the statement has no column ${column}`);
  return type;
}

function once<T>(
  compile: (dialect: Dialect, statement: AnyStatement) => T,
): (dialect: Dialect, statement: AnyStatement) => T {
  const compiled = new WeakMap<Dialect, Map<AnyStatement, T>>();
  return (dialect, statement) => {
    let statements = compiled.get(dialect);
    if (statements === undefined) compiled.set(dialect, (statements = new Map()));
    let result = statements.get(statement);
    if (result === undefined) statements.set(statement, (result = compile(dialect, statement)));
    return result;
  };
}
