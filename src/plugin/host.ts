import { open } from 'node:fs/promises';
import { resolve as resolvePath } from 'node:path';
import { DuctileError, messageOf } from '../base/errors.ts';
import { makeToken } from '../base/ids.ts';
import { SpawnerLink, type HostLog } from './spawner-link.ts';
import type {
  HeldProcess,
  Host,
  IsolationRequest,
  ProcessEnd,
  ProcessSpec,
  RunOptions,
  StopReason,
  ProcessExit,
} from './process.ts';
import type { SpawnerEnd, SpawnerKind, SpawnerEvent } from './spawner/frames.ts';
import { MARKER_KEY, sendSignal } from './spawner/marks.ts';
import { constants } from 'node:os';
import { getSystemErrorName } from 'node:util';

export interface HostOptions {
  /** `auto`: the native spawner if it exists and has our protocol version, else the one in Node. */
  readonly kind: SpawnerKind | 'auto';
  readonly nativePath?: string | undefined;
  readonly nodeScript: string;
  /** The lock of a running spawner; the next one isWaiting for it. The file has no other use. */
  readonly lockPath?: string | undefined;
  /** `delegated` when the spawner may create control groups below its own. */
  readonly cgroup?: string | undefined;
  /** Confines a process whose plugin requests isolation. Without it, such a process doesn't start. */
  readonly confine?: ((spec: ProcessSpec, request: IsolationRequest) => ProcessSpec) | undefined;
  readonly log: HostLog;
  readonly onSpawnerDeath?: (() => void) | undefined;
}

/**
 * Starts plugin processes through a spawner, a small process of its own. Each plugin process gets
 * the additional variable DUCTILE_ATTEMPT, which identifies its descendants.
 */
export function makeHost(options: HostOptions): Host {
  return new SpawnerHost(options);
}

/** A running process with its callbacks, which change when a held process gets its request. */
interface TrackedProcess {
  pid: number | undefined;
  onStarted: ((pid: number) => void) | undefined;
  onSpoiled: () => void;
  onEnd: (end: SpawnerEnd) => void;
  onLost: (error: DuctileError) => void;
}

class SpawnerHost implements Host {
  readonly #options: HostOptions;
  readonly #boot = makeToken().slice(0, 12);
  readonly #tracked = new Map<number, TrackedProcess>();
  #markerPrefix = `${this.#boot}.`;
  #link: SpawnerLink | undefined;
  #isStopped = false;
  #lastId = 0;

  constructor(options: HostOptions) {
    this.#options = options;
  }

  get kind(): SpawnerKind {
    return this.#link?.kind ?? (this.#options.kind === 'node' ? 'node' : 'native');
  }

  async start(): Promise<void> {
    const { kind, nativePath, nodeScript, lockPath, cgroup, log, onSpawnerDeath } = this.#options;
    if (lockPath !== undefined) this.#markerPrefix = await readLockIdentity(lockPath);
    if (this.#isStopped) throw this.#makeClosedError();
    this.#link = new SpawnerLink({
      kind,
      nativePath,
      nodeScript,
      lockPath: lockPath === undefined ? '' : resolvePath(lockPath),
      markerPrefix: this.#markerPrefix,
      cgroup,
      log,
      onEvent: (event) => this.#onEvent(event),
      onLost: (error) => this.#loseAll(error),
      onSpawnerDeath: () => onSpawnerDeath?.(),
    });
    await this.#link.open();
  }

  async run(wanted: ProcessSpec, request: Buffer, options: RunOptions = {}): Promise<ProcessEnd> {
    const { signal } = options;
    if (signal?.aborted === true) return makeCancelledEnd(toReason(signal));
    const spec = this.#confine(wanted);
    if (hasNul(spec)) return makeInvalidEnd();
    const link = this.#link;
    if (link?.isOpen !== true) throw this.#makeClosedError();
    const id = this.#nextId();
    const { tracked, end } = this.#expectEnd(link, id, options);
    this.#tracked.set(id, tracked);
    link.send({ type: 'start', id, hold: false, spec: this.#mark(spec, id), request });
    return await end;
  }

  /** If the process ends before it gets its request, the request starts another one. */
  hold(wanted: ProcessSpec): HeldProcess {
    const spoiled = Promise.withResolvers<void>();
    let isWaiting = true;
    let isUsed = false;
    const onGone = (): void => {
      isWaiting = false;
      spoiled.resolve();
    };
    const id = this.#nextId();
    const link = this.#link?.isOpen === true ? this.#link : undefined;
    const spec = this.#findHeldSpec(wanted);
    if (link === undefined || spec === undefined) {
      onGone();
    } else {
      const callbacks = { onSpoiled: onGone, onEnd: onGone, onLost: onGone };
      this.#tracked.set(id, { pid: undefined, onStarted: undefined, ...callbacks });
      const request = Buffer.alloc(0);
      link.send({ type: 'start', id, hold: true, spec: this.#mark(spec, id), request });
    }
    return {
      spoiled: spoiled.promise,
      feed: (request, options = {}) => {
        if (isUsed)
          throw new DuctileError('INTERNAL', 'A held process was fed or discarded before.');
        isUsed = true;
        const fedSpec = { ...wanted, timeoutMs: options.timeoutMs ?? wanted.timeoutMs };
        if (!isWaiting || link === undefined) return this.run(fedSpec, request, options);
        return this.#feed(link, id, fedSpec, request, options);
      },
      discard: () => {
        if (!isUsed && isWaiting) link?.send({ type: 'stop', id, reason: 'shutdown' });
        isUsed = true;
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

  #confine(spec: ProcessSpec): ProcessSpec {
    if (spec.isolation === undefined) return spec;
    const { confine } = this.#options;
    if (confine !== undefined) return confine(spec, spec.isolation);
    throw new DuctileError('PLUGIN_NOT_ISOLATED', 'The plugin cannot be confined by this host.');
  }

  /** Returns undefined for a process that can't start; the attempt that uses it gets the error. */
  #findHeldSpec(wanted: ProcessSpec): ProcessSpec | undefined {
    try {
      const spec = this.#confine(wanted);
      return hasNul(spec) ? undefined : spec;
    } catch {
      return undefined;
    }
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
    if (pid !== undefined) this.#notifyStarted(tracked, pid);
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
    const tracked: TrackedProcess = {
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
    return (
      this.#link?.makeLostError() ?? new DuctileError('STOPPING', 'The spawner is not running.')
    );
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
      this.#notifyStarted(tracked, event.pid);
    } else if (event.type === 'spoiled') {
      tracked.onEnd = () => {};
      tracked.onLost = () => {};
      tracked.onSpoiled();
    } else {
      this.#tracked.delete(event.id);
      tracked.onEnd(event);
    }
  }

  #notifyStarted({ onStarted }: TrackedProcess, pid: number): void {
    try {
      onStarted?.(pid);
    } catch (error) {
      this.#options.log('error', 'onStarted failed', { error: messageOf(error) });
    }
  }

  /**
   * Kills all process groups, because the next spawner doesn't know them. It finds processes whose pid isn't
   * known here by their marker.
   */
  #loseAll(error: DuctileError): void {
    const lost = [...this.#tracked.values()];
    this.#tracked.clear();
    for (const { pid } of lost) if (pid !== undefined) sendSignal(-pid, 'SIGKILL');
    for (const tracked of lost) tracked.onLost(error);
  }
}

/**
 * Identifies processes of an earlier service by the identity of the lock file, whatever its path.
 */
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

/** Some signals have two names (SIGABRT, SIGIOT): the first is the common one. */
const signalNames = new Map<number, string>(
  Object.entries(constants.signals)
    .map(([name, number]): [number, string] => [number, name])
    .toReversed(),
);

function toProcessEnd(end: SpawnerEnd): ProcessEnd {
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

/** The end of a process that was cancelled before its start. */
function makeCancelledEnd(stopped: StopReason): ProcessEnd {
  return { ...neverRan, exit: { kind: 'unstarted', code: 'ECANCELED', hostFull: false }, stopped };
}

/** The end of a process with invalid parameters, such as a NUL in a path. */
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

function toExit({ kind, code, hostFull }: SpawnerEnd): ProcessExit {
  if (kind === 'exited') return { kind, code };
  if (kind === 'signalled') return { kind, signal: signalNames.get(code) ?? `SIG${code}` };
  return { kind, code: getSystemErrorName(-code), hostFull };
}
