import { parseJson } from './parse-json.ts';
import { limits } from './limits.ts';
import { isSecretName, maskText, REDACTED } from './secrets.ts';

export const logLevels = ['debug', 'info', 'warn', 'error'] as const;
export type LogLevel = (typeof logLevels)[number];

interface LogEntry {
  /** Counts the lines of this process from 1. */
  readonly seq: number;
  readonly timestamp: string;
  readonly level: LogLevel;
  readonly component: string;
  readonly message: string;
  readonly fields: Readonly<Record<string, unknown>>;
}

interface LogQuery {
  /** This level and worse. */
  readonly level?: LogLevel;
  readonly component?: string;
  /** At or after this moment. */
  readonly since?: string;
  /** Only what came after this line. */
  readonly after?: number;
  /** The number of lines: the latest ones, or the first ones after `after` or `since`. */
  readonly limit: number;
}

interface LogRingOptions {
  readonly linesMax?: number;
  readonly bytesMax?: number;
}

/** The latest log lines of this process, kept in memory for later queries. Bounded, without secrets. */
export class LogRing {
  readonly #linesMax: number;
  readonly #bytesMax: number;
  readonly #entries: { readonly entry: LogEntry; readonly bytes: number }[] = [];
  #first = 0;
  #bytes = 0;
  #seq = 0;

  constructor({
    linesMax = limits.logRingLinesMax,
    bytesMax = limits.logRingBytesMax,
  }: LogRingOptions = {}) {
    this.#linesMax = linesMax;
    this.#bytesMax = bytesMax;
  }

  add(line: Omit<LogEntry, 'seq'>): void {
    this.#seq += 1;
    const fields = toPlain(line.fields);
    const entry = {
      ...line,
      seq: this.#seq,
      message: maskText(line.message),
      fields: fields.value,
    };
    const bytes = 2 * (entry.message.length + fields.length);
    this.#entries.push({ entry, bytes });
    this.#bytes += bytes;
    while (this.#count > this.#linesMax || (this.#bytes > this.#bytesMax && this.#count > 0)) {
      this.#bytes -= this.#entries[this.#first]?.bytes ?? 0;
      this.#first += 1;
    }
    this.#compact();
  }

  /** Oldest first. */
  read({ level = 'debug', component, since, after, limit }: LogQuery): LogEntry[] {
    const lowest = logLevels.indexOf(level);
    const found = this.#entries
      .slice(this.#first)
      .map(({ entry }) => entry)
      .filter(
        (entry) =>
          logLevels.indexOf(entry.level) >= lowest &&
          (component === undefined || entry.component === component) &&
          (since === undefined || entry.timestamp >= since) &&
          (after === undefined || entry.seq > after),
      );
    const isFromStart = since !== undefined || after !== undefined;
    return isFromStart ? found.slice(0, limit) : found.slice(-limit);
  }

  /** The number of the last line. */
  get last(): number {
    return this.#seq;
  }

  get #count(): number {
    return this.#entries.length - this.#first;
  }

  /** Removes dropped lines from the array in bulk, so that adding a line has a constant cost. */
  #compact(): void {
    if (this.#first < this.#linesMax) return;
    this.#entries.splice(0, this.#first);
    this.#first = 0;
  }
}

/** Copies the fields as JSON without secrets. Values that JSON can't hold are dropped, not kept alive. */
function toPlain(fields: LogEntry['fields']): { value: Record<string, unknown>; length: number } {
  try {
    const text = JSON.stringify(fields, (name, value: unknown) => {
      if (isSecretName(name)) return REDACTED;
      return typeof value === 'string' ? maskText(value) : value;
    });
    return { value: parseJson(text) as Record<string, unknown>, length: text.length };
  } catch {
    return { value: {}, length: 0 };
  }
}
