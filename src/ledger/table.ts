import { parseJson } from '../base/parse-json.ts';

/**
 * Declares the columns of a table once. The row's type, the lists of columns, inserts and decoding follow
 * from it. A property `nextDueAt` is the column `next_due_at`, unless `columnNamed` names another one.
 */
export function table<const Name extends string, const C extends TableColumns>(
  name: Name,
  columns: C,
): TableDeclaration<Name, C> {
  const fields = Object.entries(columns).map(([property, column]) => toField(property, column));
  const list = (of: string): string => fields.map(({ column }) => `${of}.${column}`).join(', ');
  // Frequent reads ask for this list each time.
  const own = list(name);
  return {
    name,
    fields: new Map(fields.map((field) => [field.property, field])),
    except: (...properties) => listOthers(columns, properties),
    columns: (of) => (of === undefined ? own : list(of)),
    decode: makeDecoder(fields) as (row: StoredRow) => RowOfColumns<C>,
    pick: (...properties) => table(name, pickColumns(columns, properties)),
  };
}

export interface TableDeclaration<out Name extends string, C extends TableColumns> {
  readonly name: Name;
  /** The columns by their properties. */
  readonly fields: ReadonlyMap<string, Field>;
  /**
   * Lists the columns for `select` and `returning`, each after the name of the table or its alias.
   * A `*` would include the columns of joined rows.
   */
  readonly columns: (of?: string) => string;
  readonly decode: (row: StoredRow) => RowOfColumns<C>;
  /** Lists the other properties. */
  readonly except: <P extends keyof C & string>(
    ...properties: readonly P[]
  ) => readonly Exclude<keyof C & string, P>[];
  /** Returns the table with only some of its columns. */
  readonly pick: <P extends keyof C & string>(
    ...properties: readonly P[]
  ) => TableDeclaration<Name, Pick<C, P>>;
}

/** `time` is text with a `Timestamp`, and `flag` is 0 or 1. */
type ColumnKind = 'text' | 'text?' | 'time' | 'time?' | 'int' | 'int?' | 'flag' | 'json';

/** A column whose type or name doesn't follow from its kind and its property. */
interface ColumnSpec<T> {
  readonly kind: ColumnKind;
  readonly column?: string | undefined;
  /** Only a type: no column has this. */
  readonly type?: T;
}

export type TableColumns = Readonly<Record<string, ColumnKind | ColumnSpec<unknown>>>;

/** Declares a column of a type that is narrower than its kind. */
export function columnOf<T>(kind: Exclude<ColumnKind, 'json'>, column?: string): ColumnSpec<T> {
  return { kind, column };
}

/** Declares a column that isn't named after its property. */
export function columnNamed<K extends ColumnKind>(
  column: string,
  kind: K,
): ColumnSpec<TypeOfKind<K>> {
  return { kind, column };
}

/** Declares a column with JSON text that is parsed. */
export function jsonColumn<T>(column?: string): ColumnSpec<T> {
  return { kind: 'json', column };
}

/** The type of a table's rows. */
export type RowOf<T extends { readonly decode: (row: StoredRow) => unknown }> = ReturnType<
  T['decode']
>;

export type RowOfColumns<C extends TableColumns> = { readonly [P in keyof C]: TypeOf<C[P]> };

/** Properties that a draft may leave out, because their columns can be null or have a default. */
export type Optional<R, P extends keyof R> = { readonly [Q in P]?: NonNullable<R[Q]> };

type TypeOf<S> = S extends ColumnSpec<infer T> ? T : TypeOfKind<S>;

type TypeOfKind<K> = K extends 'text' | 'time'
  ? string
  : K extends 'text?' | 'time?'
    ? string | null
    : K extends 'int'
      ? number
      : K extends 'int?'
        ? number | null
        : K extends 'flag'
          ? boolean
          : unknown;

interface Field {
  readonly property: string;
  readonly column: string;
  readonly kind: ColumnKind;
  /** The type of a parameter for the column. */
  readonly type: 'text' | 'int';
  readonly isNullable: boolean;
  readonly decode: Decode;
}

function toField(property: string, spec: ColumnKind | ColumnSpec<unknown>): Field {
  const { kind, column = toSnakeCase(property) } = typeof spec === 'string' ? { kind: spec } : spec;
  const isNumber = kind === 'int' || kind === 'int?' || kind === 'flag';
  const isNullable = kind.endsWith('?');
  return {
    property,
    column,
    kind,
    type: isNumber ? 'int' : 'text',
    isNullable,
    decode: decoders[kind],
  };
}

function toSnakeCase(name: string): string {
  return name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

function pickColumns<C extends TableColumns, P extends keyof C>(
  columns: C,
  properties: readonly P[],
): Pick<C, P> {
  return Object.fromEntries(properties.map((name) => [name, columns[name]])) as Pick<C, P>;
}

/** Lists the properties of a part of a table. */
export function propertiesOf<C extends TableColumns>(columns: C): readonly (keyof C & string)[] {
  return Object.keys(columns);
}

function listOthers<C extends TableColumns, P extends keyof C & string>(
  columns: C,
  properties: readonly P[],
): Exclude<keyof C & string, P>[] {
  const left = new Set<string>(properties);
  return Object.keys(columns).filter((name) => !left.has(name)) as Exclude<keyof C & string, P>[];
}

type StoredValue = string | number | null;
type StoredRow = Readonly<Record<string, StoredValue>>;

/**
 * Makes the function that decodes rows. It copies an object that has all properties: adding more than a
 * dozen of them by name would make V8 store each row as a hash table.
 */
function makeDecoder(fields: readonly Field[]): (row: StoredRow) => Record<string, unknown> {
  const empty: Record<string, unknown> = Object.fromEntries(
    fields.map(({ property }) => [property, null]),
  );
  return (row) => {
    const decoded = { ...empty };
    for (const { property, column, decode, isNullable } of fields) {
      const value = row[column];
      // Most columns of a job are null, and calling a function for each would take half of the time.
      if (value !== null || !isNullable) decoded[property] = decode(value, column);
    }
    return decoded;
  };
}

type Decode = (value: StoredValue | undefined, column: string) => unknown;

const decoders: Readonly<Record<ColumnKind, Decode>> = {
  text: requireText,
  'text?': orNull(requireText),
  time: requireText,
  'time?': orNull(requireText),
  int: requireNumber,
  'int?': orNull(requireNumber),
  flag: (value) => value === 1,
  json: (value, column) => parseJson(requireText(value, column)),
};

function orNull(decode: Decode): Decode {
  return (value, column) => (value === null || value === undefined ? null : decode(value, column));
}

export function requireText(value: StoredValue | undefined, column: string): string {
  if (typeof value !== 'string') throw new Error(`${column} is not text`);
  return value;
}

export function requireNumber(value: StoredValue | undefined, column: string): number {
  const number = Number(value);
  if (!Number.isFinite(number)) throw new Error(`${column} is not a number`);
  return number;
}
