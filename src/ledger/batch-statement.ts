import type { Timestamp } from '../base/clock.ts';
import type { Dialect, Row, RowsStatement, RowsWriter, Value } from './dialect.ts';

/** Neighboring rows that differ in their key only. A statement without a key has a run for each row. */
interface StatementRun {
  readonly row: Row;
  readonly keys: Value[];
}

export function toRuns({ columns, key }: RowsStatement, rows: readonly Row[]): StatementRun[] {
  if (key === undefined) return rows.map((row) => ({ row, keys: [null] }));
  const otherColumns = Object.keys(columns).filter((column) => column !== key);
  const runs: StatementRun[] = [];
  for (const row of rows) {
    const own = row[key] ?? null;
    const last = runs.at(-1);
    const isSameRun = otherColumns.every((column) => last?.row[column] === row[column]);
    if (isSameRun && last !== undefined) last.keys.push(own);
    else runs.push({ row, keys: [own] });
  }
  return runs;
}

/** A statement that is executed once for each run of rows, with their values as parameters. */
interface CompiledRun {
  readonly text: string;
  readonly bind: (run: StatementRun, common: readonly Value[], now?: Timestamp) => Value[];
}

export function compileRun(
  dialect: Dialect,
  statement: RowsStatement,
  run: StatementRun,
): CompiledRun {
  return (run.keys.length === 1 ? compileOne : compileMany)(dialect, statement);
}

const compileOne = once((dialect, statement) => compileKeys(dialect, statement, 'one'));
const compileMany = once((dialect, statement) => compileKeys(dialect, statement, 'many'));

/** Numbers parameters in the order of their use: SQLite refuses values without a parameter. */
function compileKeys(
  dialect: Dialect,
  statement: RowsStatement,
  keyed: 'one' | 'many',
): CompiledRun {
  const { columns, key = '' } = statement;
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
  return {
    text: writeSql(statement, writer, dialect, clock),
    bind: ({ row, keys }, common, now) =>
      used.map((what) => {
        if (what === KEYS) return dialect.list(keys);
        if (what === NOW) return now ?? null;
        return (typeof what === 'number' ? common[what] : row[what]) ?? null;
      }),
  };
}

/** Placeholders for the keys of a run and for its time among the names of columns. */
const KEYS = '(keys)';
const NOW = '(now)';

/** A statement that takes all rows at once, each column as an array. */
interface CompiledSet {
  readonly text: string;
  readonly bind: (rows: readonly Row[], common: readonly Value[]) => Value[];
}

export const compileSet = once((dialect: Dialect, statement: RowsStatement): CompiledSet => {
  const { columns, key = '' } = statement;
  const names = Object.keys(columns);
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
      ...names.map((name) => dialect.list(rows.map((row) => row[name] ?? null))),
      ...common,
    ],
  };
});

function writeSql(
  { sql, returns }: RowsStatement,
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

function typeOf(columns: RowsStatement['columns'], column: string): 'text' | 'int' {
  const type = columns[column];
  if (type === undefined) throw new Error(`the statement has no column ${column}`);
  return type;
}

function once<T>(
  compile: (dialect: Dialect, statement: RowsStatement) => T,
): (dialect: Dialect, statement: RowsStatement) => T {
  const compiled = new WeakMap<Dialect, Map<RowsStatement, T>>();
  return (dialect, statement) => {
    let statements = compiled.get(dialect);
    if (statements === undefined) compiled.set(dialect, (statements = new Map()));
    let result = statements.get(statement);
    if (result === undefined) statements.set(statement, (result = compile(dialect, statement)));
    return result;
  };
}
