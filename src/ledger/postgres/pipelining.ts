import { createHash } from 'node:crypto';
import type pg from 'pg';
import type { Row, Value } from '../dialect.ts';

export interface QueryPipeline {
  /** Runs one statement with `$n` placeholders. */
  readonly query: (text: string, values: readonly Value[]) => Promise<Row[]>;
  /** Ends the transaction and returns the command tag: for a failed one it is `ROLLBACK`, without an error. */
  readonly commit: () => Promise<string>;
  /** Returns true if the server may have committed, judged by its responses so far. */
  readonly mayHaveCommitted: () => boolean;
  /** Resolves when all statements have succeeded or failed. */
  readonly idle: () => Promise<void>;
}

interface StatementResult {
  readonly rows: Row[];
  /** The command tag of the server, such as `COMMIT`. */
  readonly command: string;
}

interface QueuedStatement {
  readonly text: string;
  readonly values: readonly Value[];
  readonly resolve: (result: StatementResult) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Makes a pipeline that sends the statements of one turn in one message: one round trip for all of them.
 * They run in their order. When one fails, the later ones of the same message don't run.
 */
export function makePipeline(client: pg.ClientBase): QueryPipeline {
  let last: Promise<unknown> = Promise.resolve();
  let waiting: QueuedStatement[] = [];
  let busy = false;
  let isAlive = false;
  let committed = false;
  let ending: Batch | undefined;

  const send = (): void => {
    if (committed && !isAlive) {
      // Wait a whole turn of the event loop before the first message with a commit. If the idle
      // connection was closed meanwhile, Node notices it now. Then nothing was sent, and it is certain
      // that the commit didn't happen.
      isAlive = true;
      setImmediate(() => setImmediate(send));
      return;
    }
    const statements = waiting;
    waiting = [];
    busy = statements.length > 0;
    if (!busy) return;
    const batch = new Batch(client, statements, () => {
      isAlive = true;
      send();
    });
    if (committed) ending = batch;
    client.query(batch);
  };

  const enqueue = (text: string, values: readonly Value[]): Promise<StatementResult> => {
    if (committed) throw new Error('a statement was sent after the end of its transaction');
    const result = new Promise<StatementResult>((resolve, reject) => {
      waiting.push({ text, values, resolve, reject });
    });
    last = result;
    // At this time all statements that need no earlier result are queued.
    if (!busy) queueMicrotask(() => process.nextTick(send));
    busy = true;
    return result;
  };

  return {
    query: async (text, values) => (await enqueue(text, values)).rows,
    async commit() {
      const result = enqueue('commit', []);
      committed = true;
      return (await result).command;
    },
    mayHaveCommitted: () => ending?.mayHaveCommitted === true,
    idle: () =>
      last.then(
        () => undefined,
        () => undefined,
      ),
  };
}

/** A statement that the server has prepared. */
interface PreparedStatement {
  readonly columns: readonly Column[];
}

interface Column {
  readonly name: string;
  readonly parse: (text: string) => Value;
}

const preparedByClient = new WeakMap<pg.ClientBase, Map<string, PreparedStatement>>();

/** A message to the server. The driver passes the responses to the methods named `handle…`. */
class Batch implements pg.Submittable {
  /** Set by the driver, which wants to know the end. */
  callback: () => void = () => undefined;
  #isSubmitted = false;
  #isRefused = false;
  readonly #client: pg.ClientBase;
  readonly #statements: readonly QueuedStatement[];
  readonly #onEnd: () => void;
  readonly #prepared: Map<string, PreparedStatement>;
  #at = 0;
  #columns: readonly Column[] | undefined;
  #rows: Row[] = [];
  readonly #results: StatementResult[] = [];
  #ended = false;

  constructor(client: pg.ClientBase, statements: readonly QueuedStatement[], onEnd: () => void) {
    this.#client = client;
    this.#statements = statements;
    this.#onEnd = onEnd;
    this.#prepared = preparedByClient.get(client) ?? new Map();
    preparedByClient.set(client, this.#prepared);
  }

  /** For a batch with a commit: false only if nothing was sent, or the server refused it or rolled back. */
  get mayHaveCommitted(): boolean {
    if (!this.#isSubmitted || this.#isRefused) return false;
    return this.#results[this.#statements.length - 1]?.command !== 'ROLLBACK';
  }

  submit(connection: pg.Connection): void {
    // Writing to a closed connection has no effect and reports no error.
    this.#isSubmitted = connection.stream.writable;
    connection.stream.cork();
    for (const { text, values } of this.#statements) {
      const name = nameOf(text);
      const isPrepared = this.#prepared.has(text);
      if (!isPrepared) {
        // A failed batch may have prepared it. Closing an unknown statement isn't an error.
        connection.close({ type: 'S', name }, true);
        connection.parse({ name, text, types: [] }, true);
      }
      const texts = values.map((value) => (value === null ? null : String(value)));
      connection.bind({ statement: name, values: texts }, true);
      if (!isPrepared) connection.describe({ type: 'P', name: '' }, true);
      connection.execute(null, true);
    }
    connection.sync();
    connection.stream.uncork();
  }

  handleRowDescription({ fields }: { fields: { name: string; dataTypeID: number }[] }): void {
    this.#columns = fields.map(({ name, dataTypeID }) => ({
      name,
      parse: this.#client.getTypeParser(dataTypeID, 'text'),
    }));
  }

  handleDataRow({ fields }: { fields: (string | null)[] }): void {
    const text = this.#statements[this.#at]?.text ?? '';
    this.#columns ??= this.#prepared.get(text)?.columns ?? [];
    const row: Row = {};
    this.#columns.forEach(({ name, parse }, index) => {
      const field = fields[index] ?? null;
      row[name] = field === null ? null : parse(field);
    });
    this.#rows.push(row);
  }

  handleCommandComplete({ text: command }: { text: string }): void {
    const text = this.#statements[this.#at]?.text ?? '';
    if (!this.#prepared.has(text)) this.#prepared.set(text, { columns: this.#columns ?? [] });
    this.#results.push({ rows: this.#rows, command });
    this.#rows = [];
    this.#columns = undefined;
    this.#at += 1;
  }

  handleReadyForQuery(): void {
    this.#end(new Error('PostgreSQL did not respond to every statement'));
  }

  handleError(error: unknown): void {
    // After an error of a statement, the server skips the rest of the message.
    this.#isRefused = isOfStatement(error) && this.#at < this.#statements.length - 1;
    this.#prepared.delete(this.#statements[this.#at]?.text ?? '');
    this.#end(error);
  }

  /** Settles all statements. Those before a failure have run and resolve with their results. */
  #end(error: unknown): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#statements.forEach(({ resolve, reject }, index) => {
      const result = this.#results[index];
      if (result === undefined) reject(error);
      else resolve(result);
    });
    this.callback();
    this.#onEnd();
  }
}

/** Checks whether an error concerns the statement, and not the connection or the server. */
function isOfStatement(error: unknown): boolean {
  return (error as { readonly severity?: unknown } | null)?.severity === 'ERROR';
}

const names = new Map<string, string>();

/** Names a statement, so that each connection prepares it once. A short text is its own name. */
function nameOf(text: string): string {
  let name = names.get(text);
  if (name === undefined) {
    const digest = createHash('sha256').update(text).digest('base64url');
    names.set(
      text,
      (name = text.length < NAME_CHARACTERS ? text : digest.slice(0, NAME_CHARACTERS)),
    );
  }
  return name;
}

const NAME_CHARACTERS = 20;
