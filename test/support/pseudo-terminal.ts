/** Runs a program on a pseudo-terminal, and reads its screen. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { onTestFinished } from 'vitest';
import { eventually } from './instance.ts';

export interface PseudoTerminal {
  /** Returns the lines on the screen, without colors. */
  screen(): string[];
  /** Returns all output, with ␛ instead of the escape character. */
  written(): string;
  press(keys: string): void;
  resize(columns: number, rows: number): void;
  signal(number: number): void;
  /** Waits until the screen matches. */
  sees(what: RegExp): Promise<string>;
  /** Waits for the end; `restored` tells whether the terminal's modes are as before. */
  ended(): Promise<{ readonly code: number; readonly restored: boolean }>;
}

export interface TerminalProgram {
  readonly columns: number;
  readonly rows: number;
  readonly env: NodeJS.ProcessEnv;
}

const script = join(import.meta.dirname, 'pseudo-terminal.py');

export function startOnTerminal(
  argv: readonly string[],
  { columns, rows, env }: TerminalProgram,
): PseudoTerminal {
  const child = spawn('python3', [script, `${columns}`, `${rows}`, ...argv], { env });
  onTestFinished(async () => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    child.kill();
    await once(child, 'exit');
  });
  let written = '';
  child.stdout.setEncoding('utf8').on('data', (piece: string) => {
    written += piece.replaceAll('\u001b', '␛');
  });
  const result = text(child.stderr);
  const screen = (): string[] => readScreen(written);
  return {
    screen,
    written: () => written,
    press: (keys) => void child.stdin.write(keys),
    resize: (wide, high) => void child.stdin.write(`\0size ${wide} ${high}`),
    signal: (number) => void child.stdin.write(`\0signal ${number}`),
    sees: (what) =>
      eventually(`the screen has ${what.source}; it is\n${screen().join('\n')}`, () => {
        const shown = screen().join('\n');
        return what.test(shown) && shown;
      }).catch((thrown: unknown) => {
        throw new Error(`${String(thrown)}\nnow it is\n${screen().join('\n')}`);
      }),
    ended: async () => JSON.parse(await result) as { code: number; restored: boolean },
  };
}

/**
 * Interprets the sequences that the program uses: it clears the screen, and writes whole lines at
 * positions.
 */
function readScreen(written: string): string[] {
  const lines: string[] = [];
  const since = written.slice(Math.max(0, written.lastIndexOf('␛[2J')));
  for (const piece of since.split(/(?=␛\[\d+;1H)/).slice(1)) {
    const [, row = '1', line = ''] = /^␛\[(\d+);1H␛\[K(.*)/s.exec(piece) ?? [];
    lines[Number(row) - 1] = line.replaceAll(/␛\[[\d;?]*[A-Za-z]/g, '');
  }
  return Array.from(lines, (line: string | undefined) => line ?? '');
}
