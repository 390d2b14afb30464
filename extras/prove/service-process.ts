import { spawn, type ChildProcess } from 'node:child_process';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { isObject } from '../../src/base/json.ts';
import { parseJson } from '../../src/base/parse-json.ts';
import { findInstallPaths } from '../../src/app/install-paths.ts';
import { listDescendants, type RunningProcess } from './processes.ts';

/** Service of a rehearsal, as a process of its own. */
export interface ServiceProcess {
  readonly pid: number;
  /** Resolves when the service is ready; rejects if it ends earlier. */
  readonly ready: Promise<void>;
  readonly ended: Promise<ServiceExit>;
  readonly isAlive: () => boolean;
  kill(): void;
  /** Sends SIGTERM, as a service manager does. */
  stop(): Promise<ServiceExit>;
  /** Finds the pid of its spawner. */
  findSpawner(): Promise<number | undefined>;
  /** Lists the plugin stubs that it runs. */
  listPlugins(): Promise<RunningProcess[]>;
}

export interface ServiceExit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  /** The last characters of its error output. */
  readonly output: string;
}

const OUTPUT_CHARS_MAX = 2000;

/** Starts the service of a rehearsal, which kills itself at the fault point. */
export function startService(
  configPath: string | undefined,
  directory: string,
  faultPoint: string | undefined,
): ServiceProcess {
  const script = join(findInstallPaths().root, 'bin', 'ductile.cjs');
  const config = configPath === undefined ? [] : ['--config', configPath];
  const child = spawn(
    process.execPath,
    [script, 'system', 'rehearse', '--in', directory, ...config],
    {
      env: { ...process.env, DUCTILE_PROBE: faultPoint ?? '' },
      // A process group of its own: Ctrl-C goes to `prove`, which stops the service itself.
      detached: true,
      stdio: ['pipe', 'pipe', 'pipe'],
    },
  );
  const { pid = 0 } = child;
  let isAlive = true;
  let output = '';
  const append = (text: string): void => void (output = (output + text).slice(-OUTPUT_CHARS_MAX));
  child.stderr.on('data', (text: Buffer) => append(text.toString()));
  // Writing to a killed process fails.
  child.stdin.on('error', () => undefined);
  const ended = new Promise<ServiceExit>((resolve) => {
    child.once('close', (code, signal) => {
      isAlive = false;
      resolve({ code, signal, output });
    });
  });
  return {
    pid,
    ready: waitUntilReady(child, ended, append),
    ended,
    isAlive: () => isAlive,
    kill: () => void child.kill('SIGKILL'),
    stop() {
      child.kill('SIGTERM');
      return ended;
    },
    async findSpawner() {
      const below = await listDescendants(pid);
      return below.find(({ parent, command }) => parent === pid && command.includes('spawner'))
        ?.pid;
    },
    async listPlugins() {
      return (await listDescendants(pid)).filter(({ command }) => command.includes(directory));
    },
  };
}

async function waitUntilReady(
  child: ChildProcess,
  ended: Promise<ServiceExit>,
  append: (text: string) => void,
): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  if (child.stdout !== null) {
    createInterface(child.stdout).on('line', (line) => {
      const { message, level } = parseLine(line);
      if (message === 'the rehearsal is ready') resolve();
      if (level === 'error') append(`${line}\n`);
    });
  }
  void ended.then(({ code, signal, output }) =>
    reject(new Error(`the service ended with ${signal ?? code} before it was ready: ${output}`)),
  );
  // The caller may kill it before it is ready.
  promise.catch(() => undefined);
  return await promise;
}

/** Returns an empty object for an incomplete line, which a kill can leave. */
function parseLine(line: string): Readonly<Record<string, unknown>> {
  try {
    const parsed: unknown = parseJson(line);
    return isObject(parsed) ? parsed : {};
  } catch {
    return {};
  }
}
