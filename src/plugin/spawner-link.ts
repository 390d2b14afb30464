import { compact } from '../base/json.ts';
import { constants as fileModes, existsSync } from 'node:fs';
import { access } from 'node:fs/promises';
import { monotonicMs } from '../base/clock.ts';
import { DuctileError, messageOf } from '../base/errors.ts';
import { limits } from '../base/limits.ts';
import {
  encodeSpawnerRequest,
  decodeSpawnerEvent,
  makeFrameSplitter,
  WIRE_VERSION,
  type SpawnerRequest,
  type SpawnerKind,
  type SpawnerEvent,
} from './spawner/frames.ts';
import { spawn, type ChildProcess } from 'node:child_process';

interface LinkOptions {
  readonly kind: SpawnerKind | 'auto';
  readonly nativePath: string | undefined;
  readonly nodeScript: string;
  readonly lockPath: string;
  readonly markerPrefix: string;
  readonly cgroup: string | undefined;
  readonly log: HostLog;
  readonly onEvent: (event: SpawnerEvent) => void;
  /** Called when the spawner died; sent requests get no response. */
  readonly onLost: (error: DuctileError) => void;
  readonly onSpawnerDeath: () => void;
}

/** The connection to the spawner: restarts it when it dies, and batches frames. */
export class SpawnerLink {
  readonly #options: LinkOptions;
  #kind: SpawnerKind;
  /** The spawner that accepts requests. */
  #spawner: SpawnerProcess | undefined;
  /** The spawner that is starting. */
  #startingSpawner: SpawnerProcess | undefined;
  #opening: Promise<void> | undefined;
  #restartTimer: NodeJS.Timeout | undefined;
  #stopping = false;
  #queue: Buffer[] = [];
  #flushDue = false;
  #fenceAt: number | undefined;
  #renewDue = false;

  constructor(options: LinkOptions) {
    this.#options = options;
    this.#kind = options.kind === 'node' ? 'node' : 'native';
  }

  get kind(): SpawnerKind {
    return this.#kind;
  }

  /** False if no spawner runs or starts; requests can't be sent then. */
  get isOpen(): boolean {
    return !this.#stopping && (this.#spawner !== undefined || this.#opening !== undefined);
  }

  open(): Promise<void> {
    const opening = this.#connect().finally(() => {
      if (this.#opening === opening) this.#opening = undefined;
    });
    this.#opening = opening;
    return opening;
  }

  send(request: SpawnerRequest): void {
    this.#queue.push(...encodeSpawnerRequest(request));
    this.#flushSoon();
  }

  renew(ms: number): void {
    this.#fenceAt = monotonicMs() + ms;
    this.#renewDue = true;
    this.#flushSoon();
  }

  async close(): Promise<void> {
    this.#stopping = true;
    clearTimeout(this.#restartTimer);
    this.#startingSpawner?.kill();
    await this.#opening?.catch(() => {});
    const spawner = this.#spawner;
    if (spawner === undefined) return;
    this.send({ type: 'bye' });
    const timer = setTimeout(() => spawner.kill(), limits.spawnerTimeoutMs);
    await spawner.gone;
    clearTimeout(timer);
  }

  makeLostError(): DuctileError {
    return this.#stopping
      ? new DuctileError('STOPPING', 'The spawner has stopped.')
      : new DuctileError('SPAWNER_FAILED', 'The spawner died.');
  }

  #flushSoon(): void {
    if (this.#flushDue) return;
    this.#flushDue = true;
    // Batches all requests of this callback, before the event loop continues.
    process.nextTick(() => this.#flush());
  }

  /** Writes the queue. A deadline counts from the call of `renew`, even if the event loop was busy since. */
  #flush(): void {
    this.#flushDue = false;
    if (this.#spawner === undefined) return;
    if (this.#renewDue && this.#fenceAt !== undefined) {
      const ms = Math.max(0, Math.floor(this.#fenceAt - monotonicMs()));
      this.#queue.unshift(...encodeSpawnerRequest({ type: 'renew', ms }));
    }
    this.#renewDue = false;
    const pieces = this.#queue;
    this.#queue = [];
    if (pieces.length > 0) this.#spawner.write(pieces);
  }

  async #connect(): Promise<void> {
    try {
      const spawner = await this.#choose();
      this.#startingSpawner = spawner;
      if (this.#stopping) spawner.kill();
      await spawner.ready;
      this.#spawner = spawner;
      this.#kind = spawner.kind;
      void spawner.gone.then(() => this.#onGone());
      this.#renewDue = this.#fenceAt !== undefined;
      this.#flush();
    } catch (error) {
      this.#lose();
      throw this.#stopping ? this.makeLostError() : error;
    } finally {
      this.#startingSpawner = undefined;
    }
  }

  async #choose(): Promise<SpawnerProcess> {
    const { kind, nativePath, nodeScript, log } = this.#options;
    if (kind === 'node') return this.#launch('node', nodeScript);
    try {
      if (nativePath === undefined) throw new Error('no path to it is set');
      await access(nativePath, fileModes.X_OK);
      return await this.#launch('native', nativePath);
    } catch (error) {
      if (kind === 'native') {
        const why = `The native spawner cannot be used: ${messageOf(error)}`;
        throw new DuctileError('SPAWNER_FAILED', why, { cause: error });
      }
      log('warn', 'no native spawner, using the slower one', { error: messageOf(error) });
      return this.#launch('node', nodeScript);
    }
  }

  #launch(kind: SpawnerKind, program: string): Promise<SpawnerProcess> {
    const { lockPath, markerPrefix, cgroup, log, onEvent } = this.#options;
    return startSpawner({ kind, program, lockPath, markerPrefix, cgroup, log, onEvent });
  }

  /** Starts the next spawner before reporting the loss, so that callers can retry. */
  #onGone(): void {
    this.#spawner = undefined;
    if (!this.#stopping) {
      this.#options.log('error', 'the spawner died and is started again');
      this.#reopen(limits.spawnerRestartMs);
      this.#options.onSpawnerDeath();
    }
    this.#lose();
  }

  #reopen(delayMs: number): void {
    this.open().catch((error: unknown) => {
      if (this.#stopping) return;
      this.#options.log('error', 'the spawner does not start', { error: messageOf(error) });
      const next = Math.min(delayMs * 2, limits.spawnerRestartMsMax);
      this.#restartTimer = setTimeout(() => this.#reopen(next), delayMs);
    });
  }

  #lose(): void {
    this.#queue = [];
    this.#options.onLost(this.makeLostError());
  }
}

export type HostLog = (
  level: 'debug' | 'info' | 'warn' | 'error',
  message: string,
  fields?: Readonly<Record<string, unknown>>,
) => void;

/** A spawner process after its hello. */
interface SpawnerProcess {
  readonly kind: SpawnerKind;
  readonly pid: number;
  /** Resolves when it holds the lock and accepts requests; rejects if it dies before. */
  readonly ready: Promise<void>;
  /** Resolves when it has ended and all its output was read. */
  readonly gone: Promise<void>;
  write(pieces: readonly Buffer[]): void;
  kill(): void;
}

interface SpawnerProcessOptions {
  readonly kind: SpawnerKind;
  /** The native binary, or the script for Node. */
  readonly program: string;
  readonly lockPath: string;
  readonly markerPrefix: string;
  /** `delegated` when it may create control groups below its own (native/cgroup.h). */
  readonly cgroup: string | undefined;
  readonly log: HostLog;
  readonly onEvent: (event: SpawnerEvent) => void;
}

/** Smaller batches of frames are joined into one write. */
const JOIN_BYTES_MAX = 64 * 1024;

/** Starts a spawner and waits for its hello. Rejects with SPAWNER_FAILED without one. */
async function startSpawner(options: SpawnerProcessOptions): Promise<SpawnerProcess> {
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
    else if (event.version === WIRE_VERSION && event.kind === options.kind) hello.resolve();
    else fail(`speaks version ${event.version} of the protocol, not ${WIRE_VERSION}`);
  };
  listen(child, options, onEvent, fail);
  const timer = setTimeout(() => fail('sent no hello in time'), limits.spawnerTimeoutMs);
  await hello.promise.finally(() => clearTimeout(timer));
  return {
    kind: options.kind,
    pid: child.pid ?? 0,
    ready: ready.promise,
    gone,
    write: (pieces) => writeAll(child, pieces),
    kill: () => void child.kill('SIGKILL'),
  };
}

/**
 * Starts it in its own session, so that Ctrl-C in a terminal doesn't reach it. Its environment only
 * says whether it may create control groups. Node can't disable core dumps for itself and its
 * children, so a shell does.
 */
function launch({
  kind,
  program,
  lockPath,
  markerPrefix,
  cgroup,
}: SpawnerProcessOptions): ChildProcess {
  const env = compact({ DUCTILE_CGROUP: cgroup });
  const settings = { env, detached: true, stdio: 'pipe' } as const;
  const args = [lockPath, markerPrefix];
  if (kind === 'native') return spawn(program, args, settings);
  const flags = ['--disable-warning=ExperimentalWarning', '--disable-sigusr1'];
  const nodeArgs = [...flags, program, ...args];
  if (!existsSync('/bin/sh')) return spawn(process.execPath, nodeArgs, settings);
  const script = 'ulimit -c 0; exec "$0" "$@"';
  return spawn('/bin/sh', ['-c', script, process.execPath, ...nodeArgs], settings);
}

function listen(
  child: ChildProcess,
  { log }: SpawnerProcessOptions,
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
    log('warn', 'the spawner wrote to stderr', { text: last });
  });
  const reader = makeFrameSplitter((frame) => onEvent(decodeSpawnerEvent(frame)));
  child.stdout?.on('data', (chunk: Buffer) => {
    try {
      reader.push(chunk);
    } catch (error) {
      fail(`sent an invalid frame: ${messageOf(error)}`);
    }
  });
}

/** Writes frames. Errors are ignored, because the end of the spawner is reported anyway. */
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
