import { inspect, styleText } from 'node:util';
import pino from 'pino';
import { toTimestamp } from './clock.ts';
import { DuctileError, messageOf } from './errors.ts';
import { LogRing, logLevels, type LogLevel } from './log-ring.ts';
import { showEscapedBreaks, toVisibleText } from './text.ts';
import { fstatSync, write as writeChunk, writeSync } from 'node:fs';
import { limits } from './limits.ts';

export type LogFormat = 'json' | 'text';

/** `plugin` and `job_id` wherever they are known; further fields as needed. */
export type LogFields = Readonly<Record<string, unknown>>;

export interface Log {
  debug(message: string, fields?: LogFields): void;
  info(message: string, fields?: LogFields): void;
  warn(message: string, fields?: LogFields): void;
  error(message: string, fields?: LogFields): void;
  /** Returns the same log for a component of the program. */
  child(component: string): Log;
  /** Returns the same log for a tenant, with a ring of its own: a tenant sees only its own lines. */
  forTenant(tenant: string): Log;
  /** The latest lines. */
  readonly ring: LogRing;
}

interface LogOptions {
  /** The lowest level that is logged. A function is called for each line, because a reload may change it. */
  readonly level: LogLevel | (() => LogLevel);
  readonly format: LogFormat;
  /** The writer of whole lines (default: standard output). */
  readonly destination?: LineWriter;
}

export function makeLogger({ level, format, destination = openStandardOutput() }: LogOptions): Log {
  const write = format === 'json' ? jsonWriter(destination) : textWriter(destination);
  const lowest = (): number => logLevels.indexOf(typeof level === 'function' ? level() : level);
  const allLines = new LogRing();
  const log = (component: string, tenant?: string, ring: LogRing = allLines): Log => {
    const at =
      (here: LogLevel) =>
      (message: string, fields: LogFields = {}): void => {
        if (logLevels.indexOf(here) < lowest()) return;
        const prepared = prepare(tenant === undefined ? fields : { tenant, ...fields });
        write(here, component, message, prepared);
        const timestamp = toTimestamp(Date.now());
        const line = { timestamp, level: here, component, message, fields: prepared };
        for (const target of new Set([ring, allLines])) target.add(line);
      };
    return {
      debug: at('debug'),
      info: at('info'),
      warn: at('warn'),
      error: at('error'),
      child: (part) => log(part, tenant, ring),
      forTenant: (slug) => log(component, slug, new LogRing()),
      ring,
    };
  };
  return log('ductile');
}

/** Chooses text for a terminal, and JSON for programs that collect logs. */
export function chooseLogFormat(stream: { readonly isTTY?: boolean }): LogFormat {
  return stream.isTTY === true ? 'text' : 'json';
}

type Write = (level: LogLevel, component: string, message: string, fields: LogFields) => void;

function jsonWriter(destination: LineWriter): Write {
  const root = pino(
    {
      level: 'debug',
      base: null,
      messageKey: 'message',
      timestamp: () => `,"timestamp":"${toTimestamp(Date.now())}"`,
      formatters: { level: (label) => ({ level: label }) },
    },
    // JSON doesn't escape all control characters of a terminal; escaped they mean the same.
    { write: (line) => destination.write(`${toVisibleText(line.trimEnd())}\n`) },
  );
  return (level, component, message, fields) => root[level]({ component, ...fields }, message);
}

const styles = { debug: 'gray', info: 'green', warn: 'yellow', error: 'red' } as const;
const WORD_WIDTH = 5;

/** Escapes and quotes values, so that the output of a plugin can't end the line or look like a field. */
function textWriter(destination: LineWriter): Write {
  return (level, component, message, fields) => {
    const word = styleText(styles[level], level.toUpperCase().padEnd(WORD_WIDTH));
    const rest = Object.entries(fields).map(
      ([key, value]) => ` ${styleText('gray', `${toVisibleText(key)}=`)}${showValue(value)}`,
    );
    const name = styleText('cyan', toVisibleText(component));
    destination.write(
      `${clockTime()} ${word} ${name}  ${toVisibleText(message)}${rest.join('')}\n`,
    );
  };
}

function clockTime(): string {
  const now = new Date();
  const time = now.toTimeString().slice(0, 'hh:mm:ss'.length);
  return styleText('gray', `${time}.${String(now.getMilliseconds()).padStart(3, '0')}`);
}

function showValue(value: unknown): string {
  if (typeof value !== 'string')
    return showEscapedBreaks(toVisibleText(inspect(value, { breakLength: Infinity })));
  return /^[\w.:/@+-]+$/.test(value)
    ? value
    : showEscapedBreaks(toVisibleText(JSON.stringify(value)));
}

const reservedNames = new Set(['timestamp', 'level', 'component', 'message']);

/** Renames fields that would replace the line's own, and expands errors, which JSON shows as `{}`. */
function prepare(fields: LogFields): LogFields {
  const entries = Object.entries(fields)
    .filter(([, value]) => value !== undefined)
    .map(([key, value]) => [reservedNames.has(key) ? `${key}_` : key, describe(value)] as const);
  return Object.fromEntries(entries);
}

function describe(value: unknown): unknown {
  if (value instanceof DuctileError) return value.toJSON();
  return value instanceof Error ? (value.stack ?? value.message) : value;
}

export interface LineWriter {
  write(line: string): void;
}

const STANDARD_OUTPUT = 1;

/**
 * Standard output for the lines of a log. Neither a slow reader nor a full disk blocks the service:
 * lines wait in memory, and lines over the limit are dropped. At exit the rest is written once;
 * pino's own destination would retry a refused write forever.
 */
function openStandardOutput(): LineWriter {
  let lines: string[] = [];
  let chars = 0;
  let chunk: Buffer = Buffer.alloc(0);
  let isWriting = false;
  /** The size of the file before the write in progress. Undefined if standard output isn't a file. */
  let sizeBefore: number | undefined;
  let isClosed = false;

  const send = (): void => {
    if (chunk.length === 0) {
      if (lines.length === 0) return;
      chunk = Buffer.from(lines.join(''));
      lines = [];
      chars = 0;
    }
    isWriting = true;
    sizeBefore = readFileSize();
    writeChunk(STANDARD_OUTPUT, chunk, (error, written) => {
      isWriting = false;
      if (error === null) {
        chunk = chunk.subarray(written);
        send();
      } else if (error.code === 'EPIPE') isClosed = true;
      else wait(error.code === 'EAGAIN' ? limits.logRetryMs : limits.logRefusedRetryMs);
    });
  };
  let timer: NodeJS.Timeout | undefined;
  const wait = (ms: number): void => {
    timer = setTimeout(() => {
      timer = undefined;
      send();
    }, ms).unref();
  };
  process.once('exit', () => {
    if (isClosed) return;
    // Node's thread pool finishes a write in progress before the process exits.
    if (isWriting && sizeBefore !== undefined) waitForSize(sizeBefore + chunk.length);
    const left = [...(isWriting ? [] : [chunk]), Buffer.from(lines.join(''))];
    flush(Buffer.concat(left));
  });
  return {
    write(line) {
      if (isClosed || chars + line.length > limits.logBufferBytesMax) return;
      lines.push(line);
      chars += line.length;
      if (!isWriting && timer === undefined) send();
    },
  };
}

function readFileSize(): number | undefined {
  try {
    const status = fstatSync(STANDARD_OUTPUT);
    return status.isFile() ? status.size : undefined;
  } catch {
    return undefined;
  }
}

/** Waits until a write of another thread is in the file, so that the lines after it don't overtake it. */
function waitForSize(size: number): void {
  const end = performance.now() + limits.logFlushMs;
  while ((readFileSize() ?? size) < size && performance.now() < end) sleepSync(limits.logRetryMs);
}

function sleepSync(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}

function flush(bytes: Buffer): void {
  const end = performance.now() + limits.logFlushMs;
  let at = 0;
  while (at < bytes.length && performance.now() < end) {
    try {
      at += writeSync(STANDARD_OUTPUT, bytes, at);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') return;
      sleepSync(limits.logRetryMs);
    }
  }
}

export interface FailureLog {
  /** Logs a failure, unless it repeats the last one. */
  report(error: unknown, fields?: LogFields): void;
  /** Notes a success, so that the next failure is logged in any case. */
  reset(): void;
}

/**
 * Logs the failures of repeated work. The same failure is logged when it begins, then at intervals with
 * a count. So the lines of a long outage don't push the lines about its cause out of the log.
 */
export function makeFailureLog(write: (fields: LogFields) => void): FailureLog {
  let last: { readonly error: string; readonly atMs: number } | undefined;
  let unlogged = 0;
  return {
    report(thrown, fields = {}) {
      const error = messageOf(thrown);
      const isSame = last?.error === error;
      if (isSame && performance.now() - (last?.atMs ?? 0) < limits.failureLogMs) {
        unlogged += 1;
        return;
      }
      write({ error, ...fields, ...(isSame ? { repeated: unlogged } : {}) });
      last = { error, atMs: performance.now() };
      unlogged = 0;
    },
    reset() {
      last = undefined;
      unlogged = 0;
    },
  };
}
