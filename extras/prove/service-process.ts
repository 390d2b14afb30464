import { spawn, type ChildProcess } from 'node:child_process';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { isObject } from '../../src/base/json.ts';
import { parseJson } from '../../src/base/parse-json.ts';
import { findInstallPaths } from '../../src/app/install-paths.ts';
import { descendantsOf, type RunningProcess } from './processes.ts';

/** Engine of a rehearsal as a separate process. */
export interface Actor {
  readonly pid: number;
  /** Resolves when it works; rejects when it ends before. */
  readonly ready: Promise<void>;
  /** Resolves with how it ended. */
  readonly ended: Promise<Ended>;
  readonly isAlive: () => boolean;
  kill(): void;
  /** Stops it as a service manager does. */
  stop(): Promise<Ended>;
  /** Finds the process that starts plugins for it. */
  helper(): Promise<number | undefined>;
  /** Lists the stand-ins that run for it. */
  plugins(): Promise<RunningProcess[]>;
}

export interface Ended {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  /** End of its output. */
  readonly said: string;
}

const SAID_MAX = 2000;

/** Starts the engine of a rehearsal; at a fault point it kills itself. */
export function startActor(
  given: string | undefined,
  directory: string,
  faultPoint: string | undefined,
): Actor {
  const script = join(findInstallPaths().root, 'bin', 'ductile.cjs');
  const config = given === undefined ? [] : ['--config', given];
  const child = spawn(
    process.execPath,
    [script, 'system', 'rehearse', '--in', directory, ...config],
    {
      env: { ...process.env, DUCTILE_PROBE: faultPoint ?? '' },
      // A process group of its own: Ctrl-C is for `prove`, which stops the engine in order.
      detached: true,
      stdio: ['pipe', 'pipe', 'pipe'],
    },
  );
  const { pid = 0 } = child;
  let isAlive = true;
  let said = '';
  const keep = (text: string): void => void (said = (said + text).slice(-SAID_MAX));
  child.stderr.on('data', (text: Buffer) => keep(text.toString()));
  // A killed process doesn't read to the end.
  child.stdin.on('error', () => undefined);
  const ended = new Promise<Ended>((resolve) => {
    child.once('close', (code, signal) => {
      isAlive = false;
      resolve({ code, signal, said });
    });
  });
  return {
    pid,
    ready: becomesReady(child, ended, keep),
    ended,
    isAlive: () => isAlive,
    kill: () => void child.kill('SIGKILL'),
    stop() {
      child.kill('SIGTERM');
      return ended;
    },
    async helper() {
      const below = await descendantsOf(pid);
      return below.find(({ parent, command }) => parent === pid && command.includes('spawner'))
        ?.pid;
    },
    async plugins() {
      return (await descendantsOf(pid)).filter(({ command }) => command.includes(directory));
    },
  };
}

async function becomesReady(
  child: ChildProcess,
  ended: Promise<Ended>,
  keep: (text: string) => void,
): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  if (child.stdout !== null) {
    createInterface(child.stdout).on('line', (line) => {
      const { message, level } = parseLine(line);
      if (message === 'the rehearsal is ready') resolve();
      if (level === 'error') keep(`${line}\n`);
    });
  }
  void ended.then(({ code, signal, said }) =>
    reject(new Error(`the engine ended with ${signal ?? code} before it was ready: ${said}`)),
  );
  // The caller may kill it before it is ready.
  promise.catch(() => undefined);
  return await promise;
}

/** A kill can cut off a line anywhere. */
function parseLine(line: string): Readonly<Record<string, unknown>> {
  try {
    const parsed: unknown = parseJson(line);
    return isObject(parsed) ? parsed : {};
  } catch {
    return {};
  }
}
