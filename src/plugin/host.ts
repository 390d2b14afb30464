import { open } from 'node:fs/promises';
import { resolve as resolvePath } from 'node:path';
import { DuctileError, messageOf } from '../base/errors.ts';
import { makeToken } from '../base/ids.ts';
import { SpawnerLink, type HostLog } from './spawner-link.ts';
import type {
  HeldProcess,
  Host,
  ProcessEnd,
  ProcessSpec,
  RunOptions,
  StopReason,
  ProcessExit,
} from './process.ts';
import type { End, Rung, SpawnerEvent } from './spawner/frames.ts';
import { MARKER_KEY, sendSignal } from './spawner/marks.ts';
import { constants } from 'node:os';
import { getSystemErrorName } from 'node:util';

export interface HostOptions {
  /** `auto`: the native spawner when it is there and speaks our protocol, else the one in Node. */
  readonly rung: Rung | 'auto';
  readonly nativePath?: string | undefined;
  readonly nodeScript: string;
  /** Shows that a spawner lives; a later one waits for it. Its own file, used for nothing else. */
  readonly lockPath?: string | undefined;
  /** `delegated` when the spawner may make control groups below its own. */
  readonly cgroup?: string | undefined;
  readonly log: HostLog;
  readonly onHelperDeath?: (() => void) | undefined;
}

/**
 * Starts plugin processes through a spawner, a small process of its own. Each process gets one more
 * variable than its spec has, DUCTILE_ATTEMPT, by which its descendants are found wherever they went.
 */
export function makeHost(options: HostOptions): Host {
  return new SpawnerHost(options);
}

/** What the host knows of a process, and whom it tells. A held one changes hands when it is fed. */
interface Tracked {
  pid: number | undefined;
  onStarted: ((pid: number) => void) | undefined;
  onSpoiled: () => void;
  onEnd: (end: End) => void;
  onLost: (error: DuctileError) => void;
}

class SpawnerHost implements Host {
  readonly #options: HostOptions;
  readonly #boot = makeToken().slice(0, 12);
  readonly #tracked = new Map<number, Tracked>();
  #markerPrefix = `${this.#boot}.`;
  #link: SpawnerLink | undefined;
  #isStopped = false;
  #lastId = 0;

  constructor(options: HostOptions) {
    this.#options = options;
  }

  get rung(): Rung {
    return this.#link?.rung ?? (this.#options.rung === 'node' ? 'node' : 'native');
  }

  async start(): Promise<void> {
    const { rung, nativePath, nodeScript, lockPath, cgroup, log, onHelperDeath } = this.#options;
    if (lockPath !== undefined) this.#markerPrefix = await readLockIdentity(lockPath);
    if (this.#isStopped) throw this.#makeClosedError();
    this.#link = new SpawnerLink({
      rung,
      nativePath,
      nodeScript,
      lockPath: lockPath === undefined ? '' : resolvePath(lockPath),
      markerPrefix: this.#markerPrefix,
      cgroup,
      log,
      onEvent: (event) => this.#onEvent(event),
      onLost: (error) => this.#loseAll(error),
      onHelperDeath: () => onHelperDeath?.(),
    });
    await this.#link.open();
  }

  run(spec: ProcessSpec, request: Buffer, options: RunOptions = {}): Promise<ProcessEnd> {
    const { signal } = options;
    if (signal?.aborted === true) return Promise.resolve(makeCancelledEnd(toReason(signal)));
    if (hasNul(spec)) return Promise.resolve(makeInvalidEnd());
    const link = this.#link;
    if (link?.isOpen !== true) return Promise.reject(this.#makeClosedError());
    const id = this.#nextId();
    const { tracked, end } = this.#expectEnd(link, id, options);
    this.#tracked.set(id, tracked);
    link.send({ type: 'start', id, hold: false, spec: this.#mark(spec, id), request });
    return end;
  }

  /** What spoiled before the first byte of its request is made good for by a process started then. */
  hold(spec: ProcessSpec): HeldProcess {
    const spoiled = Promise.withResolvers<void>();
    let waits = true;
    let used = false;
    const onGone = (): void => {
      waits = false;
      spoiled.resolve();
    };
    const id = this.#nextId();
    const link = this.#link?.isOpen === true && !hasNul(spec) ? this.#link : undefined;
    if (link === undefined) {
      onGone();
    } else {
      const heard = { onSpoiled: onGone, onEnd: onGone, onLost: onGone };
      this.#tracked.set(id, { pid: undefined, onStarted: undefined, ...heard });
      const request = Buffer.alloc(0);
      link.send({ type: 'start', id, hold: true, spec: this.#mark(spec, id), request });
    }
    return {
      spoiled: spoiled.promise,
      feed: (request, options = {}) => {
        if (used) throw new DuctileError('INTERNAL', 'A held process was fed or discarded before.');
        used = true;
        const fed = { ...spec, timeoutMs: options.timeoutMs ?? spec.timeoutMs };
        if (!waits || link === undefined) return this.run(fed, request, options);
        return this.#feed(link, id, fed, request, options);
      },
      discard: () => {
        if (!used && waits) link?.send({ type: 'stop', id, reason: 'shutdown' });
        used = true;
      },
    };
  }

  renew(ms: number): void {
    this.#link?.renew(ms);
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    await this.#link?.close();
  }

  #feed(
    link: SpawnerLink,
    id: number,
    spec: ProcessSpec,
    request: Buffer,
    options: RunOptions,
  ): Promise<ProcessEnd> {
    const { tracked, end, settle } = this.#expectEnd(link, id, options);
    const pid = this.#tracked.get(id)?.pid;
    const onSpoiled = (): void => settle(this.run(spec, request, options));
    this.#tracked.set(id, { ...tracked, pid, onSpoiled });
    if (pid !== undefined) this.#tellStarted(tracked, pid);
    link.send({ type: 'feed', id, timeoutMs: spec.timeoutMs, request });
    return end;
  }

  #expectEnd(link: SpawnerLink, id: number, { signal, onStarted }: RunOptions) {
    const { promise: end, resolve, reject } = Promise.withResolvers<ProcessEnd>();
    const onAbort = (): void => {
      if (signal !== undefined) link.send({ type: 'stop', id, reason: toReason(signal) });
    };
    if (signal?.aborted === true) onAbort();
    signal?.addEventListener('abort', onAbort, { once: true });
    const settle = (result: ProcessEnd | Promise<ProcessEnd>): void => {
      signal?.removeEventListener('abort', onAbort);
      resolve(result);
    };
    const tracked: Tracked = {
      pid: undefined,
      onStarted,
      onSpoiled: () => {},
      onEnd: (event) => settle(toProcessEnd(event)),
      onLost(error) {
        signal?.removeEventListener('abort', onAbort);
        reject(error);
      },
    };
    return { tracked, end, settle };
  }

  #makeClosedError(): DuctileError {
    return this.#link?.makeLostError() ?? new DuctileError('STOPPING', 'The host does not run.');
  }

  #nextId(): number {
    this.#lastId = (this.#lastId + 1) % 2 ** 32;
    return this.#lastId;
  }

  #mark(spec: ProcessSpec, id: number): ProcessSpec {
    const env = { [MARKER_KEY]: '', ...spec.env };
    env[MARKER_KEY] = `${this.#markerPrefix}${this.#boot}.${id}`;
    return { ...spec, env };
  }

  #onEvent(event: SpawnerEvent): void {
    if (event.type === 'hello' || event.type === 'ready') return;
    const tracked = this.#tracked.get(event.id);
    if (tracked === undefined) return;
    if (event.type === 'started') {
      tracked.pid = event.pid;
      this.#tellStarted(tracked, event.pid);
    } else if (event.type === 'spoiled') {
      tracked.onEnd = () => {};
      tracked.onLost = () => {};
      tracked.onSpoiled();
    } else {
      this.#tracked.delete(event.id);
      tracked.onEnd(event);
    }
  }

  #tellStarted({ onStarted }: Tracked, pid: number): void {
    try {
      onStarted?.(pid);
    } catch (error) {
      this.#options.log('error', 'onStarted failed', { error: messageOf(error) });
    }
  }

  /** Nobody else knows these groups now. Where a pid was not heard yet, the marker still finds it. */
  #loseAll(error: DuctileError): void {
    const lost = [...this.#tracked.values()];
    this.#tracked.clear();
    for (const { pid } of lost) if (pid !== undefined) sendSignal(-pid, 'SIGKILL');
    for (const tracked of lost) tracked.onLost(error);
  }
}

/** Survivors of an earlier engine are known by the file they all share, whatever its path. */
async function readLockIdentity(path: string): Promise<string> {
  const file = await open(path, 'a', 0o600);
  try {
    const { dev, ino } = await file.stat({ bigint: true });
    return `${dev.toString(36)}-${ino.toString(36)}.`;
  } finally {
    await file.close();
  }
}

function toReason({ reason }: AbortSignal): StopReason {
  return reason === 'shutdown' ? 'shutdown' : 'cancelled';
}

function hasNul({ entrypoint, cwd, env, wrapper = [] }: ProcessSpec): boolean {
  if ([...wrapper, entrypoint, cwd].some((word) => word.includes('\0'))) return true;
  return Object.entries(env).some(([key, value]) => key.includes('\0') || value.includes('\0'));
}

/** Some numbers have two names (SIGABRT, SIGIOT): the first is the usual one. */
const signalNames = new Map<number, string>(
  Object.entries(constants.signals)
    .map(([name, number]): [number, string] => [number, name])
    .toReversed(),
);

function toProcessEnd(end: End): ProcessEnd {
  return {
    exit: toExit(end),
    stopped: end.stopped,
    pid: end.pid === 0 ? undefined : end.pid,
    stdout: end.stdout,
    stdoutOverflowed: end.stdoutOverflowed,
    stderr: end.stderr,
    stderrTruncated: end.stderrTruncated,
    spawnMs: end.spawnUs / 1000,
    runMs: end.runUs / 1000,
    cpuMs: end.cpuUs === undefined ? undefined : end.cpuUs / 1000,
    memoryPeakBytes: end.memoryPeakBytes,
  };
}

/** Aborted before it was asked for. */
function makeCancelledEnd(stopped: StopReason): ProcessEnd {
  return { ...neverRan, exit: { kind: 'unstarted', code: 'ECANCELED', hostFull: false }, stopped };
}

/** What no system call would take, such as a NUL in a path. */
function makeInvalidEnd(): ProcessEnd {
  return { ...neverRan, exit: { kind: 'unstarted', code: 'EINVAL', hostFull: false } };
}

const neverRan: Omit<ProcessEnd, 'exit'> = {
  stopped: undefined,
  pid: undefined,
  stdout: Buffer.alloc(0),
  stdoutOverflowed: false,
  stderr: Buffer.alloc(0),
  stderrTruncated: false,
  spawnMs: 0,
  runMs: 0,
  cpuMs: undefined,
  memoryPeakBytes: undefined,
};

function toExit({ kind, code, hostFull }: End): ProcessExit {
  if (kind === 'exited') return { kind, code };
  if (kind === 'signalled') return { kind, signal: signalNames.get(code) ?? `SIG${code}` };
  return { kind, code: getSystemErrorName(-code), hostFull };
}
