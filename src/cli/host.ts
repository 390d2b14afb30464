import type { JsonOutput } from '../operations/define.ts';

/** Asks for operations by name, wherever they run. */
export interface Caller {
  call(name: string, input: Readonly<Record<string, unknown>>): Promise<JsonOutput>;
}

/** What the command line needs from the program around it. A config path is what `--config` named. */
export interface CliHost {
  /** Runs the service in the foreground until it is told to stop; gives the exit code. */
  start(config: string | undefined): Promise<number>;
  demo(options: DemoOptions): Promise<number>;
  /** Puts a backup in the place of the ledger; what it answers is printed. */
  restore(config: string | undefined, from: string): Promise<JsonOutput>;
  /** The control socket of the process that runs here, if one does. */
  findSocket(config: string | undefined): Promise<string | undefined>;
  /** Does without a server: opens the ledger itself. */
  openLocal(config: string | undefined): Promise<LocalDoor>;
}

export interface DemoOptions {
  /** Kept and used again; without one a scratch directory is made, and removed at the end. */
  readonly directory?: string | undefined;
  /** Ends by itself after so many rounds. */
  readonly rounds?: number | undefined;
  readonly print: (line: string) => void;
}

export interface LocalDoor {
  readonly caller: Caller;
  close(): Promise<void>;
}

export interface CliIo {
  readonly stdout: TextWriter;
  readonly stderr: TextWriter;
  readonly stdin: AsyncIterable<Uint8Array | string>;
  readonly isTTY: boolean;
  readonly hasColors: boolean;
  /** The width of the terminal. */
  readonly columns: number;
  readonly cwd: string;
}

export interface TextWriter {
  write(text: string): unknown;
}

/** The streams of this process. */
export function processIo(): CliIo {
  const { stdout, stderr, stdin } = process;
  // Whoever reads only the beginning of our output has not made a mistake.
  stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code !== 'EPIPE') throw error;
  });
  return {
    stdout,
    stderr,
    stdin: stdin as AsyncIterable<Uint8Array | string>,
    isTTY: stdout.isTTY,
    hasColors: stdout.isTTY && stdout.hasColors(),
    columns: stdout.columns,
    cwd: process.cwd(),
  };
}
