import { isatty } from 'node:tty';
import type { JsonOutput } from '../operation/define.ts';
import type { ControlSocket, ServerTarget } from './transport.ts';

/** Asks for operations by name, wherever they run. */
export interface OperationCaller {
  call(name: string, input: Readonly<Record<string, unknown>>): Promise<JsonOutput>;
}

/** One command line while it runs. */
export interface CliSession {
  readonly host: CliHost;
  readonly io: CliIo;
  /** The words of the command line. */
  readonly argv: readonly string[];
  exitCode: number;
}

/** What every command understands. */
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

/** What the command line needs from the program around it. A config path is what `--config` named. */
export interface CliHost {
  /** Runs the service in the foreground until it is told to stop; gives the exit code. */
  start(config: string | undefined): Promise<number>;
  demo(options: DemoOptions): Promise<number>;
  /** Runs the service of a rehearsal until it is stopped; returns the exit code. */
  rehearse(config: string | undefined, directory: string): Promise<number>;
  /** Shows the service in the terminal; returns the exit code. */
  watch(session: CliSession, options: WatchFlags): Promise<number>;
  /** Puts a backup in the place of the ledger; with `dryRun` it says what would be done. */
  restore(config: string | undefined, from: string, dryRun: boolean): Promise<JsonOutput>;
  /** Puts what was exported in the place of all ledgers; with `dryRun` it says what would be done. */
  import(config: string | undefined, from: string, dryRun: boolean): Promise<JsonOutput>;
  /** Brings all ledgers to this program's schema; with `dryRun` it says what would be done. */
  migrate(config: string | undefined, dryRun: boolean): Promise<JsonOutput>;
  /** The control socket of the process that runs here, if one does. */
  findSocket(config: string | undefined): Promise<ControlSocket | undefined>;
  /** Answers an agent over standard input and output until it leaves. */
  mcp(options: McpOptions): Promise<void>;
  /** Does without a server: opens the ledger itself. */
  openLocal(config: string | undefined, need: LocalNeed): Promise<LocalConnection>;
}

/**
 * What is opened without a server. Who writes holds the lock of the instance meanwhile; who reads
 * disturbs nobody. `ledger`: the plugins are not looked at either. `files`: not even the ledger is.
 */
export type LocalNeed = 'files' | 'ledger' | 'reading' | 'writing';

export interface DemoOptions {
  /** Kept and used again; without one a scratch directory is made, and removed at the end. */
  readonly directory?: string | undefined;
  /** Ends by itself after so many rounds. */
  readonly rounds?: number | undefined;
  readonly print: (line: string) => void;
}

export interface McpOptions {
  readonly config: string | undefined;
  readonly isReadOnly: boolean;
  /** Only tools about these; all unless given. */
  readonly nouns: readonly string[] | undefined;
  /** The server to ask, looked for each time: it may come and go. */
  readonly findTarget: () => Promise<ServerTarget | undefined>;
  /** Whether the files of the configuration are those of whoever started this. */
  readonly isHere: boolean;
  readonly over: AbortSignal;
}

export interface LocalConnection {
  readonly caller: OperationCaller;
  close(): Promise<void>;
}

export interface CliIo {
  readonly stdout: TextWriter;
  readonly stderr: TextWriter;
  readonly stdin: AsyncIterable<Uint8Array | string>;
  /** Whether a person types standard input. */
  readonly isInTTY: boolean;
  /** Whether what is typed is not shown, and comes key by key. */
  setHidden(isHidden: boolean): void;
  /** Whether a person sees standard output. */
  readonly isTTY: boolean;
  /** Whether a person sees standard error, where progress is shown. */
  readonly isErrTTY: boolean;
  readonly hasColors: boolean;
  /** The size of the terminal, now. */
  readonly columns: number;
  readonly rows: number;
  readonly cwd: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  now(): number;
  /** Resolves after a time, or at once when it is over. */
  pause(ms: number, over: AbortSignal): Promise<void>;
  /** Aborted when somebody presses Ctrl-C; from this call on that alone does not end the program. */
  interruption(): AbortSignal;
  /** Ends the program although something is still under way. */
  exit(code: number): void;
}

export interface TextWriter {
  write(text: string): unknown;
}

/** The streams of this process. */
export function processIo(): CliIo {
  const { stdout, env } = process;
  // Whoever reads only the beginning of our output has not made a mistake.
  stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'EPIPE') process.exit();
    process.stderr.write(`error: standard output cannot be written: ${error.message}\n`);
    process.exit(1);
  });
  return {
    stdout,
    // These two are made when they are first looked at, which most commands never do.
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

function pause(ms: number, over: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (over.aborted) return resolve();
    const done = (): void => {
      clearTimeout(timer);
      over.removeEventListener('abort', done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    over.addEventListener('abort', done);
  });
}

function interruption(): AbortSignal {
  const controller = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.once(signal, () => controller.abort());
  }
  return controller.signal;
}
