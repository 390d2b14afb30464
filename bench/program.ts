import { spawn, type ChildProcess } from 'node:child_process';
import { access, constants } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Measures } from './frame.ts';
import { settings } from './settings.ts';

export interface ProgramOptions {
  readonly input?: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly nodeOptions?: readonly string[];
  readonly timeoutMs?: number;
}

const running = new Set<ChildProcess>();
process.once('exit', killPrograms);

/** Runs a program of bench/programs with this Node and reads the measures in its last line. */
export async function runNode(
  name: string,
  input: unknown,
  options: ProgramOptions = {},
): Promise<Measures> {
  const path = fileURLToPath(new URL(`programs/${name}.ts`, import.meta.url));
  const args = [...(options.nodeOptions ?? []), path, JSON.stringify(input)];
  return await runProgram(process.execPath, args, options);
}

/** Runs a program and reads its measures, one JSON object of numbers, from its last line. */
export async function runProgram(
  command: string,
  args: readonly string[],
  options: ProgramOptions = {},
): Promise<Measures> {
  const lines = (await runText(command, args, options)).trimEnd().split('\n');
  const last = lines.at(-1) ?? '';
  const measures: unknown = JSON.parse(last);
  if (typeof measures !== 'object' || measures === null) throw new Error(`${command}: ${last}`);
  return Object.fromEntries(
    Object.entries(measures).filter((entry): entry is [string, number] =>
      Number.isFinite(entry[1]),
    ),
  );
}

export async function runText(
  command: string,
  args: readonly string[],
  options: ProgramOptions = {},
): Promise<string> {
  const child = spawn(command, args, {
    env: { ...environment(), ...options.env },
    stdio: 'pipe',
    timeout: options.timeoutMs ?? settings.programTimeoutMs,
    killSignal: 'SIGKILL',
  });
  track(child);
  const ended = new Promise<string>((resolve) => {
    child.once('error', (error) => resolve(error.message));
    child.once('close', (code, signal) =>
      resolve(code === 0 ? '' : `ended with ${code ?? signal}`),
    );
  });
  const text = { stdout: '', stderr: '' };
  for (const stream of ['stdout', 'stderr'] as const) {
    child[stream].setEncoding('utf8').on('data', (chunk: string) => (text[stream] += chunk));
  }
  // A program may end before it has read all of its input.
  child.stdin.on('error', () => undefined).end(options.input ?? '');
  const problem = await ended;
  if (problem !== '') throw new Error(`${command} ${problem}: ${text.stderr.trim().slice(-400)}`);
  return text.stdout;
}

/** Kills the program when the benchmark ends. */
export function track(child: ChildProcess): void {
  running.add(child);
  child.once('close', () => running.delete(child));
}

export function killPrograms(): void {
  for (const child of running) child.kill('SIGKILL');
}

/** Finds the absolute path of a command. */
export async function findCommand(name: string): Promise<string | undefined> {
  for (const directory of (process.env['PATH'] ?? '').split(delimiter)) {
    const path = join(directory, name);
    const found = await access(path, constants.X_OK).then(
      () => true,
      () => false,
    );
    if (found) return path;
  }
  return undefined;
}

/** Returns a minimal environment, because inherited variables can slow down every process. */
function environment(): Record<string, string> {
  const inherited = [
    'PATH',
    'HOME',
    'LANG',
    'TMPDIR',
    'DUCTILE_BENCH_PEERS',
    'DUCTILE_BENCH_SCALE',
  ];
  return Object.fromEntries(
    inherited.flatMap((name) => {
      const value = process.env[name];
      return value === undefined ? [] : [[name, value]];
    }),
  );
}
