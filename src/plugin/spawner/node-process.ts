import { spawn, type ChildProcessWithoutNullStreams } from 'node:child_process';
import { constants } from 'node:os';
import type { Readable } from 'node:stream';

import type { LimitReason, ProcessLimits, StopReason } from '../process.ts';
import type { SpawnerEnd, SpawnerFeed, SpawnerEvent, SpawnerStart } from './frames.ts';
import { MARKER_KEY, sendSignal } from './marks.ts';
import { UsageWatch, withFileLimit } from './usage-watch.ts';

/** The time after which a killed process is reported as dead. */
const KILL_PATIENCE_MS = 5000;
/** Longer timers fire at once in Node. */
export const TIMER_MS_MAX = 2 ** 31 - 1;
const HOST_FULL = new Set<number>([
  constants.errno.EAGAIN,
  constants.errno.EMFILE,
  constants.errno.ENFILE,
  constants.errno.ENOMEM,
]);

/**
 * `held` waits for its request; `killed` was sent SIGKILL; `draining` has exited, its output isn't
 * complete.
 */
type Phase = 'held' | 'running' | 'grace' | 'killed' | 'draining' | 'ended';

interface CapturedOutput {
  readonly max: number;
  readonly chunks: Buffer[];
  bytes: number;
  closed: boolean;
}

/** A process from start to end, as in native/life.h. */
export class NodeProcess {
  readonly marker: string | undefined;
  readonly #start: SpawnerStart;
  readonly #send: (event: SpawnerEvent) => void;
  readonly #onEnd: () => void;
  readonly #stdout: CapturedOutput;
  readonly #stderr: CapturedOutput;
  #child: ChildProcessWithoutNullStreams | undefined;
  #phase: Phase;
  #timer: NodeJS.Timeout | undefined;
  #stopped: StopReason | undefined;
  #fed = false;
  #spoiled = false;
  #overflowed = false;
  #truncated = false;
  #exit: Pick<SpawnerEnd, 'kind' | 'code'> = { kind: 'exited', code: 0 };
  #spawnUs = 0;
  #runUs = 0;
  #since: number;
  #watch: UsageWatch | undefined;

  constructor(start: SpawnerStart, send: (event: SpawnerEvent) => void, onEnd: () => void) {
    this.marker = start.spec.env[MARKER_KEY];
    this.#start = start;
    this.#send = send;
    this.#onEnd = onEnd;
    this.#phase = start.hold ? 'held' : 'running';
    this.#stdout = { max: start.spec.stdoutBytesMax, chunks: [], bytes: 0, closed: false };
    this.#stderr = { max: start.spec.stderrBytesMax, chunks: [], bytes: 0, closed: false };
    this.#since = performance.now();
  }

  /** Starts the process. Node throws some errors and emits others: both mean that nothing runs. */
  begin(): void {
    const { entrypoint, cwd, env, wrapper = [], limits = {} } = this.#start.spec;
    const [program, ...args] = withFileLimit([...wrapper, entrypoint], limits.fileBytes);
    try {
      this.#child = spawn(program, args, { cwd, env, detached: true, stdio: 'pipe' });
    } catch (error) {
      this.refuse(errnoOf(error), undefined);
      return;
    }
    const child = this.#child;
    child.stdin.on('error', () => {});
    if (child.pid === undefined) {
      child.on('error', (error) => this.refuse(errnoOf(error), undefined));
      return;
    }
    child.on('error', () => {});
    const started = performance.now();
    this.#spawnUs = toUs(started - this.#since);
    this.#since = started;
    this.#send({ type: 'started', id: this.#start.id, pid: child.pid });
    child.on('exit', (code, signal) => this.#onExit(code, signal));
    this.#listen(child.stdout, this.#stdout);
    this.#listen(child.stderr, this.#stderr);
    this.#watch = new UsageWatch(child.pid, limits, (reason) => this.#exceed(reason));
    if (this.#start.hold) return;
    this.#wait(this.#start.spec.timeoutMs);
    child.stdin.end(this.#start.request);
  }

  refuse(code: number, reason: StopReason | undefined): void {
    this.#exit = { kind: 'unstarted', code };
    this.#stopped = reason;
    this.#finish();
  }

  /**
   * Sends the request, after earlier output was read in this turn of the event loop. The first byte is
   * sent alone: if the process doesn't accept it, it counts as spoiled.
   */
  feed({ request, timeoutMs }: SpawnerFeed): void {
    setImmediate(() => {
      if (this.#phase !== 'held') return;
      const stdin = this.#child?.stdin;
      this.#fed = true;
      this.#phase = 'running';
      this.#since = performance.now();
      this.#wait(timeoutMs);
      if (request.length > 0) {
        stdin?.write(request.subarray(0, 1), (error) => {
          if (error !== null && error !== undefined) this.#spoil();
        });
      }
      stdin?.end(request.subarray(1));
    });
  }

  stop(reason: StopReason): void {
    if (this.#phase === 'draining') this.#cut();
    if (this.#phase !== 'held' && this.#phase !== 'running') return;
    if (this.#start.spec.killGraceMs === 0) {
      this.kill(reason);
      return;
    }
    this.#stopped = reason;
    this.#signal('SIGTERM');
    this.#signal('SIGCONT');
    this.#phase = 'grace';
    this.#wait(this.#start.spec.killGraceMs);
  }

  kill(reason: StopReason | undefined): void {
    this.#signal('SIGKILL');
    if (this.#phase === 'draining') this.#cut();
    if (this.#phase === 'ended') return;
    this.#stopped ??= reason;
    this.#phase = 'killed';
    this.#wait(KILL_PATIENCE_MS);
  }

  #exceed(reason: LimitReason): void {
    if (this.#phase === 'draining' || this.#phase === 'killed' || this.#phase === 'ended') return;
    if (reason === 'cpu') this.stop(reason);
    else this.kill(reason);
  }

  #listen(stream: Readable, output: CapturedOutput): void {
    stream.on('error', () => {});
    stream.on('data', (chunk: Buffer) => this.#capture(chunk, output));
    stream.on('close', () => {
      output.closed = true;
      if (output === this.#stdout && this.#phase === 'held') this.#spoil();
      this.#finishIfDone();
    });
  }

  #capture(chunk: Buffer, output: CapturedOutput): void {
    if (this.#phase === 'held' || this.#spoiled) {
      this.#spoil();
      return;
    }
    const free = output.max - output.bytes;
    if (free > 0) output.chunks.push(chunk.length > free ? chunk.subarray(0, free) : chunk);
    output.bytes += Math.min(free, chunk.length);
    if (chunk.length <= free) return;
    if (output === this.#stderr) {
      this.#truncated = true;
      return;
    }
    this.#overflowed = true;
    this.#child?.stdout.destroy();
    if (this.#phase === 'running') this.stop('output');
  }

  #spoil(): void {
    if (this.#spoiled) return;
    this.#spoiled = true;
    this.#send({ type: 'spoiled', id: this.#start.id });
    this.#closeStreams();
    this.kill(undefined);
  }

  #onExit(code: number | null, signal: NodeJS.Signals | null): void {
    if (this.#phase === 'ended') return;
    this.#exit =
      signal === null
        ? { kind: 'exited', code: code ?? 0 }
        : { kind: 'signalled', code: constants.signals[signal] };
    this.#stopped ??= reasonOf(signal, this.#start.spec.limits);
    this.#watch?.end();
    this.#runUs = toUs(performance.now() - this.#since);
    this.#phase = 'draining';
    this.#wait(this.#start.spec.drainMs);
    this.#finishIfDone();
  }

  #wait(ms: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#expire(), Math.min(ms, TIMER_MS_MAX));
  }

  #expire(): void {
    if (this.#phase === 'running') this.stop('timeout');
    else if (this.#phase === 'grace') this.kill(this.#stopped);
    else if (this.#phase === 'draining') setImmediate(() => this.#cut());
    else if (this.#phase === 'killed') {
      this.#exit = { kind: 'signalled', code: constants.signals.SIGKILL };
      this.#runUs = toUs(performance.now() - this.#since);
      this.#cut();
    }
  }

  #cut(): void {
    this.#closeStreams();
    this.#finish();
  }

  #closeStreams(): void {
    this.#child?.stdin.destroy();
    this.#child?.stdout.destroy();
    this.#child?.stderr.destroy();
  }

  #finishIfDone(): void {
    if (this.#phase === 'draining' && this.#stdout.closed && this.#stderr.closed) this.#finish();
  }

  #finish(): void {
    if (this.#phase === 'ended') return;
    clearTimeout(this.#timer);
    this.#watch?.end();
    if (this.#start.hold && !this.#fed && !this.#spoiled) {
      this.#send({ type: 'spoiled', id: this.#start.id });
    }
    this.#signal('SIGKILL');
    this.#child?.stdin.destroy();
    this.#phase = 'ended';
    this.#onEnd();
    this.#send(this.#toEnd());
  }

  #toEnd(): SpawnerEnd {
    const { kind, code } = this.#exit;
    return {
      type: 'end',
      id: this.#start.id,
      kind,
      code,
      stopped: this.#stopped,
      stdoutOverflowed: this.#overflowed,
      stderrTruncated: this.#truncated,
      hostFull: kind === 'unstarted' && HOST_FULL.has(code),
      pid: this.#child?.pid ?? 0,
      spawnUs: this.#spawnUs,
      runUs: this.#runUs,
      // Node doesn't report usage, so only watched processes have it.
      cpuUs: undefined,
      memoryPeakBytes: this.#watch?.memoryPeakBytes,
      stdout: Buffer.concat(this.#stdout.chunks),
      stderr: Buffer.concat(this.#stderr.chunks),
    };
  }

  /**
   * Signals the group. libuv reaps the leader at once, so after its exit the number is only ours
   * while the group has members. Pids are assigned in sequence, so it isn't reused during a drain.
   */
  #signal(signal: NodeJS.Signals): void {
    const pid = this.#child?.pid;
    if (pid !== undefined && this.#phase !== 'ended') sendSignal(-pid, signal);
  }
}

/** Detects limits that the kernel enforced. */
function reasonOf(
  signal: NodeJS.Signals | null,
  { fileBytes }: ProcessLimits = {},
): LimitReason | undefined {
  return signal === 'SIGXFSZ' && fileBytes !== undefined ? 'file_size' : undefined;
}

function toUs(ms: number): number {
  return Math.round(ms * 1000);
}

function errnoOf(error: unknown): number {
  const errno = error instanceof Error && 'errno' in error ? error.errno : undefined;
  return typeof errno === 'number' ? Math.abs(errno) : constants.errno.EINVAL;
}
