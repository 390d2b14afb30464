import type { CommitName, Session, Store, Transaction } from './dialect.ts';

/** Binds one verb to a store. */
export type Verb<Bound> = (store: Store) => Bound;

type SessionWork<Input extends readonly unknown[], Result> = (
  session: Session,
  ...input: Input
) => Promise<Result>;

type WriteWork<Input extends readonly unknown[], Result> = (
  tx: Transaction,
  ...input: Input
) => Promise<Result>;

/** A verb that reads rows by their key. See `Store.find`. */
export function finds<Input extends readonly unknown[], Result>(work: SessionWork<Input, Result>) {
  return ({ find }: Store) =>
    (...input: Input) =>
      find((session) => work(session, ...input));
}

/** A verb that reads anything else. See `Store.read`. */
export function reads<Input extends readonly unknown[], Result>(work: SessionWork<Input, Result>) {
  return ({ read }: Store) =>
    (...input: Input) =>
      read((session) => work(session, ...input));
}

/** A verb that is one whole transaction. The name selects the fault points around its commit. */
export function writes<Input extends readonly unknown[], Result>(
  work: WriteWork<Input, Result>,
  name: CommitName = 'other',
) {
  const names = [name];
  return ({ write }: Store) =>
    (...input: Input) =>
      write(names, (tx) => work(tx, ...input));
}

type Nouns = Readonly<Record<string, Readonly<Record<string, Verb<unknown>>>>>;

/** The verbs of all nouns, bound to a store. */
export type BoundNouns<Table extends Nouns> = {
  readonly [Noun in keyof Table]: {
    [Name in keyof Table[Noun]]: Table[Noun][Name] extends Verb<infer Bound> ? Bound : never;
  };
};

/** Binds each verb once, so that a call costs no lookup. */
export function bindNouns<Table extends Nouns>(table: Table, store: Store): BoundNouns<Table> {
  const bound = Object.entries(table).map(([noun, verbs]) => [
    noun,
    Object.fromEntries(Object.entries(verbs).map(([name, verb]) => [name, verb(store)])),
  ]);
  return Object.fromEntries(bound) as BoundNouns<Table>;
}
