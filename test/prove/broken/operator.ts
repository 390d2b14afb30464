/** An operator on call: runs commands, reads their output, and counts both. */
import { execFile } from 'node:child_process';
import { chmod, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { JsonObject } from '../../../src/base/json.ts';
import { root } from '../../support/crash/server.ts';

/** The size of an output that needs no scrolling. */
export const ANSWER_BYTES_MAX = 8192;

export interface Finding {
  readonly id: string;
  readonly severity: string;
  readonly category: string;
  readonly key: string;
  readonly place: string;
  readonly message: string;
  readonly evidence: string | null;
  readonly fix: string;
  readonly commands: readonly string[];
  readonly why: string | null;
  readonly since: string | null;
  readonly count: number;
}

export interface Answer {
  readonly line: string;
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** The way in which the operator selects the installation. */
export type Naming = 'flag' | 'variable';

export interface Operator {
  /** The results of all commands so far. */
  readonly answers: readonly Answer[];
  /** Runs one line of a shell, exactly as it is; `input` is typed where it asks for a secret. */
  run(line: string, input?: string): Promise<Answer>;
  /** The findings of `doctor`. */
  doctor(): Promise<Finding[]>;
  why(subject: string): Promise<JsonObject>;
}

const patienceMs = 120_000;

/** Puts `ductile` on the path of a shell in a directory of its own. */
export async function makeOperator(
  { directory }: { readonly directory: string },
  naming: Naming,
): Promise<Operator> {
  const home = join(directory, 'operator');
  await mkdir(home, { recursive: true });
  const program = join(home, 'ductile');
  const node = join(root, 'node_modules/.bin/node');
  await writeFile(program, `#!/bin/sh\nexec ${node} ${join(root, 'bin/ductile.cjs')} "$@"\n`);
  await chmod(program, 0o755);
  const env = {
    PATH: `${home}:${process.env['PATH']}`,
    HOME: home,
    ...(naming === 'variable' ? { DUCTILE_CONFIG_DIR: directory } : {}),
  };
  const named = naming === 'flag' ? ` --config ${directory}` : '';
  const answers: Answer[] = [];
  const run = (line: string, input = ''): Promise<Answer> =>
    new Promise((done) => {
      const options = { env, cwd: home, timeout: patienceMs, maxBuffer: 1 << 28 };
      const shell = execFile('/bin/sh', ['-c', line], options, (error, stdout, stderr) => {
        const code = error === null ? 0 : typeof error.code === 'number' ? error.code : -1;
        const answer = { line, code, stdout, stderr };
        answers.push(answer);
        done(answer);
      });
      // A command that reads nothing may have ended by now.
      shell.stdin?.on('error', () => undefined);
      shell.stdin?.end(input);
    });
  return {
    answers,
    run,
    async doctor() {
      const { findings } = readAnswer(await run(`ductile doctor --json${named}`));
      return findings as unknown as Finding[];
    },
    why: async (subject) => readAnswer(await run(`ductile why '${subject}' --json${named}`)),
  };
}

function readAnswer({ line, stdout, stderr }: Answer): JsonObject {
  try {
    return JSON.parse(stdout) as JsonObject;
  } catch {
    throw new Error(`${line} did not print JSON: ${stdout}${stderr}`);
  }
}

/** The faults of the results on the way; an operator has to read all of them. */
export function findLongAnswers(answers: readonly Answer[]): string[] {
  return answers.flatMap(({ line, stdout, stderr }) => {
    const bytes = Buffer.byteLength(stdout) + Buffer.byteLength(stderr);
    return bytes > ANSWER_BYTES_MAX ? [`${line}: an answer of ${bytes} bytes`] : [];
  });
}
