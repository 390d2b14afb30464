import { createHash } from 'node:crypto';
import type pg from 'pg';
import type { Row, Value } from '../dialect.ts';

export interface QueryPipeline {
  /** Runs one statement with `$n` placeholders. */
  readonly query: (text: string, values: readonly Value[]) => Promise<Row[]>;
  /** Ends the transaction, and says how: a failed one is rolled back by its commit, without an error. */
  readonly commit: () => Promise<string>;
  /** Whether the server may have committed, as far as it has answered. */
  readonly mayHaveCommitted: () => boolean;
  /** Resolves when all that was asked for has been answered, one way or another. */
  readonly idle: () => Promise<void>;
}

interface Answer {
  readonly rows: Row[];
  /** The server's word for what it did. */
  readonly command: string;
}

interface Waiting {
  readonly text: string;
  readonly values: readonly Value[];
  readonly resolve: (answer: Answer) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * A connection on which statements that are asked for together also travel together, and are
 * answered together: a round trip for all instead of one for each. They run in the order in which
 * they were asked for; when one fails, those behind it in the same message are not run.
 */
export function makePipeline(client: pg.ClientBase): QueryPipeline {
  let last: Promise<unknown> = Promise.resolve();
  let waiting: Waiting[] = [];
  let busy = false;
  let lives = false;
  let committed = false;
  let ending: Batch | undefined;

  const send = (): void => {
    if (committed && !lives) {
      // A whole turn of the event loop, in which it is noticed when the connection was closed while
      // nobody used it: then nothing was sent, and that the commit did not happen is certain.
      lives = true;
      setImmediate(() => setImmediate(send));
      return;
    }
    const statements = waiting;
    waiting = [];
    busy = statements.length > 0;
    if (!busy) return;
    const batch = new Batch(client, statements, () => {
      lives = true;
      send();
    });
    if (committed) ending = batch;
    client.query(batch);
  };

  const ask = (text: string, values: readonly Value[]): Promise<Answer> => {
    if (committed) throw new Error('the transaction was asked for more after its end');
    const answer = new Promise<Answer>((resolve, reject) => {
      waiting.push({ text, values, resolve, reject });
    });
    last = answer;
    // Whatever can be asked without waiting for an answer has been asked when this comes.
    if (!busy) queueMicrotask(() => process.nextTick(send));
    busy = true;
    return answer;
  };

  return {
    query: async (text, values) => (await ask(text, values)).rows,
    async commit() {
      const answer = ask('commit', []);
      committed = true;
      return (await answer).command;
    },
    mayHaveCommitted: () => ending?.mayHaveCommitted === true,
    idle: () =>
      last.then(
        () => undefined,
        () => undefined,
      ),
  };
}

/** What is known of a statement that the server has planned. */
interface Planned {
  readonly columns: readonly Column[];
}

interface Column {
  readonly name: string;
  readonly parse: (text: string) => Value;
}

const plannedOf = new WeakMap<pg.ClientBase, Map<string, Planned>>();

/** One message to the server: the driver hands the answers to the methods named `handle…`. */
class Batch implements pg.Submittable {
  /** Set by the driver, to be told of the end. */
  callback: () => void = () => undefined;
  #isSubmitted = false;
  #isRefused = false;
  readonly #client: pg.ClientBase;
  readonly #statements: readonly Waiting[];
  readonly #onEnd: () => void;
  readonly #planned: Map<string, Planned>;
  #at = 0;
  #columns: readonly Column[] | undefined;
  #rows: Row[] = [];
  readonly #answers: Answer[] = [];
  #ended = false;

  constructor(client: pg.ClientBase, statements: readonly Waiting[], onEnd: () => void) {
    this.#client = client;
    this.#statements = statements;
    this.#onEnd = onEnd;
    this.#planned = plannedOf.get(client) ?? new Map();
    plannedOf.set(client, this.#planned);
  }

  /** Of one that ends with a commit: only a server that has refused it, or rolled it back, is sure. */
  get mayHaveCommitted(): boolean {
    if (!this.#isSubmitted || this.#isRefused) return false;
    return this.#answers[this.#statements.length - 1]?.command !== 'ROLLBACK';
  }

  submit(connection: pg.Connection): void {
    // What is written after the end of a connection goes nowhere, without a word.
    this.#isSubmitted = connection.stream.writable;
    connection.stream.cork();
    for (const { text, values } of this.#statements) {
      const name = nameOf(text);
      const planned = this.#planned.has(text);
      if (!planned) {
        // Planned by a batch that failed, perhaps; closing what is not there is no error.
        connection.close({ type: 'S', name }, true);
        connection.parse({ name, text, types: [] }, true);
      }
      const texts = values.map((value) => (value === null ? null : String(value)));
      connection.bind({ statement: name, values: texts }, true);
      if (!planned) connection.describe({ type: 'P', name: '' }, true);
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
    this.#columns ??= this.#planned.get(text)?.columns ?? [];
    const row: Row = {};
    this.#columns.forEach(({ name, parse }, index) => {
      const field = fields[index] ?? null;
      row[name] = field === null ? null : parse(field);
    });
    this.#rows.push(row);
  }

  handleCommandComplete({ text: command }: { text: string }): void {
    const text = this.#statements[this.#at]?.text ?? '';
    if (!this.#planned.has(text)) this.#planned.set(text, { columns: this.#columns ?? [] });
    this.#answers.push({ rows: this.#rows, command });
    this.#rows = [];
    this.#columns = undefined;
    this.#at += 1;
  }

  handleReadyForQuery(): void {
    this.#end(new Error('the server did not answer every statement'));
  }

  handleError(error: unknown): void {
    // After an error of a statement the server passes over all that came in the same message.
    this.#isRefused = isOfStatement(error) && this.#at < this.#statements.length - 1;
    this.#planned.delete(this.#statements[this.#at]?.text ?? '');
    this.#end(error);
  }

  /** What ran before a failure has run, and those who asked for it are told so. */
  #end(error: unknown): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#statements.forEach(({ resolve, reject }, index) => {
      const answer = this.#answers[index];
      if (answer === undefined) reject(error);
      else resolve(answer);
    });
    this.callback();
    this.#onEnd();
  }
}

/** Said by the server of what it was asked, and not of the connection or of itself. */
function isOfStatement(error: unknown): boolean {
  return (error as { readonly severity?: unknown } | null)?.severity === 'ERROR';
}

const names = new Map<string, string>();

/** A text that has a name is planned once for each connection; a short one is its own name. */
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
