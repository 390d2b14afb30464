import { isatty } from 'node:tty';
import type { JsonOutput } from '../operation/define.ts';
import type { ControlSocket, ServerTarget } from './transport.ts';

/** Calls operations by name, wherever they run. */
export interface OperationCaller {
  call(name: string, input: Readonly<Record<string, unknown>>): Promise<JsonOutput>;
}

/** State of a command line while it runs. */
export interface CliSession {
  readonly host: CliHost;
  readonly io: CliIo;
  /** The words of the command line. */
  readonly argv: readonly string[];
  exitCode: number;
}

/** Flags of every command. */
export interface CommonFlags {
  readonly config?: string;
  readonly url?: string;
  readonly token?: string;
  readonly json?: boolean;
  /** With `--json`: all of the result, whatever its size. */
  readonly full?: boolean;
  /** Names of fields, separated by commas. */
  readonly fields?: string;
  readonly verbose?: boolean;
  /** False with `--no-color`. */
  readonly color?: boolean;
}

export interface WatchFlags extends CommonFlags {
  readonly once?: boolean;
}

/**
 * Functions that the command line needs from the program around it. A config path is the one that
 * `--config` named.
 */
export interface CliHost {
  /** Runs the service in the foreground until it is stopped; returns the exit code. */
  start(config: string | undefined): Promise<number>;
  demo(options: DemoOptions): Promise<number>;
  /** Runs the service of a rehearsal until it is stopped; returns the exit code. */
  rehearse(config: string | undefined, directory: string): Promise<number>;
  /** Shows the service in the terminal; returns the exit code. */
  watch(session: CliSession, options: WatchFlags): Promise<number>;
  /** Replaces the ledger with a backup; with `dryRun` it returns the plan. */
  restore(config: string | undefined, from: string, dryRun: boolean): Promise<JsonOutput>;
  /** Replaces all ledgers with exported ones; with `dryRun` it returns the plan. */
  import(config: string | undefined, from: string, dryRun: boolean): Promise<JsonOutput>;
  /** Migrates all ledgers to this program's schema; with `dryRun` it returns the plan. */
  migrate(config: string | undefined, dryRun: boolean): Promise<JsonOutput>;
  /** Finds the control socket of the service that runs here. */
  findSocket(config: string | undefined): Promise<ControlSocket | undefined>;
  /** Serves an agent over standard input and output until it leaves. */
  mcp(options: McpOptions): Promise<void>;
  /** Returns the directory with the documentation's Markdown, plain or compressed. */
  findDocs(): string;
  /** Opens the ledger without a service. */
  openLocal(config: string | undefined, need: LocalNeed): Promise<LocalConnection>;
}

/**
 * Parts that are opened without a service. `writing` holds the instance lock, `reading` doesn't
 * disturb a service, `ledger` loads no plugins, and `files` doesn't even open the ledger.
 */
export type LocalNeed = 'files' | 'ledger' | 'reading' | 'writing';

export interface DemoOptions {
  /**
   * Directory that is kept and reused; the default is a scratch directory that is removed at the
   * end.
   */
  readonly directory?: string | undefined;
  /** Stops after this number of rounds. */
  readonly rounds?: number | undefined;
  readonly print: (line: string) => void;
}

export interface McpOptions {
  readonly config: string | undefined;
  readonly isReadOnly: boolean;
  /** Only tools about these nouns (default: all). */
  readonly nouns: readonly string[] | undefined;
  /** Finds the service for each request, because it may come and go. */
  readonly findTarget: () => Promise<ServerTarget | undefined>;
  /** True if the configuration is on the machine of the caller. */
  readonly isHere: boolean;
  readonly interruption: AbortSignal;
}

export interface LocalConnection {
  readonly caller: OperationCaller;
  close(): Promise<void>;
}

export interface CliIo {
  readonly stdout: TextWriter;
  readonly stderr: TextWriter;
  readonly stdin: AsyncIterable<Uint8Array | string>;
  /** True if standard input is a terminal. */
  readonly isInTTY: boolean;
  /** Hides what is typed, and reads it key by key. */
  setHidden(isHidden: boolean): void;
  /** True if standard output is a terminal. */
  readonly isTTY: boolean;
  /** True if standard error, where progress is shown, is a terminal. */
  readonly isErrTTY: boolean;
  readonly hasColors: boolean;
  /** Current size of the terminal. */
  readonly columns: number;
  readonly rows: number;
  readonly cwd: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  now(): number;
  /** Resolves after a time, or at once when the signal is aborted. */
  pause(ms: number, signal: AbortSignal): Promise<void>;
  /**
   * Returns a signal that Ctrl-C aborts; from this call on, Ctrl-C alone doesn't end the program.
   */
  interruption(): AbortSignal;
  /** Ends the program even if something is in progress. */
  exit(code: number): void;
}

interface TextWriter {
  write(text: string): unknown;
}

/** Uses the streams of this process. */
export function processIo(): CliIo {
  const { stdout, env } = process;
  // A reader that closes our output early, such as `head`, isn't an error.
  stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'EPIPE') process.exit();
    process.stderr.write(`error: standard output cannot be written: ${error.message}\n`);
    process.exit(1);
  });
  return {
    stdout,
    // Node creates these two on first access, which most commands never do.
    get stderr() {
      return process.stderr;
    },
    get stdin() {
      return process.stdin as AsyncIterable<Uint8Array | string>;
    },
    isInTTY: isatty(0),
    setHidden: (isHidden) => void process.stdin.setRawMode(isHidden),
    isTTY: stdout.isTTY,
    isErrTTY: isatty(2),
    hasColors: stdout.isTTY && stdout.hasColors(),
    get columns() {
      return stdout.columns;
    },
    get rows() {
      return stdout.rows;
    },
    cwd: process.cwd(),
    env,
    now: () => Date.now(),
    pause,
    interruption,
    exit: (code) => process.exit(code),
  };
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve();
    const done = (): void => {
      clearTimeout(timer);
      signal.removeEventListener('abort', done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal.addEventListener('abort', done);
  });
}

function interruption(): AbortSignal {
  const controller = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.once(signal, () => controller.abort());
  }
  return controller.signal;
}
