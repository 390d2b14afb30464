import { constants as fileModes, existsSync } from 'node:fs';
import { access } from 'node:fs/promises';
import { monotonicMs } from '../base/clock.ts';
import { DuctileError, messageOf } from '../base/errors.ts';
import { limits } from '../base/limits.ts';
import {
  encodeRequest,
  decodeEvent,
  makeFrameReader,
  WIRE_VERSION,
  type Request,
  type Rung,
  type SpawnerEvent,
} from './spawner/frames.ts';
import { spawn, type ChildProcess } from 'node:child_process';

interface LinkOptions {
  readonly rung: Rung | 'auto';
  readonly nativePath: string | undefined;
  readonly nodeScript: string;
  readonly lockPath: string;
  readonly markerPrefix: string;
  readonly cgroup: string | undefined;
  readonly log: HostLog;
  readonly onEvent: (event: SpawnerEvent) => void;
  /** What was sent until now will not be answered. */
  readonly onLost: (error: DuctileError) => void;
  readonly onHelperDeath: () => void;
}

/** The engine's end of the line to its spawner: keeps one alive, and batches what goes to it. */
export class SpawnerLink {
  readonly #options: LinkOptions;
  #rung: Rung;
  /** Only while it takes requests. */
  #helper: Helper | undefined;
  /** Only while it does not yet. */
  #coming: Helper | undefined;
  #opening: Promise<void> | undefined;
  #restartTimer: NodeJS.Timeout | undefined;
  #stopping = false;
  #queue: Buffer[] = [];
  #flushDue = false;
  #fenceAt: number | undefined;
  #renewDue = false;

  constructor(options: LinkOptions) {
    this.#options = options;
    this.#rung = options.rung === 'node' ? 'node' : 'native';
  }

  get rung(): Rung {
    return this.#rung;
  }

  /** Requests wait for a spawner that is coming; with none coming, nothing may be sent. */
  get isOpen(): boolean {
    return !this.#stopping && (this.#helper !== undefined || this.#opening !== undefined);
  }

  open(): Promise<void> {
    const opening = this.#connect().finally(() => {
      if (this.#opening === opening) this.#opening = undefined;
    });
    this.#opening = opening;
    return opening;
  }

  send(request: Request): void {
    this.#queue.push(...encodeRequest(request));
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
    this.#coming?.kill();
    await this.#opening?.catch(() => {});
    const helper = this.#helper;
    if (helper === undefined) return;
    this.send({ type: 'bye' });
    const timer = setTimeout(() => helper.kill(), limits.spawnerPatienceMs);
    await helper.gone;
    clearTimeout(timer);
  }

  makeLostError(): DuctileError {
    return this.#stopping
      ? new DuctileError('STOPPING', 'The host of plugin processes has stopped.')
      : new DuctileError('SPAWNER_FAILED', 'The helper that starts plugins died.');
  }

  #flushSoon(): void {
    if (this.#flushDue) return;
    this.#flushDue = true;
    // With what else this callback asks for, and before the loop turns to anything else.
    process.nextTick(() => this.#flush());
  }

  /** A deadline counts from when it was given, however long this turn of the loop took. */
  #flush(): void {
    this.#flushDue = false;
    if (this.#helper === undefined) return;
    if (this.#renewDue && this.#fenceAt !== undefined) {
      const ms = Math.max(0, Math.floor(this.#fenceAt - monotonicMs()));
      this.#queue.unshift(...encodeRequest({ type: 'renew', ms }));
    }
    this.#renewDue = false;
    const pieces = this.#queue;
    this.#queue = [];
    if (pieces.length > 0) this.#helper.write(pieces);
  }

  async #connect(): Promise<void> {
    try {
      const helper = await this.#choose();
      this.#coming = helper;
      if (this.#stopping) helper.kill();
      await helper.ready;
      this.#helper = helper;
      this.#rung = helper.rung;
      void helper.gone.then(() => this.#onGone());
      this.#renewDue = this.#fenceAt !== undefined;
      this.#flush();
    } catch (error) {
      this.#lose();
      throw this.#stopping ? this.makeLostError() : error;
    } finally {
      this.#coming = undefined;
    }
  }

  async #choose(): Promise<Helper> {
    const { rung, nativePath, nodeScript, log } = this.#options;
    if (rung === 'node') return this.#launch('node', nodeScript);
    try {
      if (nativePath === undefined) throw new Error('no path to it is set');
      await access(nativePath, fileModes.X_OK);
      return await this.#launch('native', nativePath);
    } catch (error) {
      if (rung === 'native') {
        const why = `The native spawner cannot be used: ${messageOf(error)}`;
        throw new DuctileError('SPAWNER_FAILED', why, { cause: error });
      }
      log('warn', 'no native spawner, using the slower one', { error: messageOf(error) });
      return this.#launch('node', nodeScript);
    }
  }

  #launch(rung: Rung, program: string): Promise<Helper> {
    const { lockPath, markerPrefix, cgroup, log, onEvent } = this.#options;
    return startHelper({ rung, program, lockPath, markerPrefix, cgroup, log, onEvent });
  }

  /** The next one is on its way before anybody hears of the loss, so that they can try again. */
  #onGone(): void {
    this.#helper = undefined;
    if (!this.#stopping) {
      this.#options.log('error', 'the spawner died and is started again');
      this.#reopen(limits.spawnerRestartMs);
      this.#options.onHelperDeath();
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

/** A spawner that said hello. */
interface Helper {
  readonly rung: Rung;
  readonly pid: number;
  /** Resolves when it holds the lock and takes requests; rejects when it dies before. */
  readonly ready: Promise<void>;
  /** Resolves when it is gone and everything it said has been heard. */
  readonly gone: Promise<void>;
  write(pieces: readonly Buffer[]): void;
  kill(): void;
}

interface HelperOptions {
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
async function startHelper(options: HelperOptions): Promise<Helper> {
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
