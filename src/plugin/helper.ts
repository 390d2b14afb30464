import { spawn, type ChildProcess } from 'node:child_process';
import { existsSync } from 'node:fs';

import { DuctileError, messageOf } from '../base/errors.ts';
import { limits } from '../base/limits.ts';
import {
  decodeEvent,
  makeFrameReader,
  WIRE_VERSION,
  type Rung,
  type SpawnerEvent,
} from './spawner/frames.ts';

export type HostLog = (
  level: 'debug' | 'info' | 'warn' | 'error',
  message: string,
  fields?: Readonly<Record<string, unknown>>,
) => void;

/** A spawner that said hello. */
export interface Helper {
  readonly rung: Rung;
  readonly pid: number;
  /** Resolves when it holds the lock and takes requests; rejects when it dies before. */
  readonly ready: Promise<void>;
  /** Resolves when it is gone and everything it said has been heard. */
  readonly gone: Promise<void>;
  write(pieces: readonly Buffer[]): void;
  kill(): void;
}

export interface HelperOptions {
  readonly rung: Rung;
  /** The binary, or the script for Node. */
  readonly program: string;
  readonly lockPath: string;
  readonly markerPrefix: string;
  /** `delegated` when it may make control groups below its own (native/cgroup.h). */
  readonly cgroup: string | undefined;
  readonly log: HostLog;
  readonly onEvent: (event: SpawnerEvent) => void;
}

/** Below this a batch of frames is put together for one write; above it the pieces go as they are. */
const JOIN_BYTES_MAX = 64 * 1024;

/** Starts a spawner and waits for its hello; rejects with SPAWNER_FAILED when none comes. */
export async function startHelper(options: HelperOptions): Promise<Helper> {
  const child = launch(options);
  const gone = new Promise<void>((resolve) => {
    child.once('close', () => resolve());
    child.once('error', () => resolve());
  });
  const hello = Promise.withResolvers<void>();
  const ready = Promise.withResolvers<void>();
  const fail = (why: string): void => {
    const error = new DuctileError('SPAWNER_FAILED', `The spawner ${options.program} ${why}.`);
    hello.reject(error);
    ready.reject(error);
    child.kill('SIGKILL');
  };
  ready.promise.catch(() => {});
  const onEvent = (event: SpawnerEvent): void => {
    if (event.type === 'ready') ready.resolve();
    else if (event.type !== 'hello') options.onEvent(event);
    else if (event.version === WIRE_VERSION && event.rung === options.rung) hello.resolve();
    else fail(`speaks version ${event.version} of the protocol, not ${WIRE_VERSION}`);
  };
  listen(child, options, onEvent, fail);
  const timer = setTimeout(() => fail('said no hello'), limits.spawnerPatienceMs);
  await hello.promise.finally(() => clearTimeout(timer));
  return {
    rung: options.rung,
    pid: child.pid ?? 0,
    ready: ready.promise,
    gone,
    write: (pieces) => writeAll(child, pieces),
    kill: () => void child.kill('SIGKILL'),
  };
}

/**
 * A session of its own, so that a terminal's Ctrl-C does not reach it, and an environment that only
 * says whether it may make control groups.
 * Node cannot forbid core dumps for itself and what it starts, so a shell does it where there is one.
 */
function launch({ rung, program, lockPath, markerPrefix, cgroup }: HelperOptions): ChildProcess {
  const env = cgroup === undefined ? {} : { DUCTILE_CGROUP: cgroup };
  const settings = { env, detached: true, stdio: 'pipe' } as const;
  const args = [lockPath, markerPrefix];
  if (rung === 'native') return spawn(program, args, settings);
  const flags = ['--disable-warning=ExperimentalWarning', '--disable-sigusr1'];
  const nodeArgs = [...flags, program, ...args];
  if (!existsSync('/bin/sh')) return spawn(process.execPath, nodeArgs, settings);
  const script = 'ulimit -c 0; exec "$0" "$@"';
  return spawn('/bin/sh', ['-c', script, process.execPath, ...nodeArgs], settings);
}

function listen(
  child: ChildProcess,
  { log }: HelperOptions,
  onEvent: (event: SpawnerEvent) => void,
  fail: (why: string) => void,
): void {
  child.on('error', (error) => fail(`could not be started: ${error.message}`));
  let last = '';
  child.on('close', (code, signal) =>
    fail(`ended with ${signal ?? `exit code ${code}`}${last === '' ? '' : ` (${last})`}`),
  );
  child.stdin?.on('error', () => {});
  child.stdout?.on('error', () => {});
  child.stderr?.on('error', () => {});
  child.stderr?.on('data', (bytes: Buffer) => {
    last = bytes.toString('utf8').trim().slice(-limits.errorCharsMax);
    log('warn', 'the spawner says', { text: last });
  });
  const reader = makeFrameReader((frame) => onEvent(decodeEvent(frame)));
  child.stdout?.on('data', (chunk: Buffer) => {
    try {
      reader.push(chunk);
    } catch (error) {
      fail(`was not understood: ${messageOf(error)}`);
    }
  });
}

/** A dead helper is noticed by its end, not by a write. */
function writeAll({ stdin }: ChildProcess, pieces: readonly Buffer[]): void {
  if (stdin === null || stdin.destroyed) return;
  const bytes = pieces.reduce((sum, piece) => sum + piece.length, 0);
  if (bytes <= JOIN_BYTES_MAX) {
    stdin.write(Buffer.concat(pieces, bytes));
    return;
  }
  stdin.cork();
  for (const piece of pieces) stdin.write(piece);
  stdin.uncork();
}
