/** Runs the command line with a fake host: no process, no service, no files. */
import { join } from 'node:path';
import type { CliHost, CliIo } from '../../src/cli/host.ts';
import { watchAll } from '../../extras/watch/watch.ts';
import { runCli } from '../../src/cli/run.ts';

/** Current time of these tests. */
export const NOW = Date.parse('2026-01-02T03:10:00.000Z');

export interface FakeCliOptions {
  /** Result of every call, or its error. */
  readonly answer?: Answer | ((name: string, input: unknown) => Answer);
  readonly host?: Partial<CliHost>;
  readonly io?: Partial<CliIo>;
}

type Answer = Readonly<Record<string, unknown>> | Error;

export interface CliResult {
  readonly code: number;
  readonly out: string;
  readonly err: string;
  readonly calls: readonly (readonly [name: string, input: unknown])[];
  /** Calls of the host's own functions. */
  readonly hostCalls: readonly unknown[];
}

export async function run(
  argv: readonly string[],
  script: FakeCliOptions = {},
): Promise<CliResult> {
  const { answer = {} } = script;
  const calls: [string, unknown][] = [];
  const hostCalls: unknown[] = [];
  const written = { out: '', err: '' };
  const record =
    <Result>(name: string, result: Result) =>
    (...args: unknown[]): Promise<Result> => {
      hostCalls.push([name, ...args]);
      return Promise.resolve(result);
    };
  const host: CliHost = {
    start: record('start', 0),
    demo: record('demo', 0),
    rehearse: record('rehearse', 0),
    watch: (session, options) => watchAll(session, options),
    restore: record('restore', { restored_from: 'x' }),
    import: record('import', { imported_from: 'x' }),
    migrate: record('migrate', { schema: 4 }),
    mcp: record('mcp', undefined),
    findSocket: record('findSocket', undefined),
    findDocs: () => join(import.meta.dirname, '../../docs'),
    async openLocal(config, need) {
      hostCalls.push(['openLocal', config, need]);
      return Promise.resolve({
        caller: {
          call(name, input) {
            calls.push([name, input]);
            const result = typeof answer === 'function' ? answer(name, input) : answer;
            return result instanceof Error ? Promise.reject(result) : Promise.resolve(result);
          },
        },
        close: record('close', undefined),
      });
    },
    ...script.host,
  };
  const io: CliIo = {
    stdout: { write: (text) => (written.out += text) },
    stderr: { write: (text) => (written.err += text) },
    stdin: (async function* () {})(),
    isTTY: false,
    isInTTY: false,
    setHidden: () => undefined,
    isErrTTY: false,
    hasColors: false,
    columns: 80,
    rows: 24,
    cwd: '/somewhere',
    env: {},
    now: () => NOW,
    pause: () => Promise.resolve(),
    interruption: () => new AbortController().signal,
    exit: (status) => void hostCalls.push(['exit', status]),
    ...script.io,
  };
  const code = await runCli(argv, host, io);
  return { code, ...written, calls, hostCalls };
}

/** Job with the printed fields of a result. */
export const job = {
  job_id: '0199a1b2-0000-7000-8000-000000000001',
  plugin: 'mail',
  command: 'poll',
  status: 'succeeded',
  attempt: 1,
  created_at: '2026-01-02T03:04:05.678Z',
  completed_at: '2026-01-02T03:04:06.000Z',
  last_error: null,
};
