/** Runs a program in its own process group, which has ended when this returns. */
import { spawn, type ChildProcess } from 'node:child_process';
import { constants } from 'node:os';
import type { Readable } from 'node:stream';
import type { CommandLine } from './command-line.ts';

export interface ProgramRun {
  readonly line: CommandLine;
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
  /** Time between SIGTERM and SIGKILL. */
  readonly graceMs: number;
}

export type ProgramEnd =
  | { readonly kind: 'unstarted'; readonly code: string }
  | { readonly kind: 'timeout' }
  | { readonly kind: 'overflow' }
  /** A signal is reported as in shells: 128 plus its number. */
  | {
      readonly kind: 'exited';
      readonly code: number;
      readonly stdout: string;
      readonly stderr: string;
    };

export const STDOUT_BYTES_MAX = 32 * 1024 * 1024;
const STDERR_BYTES_MAX = 16 * 1024;
/** Time to wait for output that another process keeps open after the program has ended. */
const DRAIN_MS = 300;

export async function runProgram(run: ProgramRun): Promise<ProgramEnd> {
  const { line, cwd, env, timeoutMs } = run;
  const [program, ...args] = line.argv;
  let child: ChildProcess;
  try {
    child = spawn(program, args, { cwd, env: { ...env }, detached: true, stdio: 'pipe' });
  } catch (error) {
    return { kind: 'unstarted', code: codeOf(error) };
  }
  const { stdin, stdout, stderr } = child;
  if (stdin === null || stdout === null || stderr === null) throw new Error('it has no pipes');
  stdin.on('error', () => undefined).end(line.stdin);
  const stopping = new Stopping(child, run.graceMs);
  const output = collect(stdout, STDOUT_BYTES_MAX, () => stopping.begin('overflow'));
  const complained = collect(stderr, STDERR_BYTES_MAX, () => undefined);
  const timer = setTimeout(() => stopping.begin('timeout'), timeoutMs);
  try {
    const end = await exitOf(child);
    if (end.kind === 'unstarted') return end;
    stopping.finish();
    await Promise.race([Promise.all([output.done, complained.done]), pause(DRAIN_MS)]);
    if (stopping.reason !== undefined) return { kind: stopping.reason };
    return { ...end, stdout: output.text(), stderr: complained.text() };
  } finally {
    clearTimeout(timer);
    stdout.destroy();
    stderr.destroy();
  }
}

/**
 * Ends the program and its process group. A signal to the plugin reaches only the plugin's own group, so
 * it is forwarded.
 */
class Stopping {
  reason: 'timeout' | 'overflow' | undefined;
  readonly #child: ChildProcess;
  readonly #graceMs: number;
  #grace: NodeJS.Timeout | undefined;
  readonly #onTerm = (): void => {
    this.#signal('SIGTERM');
    setTimeout(() => this.#leave(), this.#graceMs);
    this.#child.once('exit', () => this.#leave());
  };

  constructor(child: ChildProcess, graceMs: number) {
    this.#child = child;
    this.#graceMs = graceMs;
    process.once('SIGTERM', this.#onTerm);
  }

  begin(reason: 'timeout' | 'overflow'): void {
    if (this.reason !== undefined) return;
    this.reason = reason;
    this.#signal('SIGTERM');
    this.#grace = setTimeout(() => this.#signal('SIGKILL'), this.#graceMs);
  }

  /** Kills the rest of the group after the program has ended. */
  finish(): void {
    clearTimeout(this.#grace);
    process.off('SIGTERM', this.#onTerm);
    this.#signal('SIGKILL');
  }

  #leave(): void {
    this.#signal('SIGKILL');
    process.exit(128 + constants.signals.SIGTERM);
  }

  #signal(signal: NodeJS.Signals): void {
    if (this.#child.pid === undefined) return;
    try {
      process.kill(-this.#child.pid, signal);
    } catch {
      // The group has already ended.
    }
  }
}

function exitOf(
  child: ChildProcess,
): Promise<{ kind: 'exited'; code: number } | { kind: 'unstarted'; code: string }> {
  return new Promise((resolve) => {
    child.once('error', (error) => resolve({ kind: 'unstarted', code: codeOf(error) }));
    child.once('exit', (code, signal) => {
      const number = signal === null ? (code ?? 0) : 128 + constants.signals[signal];
      resolve({ kind: 'exited', code: number });
    });
  });
}

function collect(
  stream: Readable,
  bytesMax: number,
  onOverflow: () => void,
): { readonly done: Promise<void>; readonly text: () => string } {
  const chunks: Buffer[] = [];
  let room = bytesMax;
  stream.on('data', (chunk: Buffer) => {
    if (room > 0) chunks.push(chunk.subarray(0, room));
    if (chunk.length > room) onOverflow();
    room = Math.max(0, room - chunk.length);
  });
  stream.on('error', () => undefined);
  const done = new Promise<void>((resolve) => {
    stream.once('close', resolve);
  });
  return { done, text: () => Buffer.concat(chunks).toString() };
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms);
  });
}

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : 'unknown';
}
