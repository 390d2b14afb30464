import { spawn, type ChildProcess } from 'node:child_process';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { isObject } from '../../src/base/json.ts';
import { parseJson } from '../../src/base/parse-json.ts';
import { findInstallPaths } from '../../src/app/install-paths.ts';
import { descendantsOf, type RunningProcess } from './processes.ts';

/** The engine of a rehearsal as a process of its own. */
export interface Actor {
  readonly pid: number;
  /** Resolves when it works; rejects when it ends before. */
  readonly ready: Promise<void>;
  /** Resolves with how it ended. */
  readonly ended: Promise<Ended>;
  readonly isAlive: () => boolean;
  kill(): void;
  /** As a service manager does it. */
  stop(): Promise<Ended>;
  /** The process that starts plugins for it, if it can be seen. */
  helper(): Promise<number | undefined>;
  /** Stand-ins that run for it now. */
  plugins(): Promise<RunningProcess[]>;
}

export interface Ended {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  /** What it said last. */
  readonly said: string;
}

const SAID_MAX = 2000;

/** Starts it on a stage; a fault point kills it there by itself. */
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
      // Its own group: Ctrl-C is for whoever rehearses, who stops it in good order.
      detached: true,
      stdio: ['pipe', 'pipe', 'pipe'],
    },
  );
  const { pid = 0 } = child;
  let isAlive = true;
  let said = '';
  const keep = (text: string): void => void (said = (said + text).slice(-SAID_MAX));
  child.stderr.on('data', (text: Buffer) => keep(text.toString()));
  // Whoever is killed does not read to the end.
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
  // Whoever kills it before it is ready does not wait for that.
  promise.catch(() => undefined);
  return await promise;
}

/** What was being written when it was killed is cut off anywhere. */
function parseLine(line: string): Readonly<Record<string, unknown>> {
  try {
    const parsed: unknown = parseJson(line);
    return isObject(parsed) ? parsed : {};
  } catch {
    return {};
  }
}
