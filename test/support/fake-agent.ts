/** Programs that behave like the command lines of agents, and record their input. */
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { makeDirectory } from './directory.ts';

export interface Behavior {
  readonly stdout?: string;
  readonly stderr?: string;
  readonly code?: number;
  /** Signal that ends the program. */
  readonly dies?: string;
  /** Keeps running and ignores SIGTERM. */
  readonly hangs?: boolean;
  /** Leaves a child behind that ignores SIGTERM and keeps its output open. */
  readonly forks?: boolean;
  /** Prints this many bytes. */
  readonly floods?: number;
  /** Behavior for runs with one of these arguments. */
  readonly whenArgument?: Readonly<Record<string, Behavior>>;
}

export interface Call {
  readonly pid: number;
  readonly ppid: number;
  /** Mode of its temporary directory. */
  readonly tmpMode: number;
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
  readonly stdin: string;
  /** The content of the file after --mcp-config, and its mode. */
  readonly mcp?: { readonly text: string; readonly mode: number };
  /** The same for the file after --file. */
  readonly prompt?: { readonly text: string; readonly mode: number };
}

export interface FakeAgent {
  readonly program: string;
  readonly directory: string;
  /** Sets the behavior of the next runs. */
  behave(behavior: Behavior): Promise<void>;
  calls(): Promise<Call[]>;
  /** Returns the pid of the child that it left behind. */
  forkedPid(): Promise<number>;
}

export async function makeFakeAgent(name: string): Promise<FakeAgent> {
  const directory = await makeDirectory();
  const program = join(directory, name);
  const file = (kind: string): string => join(directory, kind);
  await writeFile(program, `#!${process.execPath}\n${source}`, { mode: 0o755 });
  await writeFile(file('calls'), '');
  return {
    program,
    directory,
    behave: (behavior) => writeFile(file('behavior'), JSON.stringify(behavior)),
    async calls() {
      const lines = (await readFile(file('calls'), 'utf8')).split('\n').slice(0, -1);
      return lines.map((line) => JSON.parse(line) as Call);
    },
    forkedPid: async () => Number(await readFile(file('forked'), 'utf8')),
  };
}

/** Creates the output of `claude --output-format json`. */
export function claudeOutput(
  text: string,
  session = 'c1a0de00-0000-4000-8000-000000000001',
): string {
  return `${JSON.stringify({
    type: 'result',
    subtype: 'success',
    is_error: false,
    duration_ms: 1234,
    num_turns: 1,
    result: text,
    session_id: session,
    total_cost_usd: 0.0123,
    usage: { input_tokens: 10, output_tokens: 5, service_tier: 'standard' },
  })}\n`;
}

/** Creates the output of `codex exec --json`, with a tool call before the result. */
export function codexOutput(text: string, thread = '0199a213-81c0-7800-8aa1-bbab2a035a53'): string {
  const events = [
    { type: 'thread.started', thread_id: thread },
    { type: 'turn.started' },
    { type: 'item.completed', item: { id: '0', type: 'agent_message', text: 'Let me look.' } },
    { type: 'item.started', item: { id: '1', type: 'command_execution', command: 'ls' } },
    { type: 'item.completed', item: { id: '1', type: 'command_execution', command: 'ls' } },
    { type: 'item.completed', item: { id: '2', type: 'reasoning', text: 'thinking' } },
    { type: 'item.completed', item: { id: '3', type: 'agent_message', text } },
    {
      type: 'turn.completed',
      usage: { input_tokens: 7, cached_input_tokens: 1, output_tokens: 3 },
    },
  ];
  return events.map((event) => `${JSON.stringify(event)}\n`).join('');
}

export function isGone(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return false;
  } catch {
    return true;
  }
}

const source = `
const fs = require('node:fs');
const path = require('node:path');
const { spawn } = require('node:child_process');
const here = path.dirname(process.argv[1]);
const argv = process.argv.slice(2);
const stdin = fs.readFileSync(0, 'utf8');
const modeOf = (file) => fs.statSync(file).mode & 0o777;
const readAfter = (option) => {
  const file = argv.includes(option) ? argv[argv.indexOf(option) + 1] : undefined;
  return file && { text: fs.readFileSync(file, 'utf8'), mode: modeOf(file) };
};
const mcp = readAfter('--mcp-config');
const prompt = readAfter('--file');
const tmpMode = modeOf(require('node:os').tmpdir());
const { pid, ppid, env } = process;
const call = { pid, ppid, tmpMode, argv, env, cwd: process.cwd(), stdin, mcp, prompt };
fs.appendFileSync(path.join(here, 'calls'), JSON.stringify(call) + '\\n');
let todo = JSON.parse(fs.readFileSync(path.join(here, 'behavior'), 'utf8'));
todo = Object.entries(todo.whenArgument ?? {}).find(([arg]) => argv.includes(arg))?.[1] ?? todo;
if (todo.forks) {
  const stay = 'process.on("SIGTERM", () => {}); setInterval(() => {}, 1000)';
  const child = spawn(process.execPath, ['-e', stay], { stdio: ['ignore', 'inherit', 'inherit'] });
  fs.writeFileSync(path.join(here, 'forking'), String(child.pid));
  fs.renameSync(path.join(here, 'forking'), path.join(here, 'forked'));
  child.unref();
}
if (todo.stderr) fs.writeSync(2, todo.stderr);
if (todo.floods) {
  const chunk = Buffer.alloc(1024 * 1024, 'x');
  for (let left = todo.floods; left > 0; left -= chunk.length) {
    try { fs.writeSync(1, chunk); } catch { left += chunk.length; }
  }
}
if (todo.stdout) fs.writeFileSync(1, todo.stdout);
if (todo.hangs) {
  process.on('SIGTERM', () => {});
  setInterval(() => {}, 1000);
} else if (todo.dies) process.kill(process.pid, todo.dies);
else process.exit(todo.code ?? 0);
`;
