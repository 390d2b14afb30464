/** What the engine asks of whatever starts processes, and what it is told. No job, no JSON here. */

/** Access of a confined process beyond the system, the plugins and a private /tmp. */
export interface IsolationRules {
  /** `none`: no network but a loopback of its own. */
  readonly network: 'host' | 'none';
  /** Directories and files that it may read. */
  readonly read: readonly string[];
  /** Directories that it may write. */
  readonly write: readonly string[];
}

/** The isolation settings of one plugin; the default network is the host's. */
export interface IsolationRequest extends Omit<IsolationRules, 'network'> {
  readonly network: IsolationRules['network'] | undefined;
}

export interface ProcessSpec {
  /** Absolute path of the program; it gets no arguments. */
  readonly entrypoint: string;
  readonly cwd: string;
  /** What it is started through: a program with its arguments, the last of which it will be. */
  readonly wrapper?: readonly string[];
  /** How the process is confined, when the plugin's configuration says so. */
  readonly isolation?: IsolationRequest | undefined;
  /** The whole environment: nothing is inherited. */
  readonly env: Readonly<Record<string, string>>;
  /** From the start of the process (or, prewarmed, from its request) until SIGTERM to its group. */
  readonly timeoutMs: number;
  /** From SIGTERM until SIGKILL. */
  readonly killGraceMs: number;
  /** From the exit of the process until output that somebody else still holds open is cut off. */
  readonly drainMs: number;
  readonly stdoutBytesMax: number;
  readonly stderrBytesMax: number;
  readonly limits?: ProcessLimits;
}

/** Limits for all processes of one attempt together. Undefined means unlimited. */
export interface ProcessLimits {
  readonly memoryBytes?: number | undefined;
  /** Processes at the same time; threads are not counted. */
  readonly processes?: number | undefined;
  readonly cpuMs?: number | undefined;
  /** The size of each file that it writes. */
  readonly fileBytes?: number | undefined;
}

/**
 * How the process itself ended. `unstarted` never ran: `code` is the errno name, and `hostFull`
 * says that the machine lacked processes, descriptors or memory, which is no fault of the plugin.
 */
export type ProcessExit =
  | { readonly kind: 'exited'; readonly code: number }
  | { readonly kind: 'signalled'; readonly signal: string }
  | { readonly kind: 'unstarted'; readonly code: string; readonly hostFull: boolean };

/** A limit that ended it. `memory` also stands for the kernel's own end for lack of memory. */
export type LimitReason = 'memory' | 'processes' | 'cpu' | 'file_size';

/** Why it was ended, when it was; the first reason wins. `fenced`: the engine's deadline passed. */
export type StopReason = 'timeout' | 'cancelled' | 'output' | 'fenced' | 'shutdown' | LimitReason;

export interface ProcessEnd {
  readonly exit: ProcessExit;
  readonly stopped: StopReason | undefined;
  readonly pid: number | undefined;
  readonly stdout: Buffer;
  /** More than stdoutBytesMax came; `stdout` holds the prefix. */
  readonly stdoutOverflowed: boolean;
  readonly stderr: Buffer;
  readonly stderrTruncated: boolean;
  readonly spawnMs: number;
  readonly runMs: number;
  /** User and system time of the process and of those that it waited for; undefined if unknown. */
  readonly cpuMs: number | undefined;
  /** The most memory it was seen to use, at least that of its largest process. */
  readonly memoryPeakBytes: number | undefined;
}

export interface RunOptions {
  /** Aborting stops the group: SIGTERM, grace, SIGKILL. The reason is `cancelled` or `shutdown`. */
  readonly signal?: AbortSignal;
  readonly onStarted?: (pid: number) => void;
}

export interface FeedOptions extends RunOptions {
  /** Instead of the spec's: it was started before anybody knew what it would be asked. */
  readonly timeoutMs?: number;
}

/** A process that was started ahead of its request and waits for it on stdin. */
export interface HeldProcess {
  /** Gives it its request, once, and waits for its end. */
  feed(request: Buffer, options?: FeedOptions): Promise<ProcessEnd>;
  discard(): void;
  /** Resolves when it printed or ended before it was fed, so that it can be replaced. */
  readonly spoiled: Promise<void>;
}

export interface Host {
  readonly rung: 'native' | 'node';
  /** Resolves when the helper runs and no helper of an earlier engine is left alive. */
  start(): Promise<void>;
  /** Rejects with SPAWNER_FAILED when the helper died under the process: nobody's fault. */
  run(spec: ProcessSpec, request: Buffer, options?: RunOptions): Promise<ProcessEnd>;
  hold(spec: ProcessSpec): HeldProcess;
  /** Processes live until this long from now unless renewed; then the helper kills them all. */
  renew(ms: number): void;
  /** Kills what still runs and ends the helper. */
  stop(): Promise<void>;
}
