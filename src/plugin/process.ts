/** Types of plugin processes and of the host that starts them. They know neither jobs nor JSON. */

/** Access of a confined process beyond the system, the plugins and a private /tmp. */
export interface IsolationRules {
  /** `none`: only a private loopback interface. */
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
  /** A program with arguments that starts the entrypoint as its last argument. */
  readonly wrapper?: readonly string[];
  /** The isolation that the plugin's configuration sets. */
  readonly isolation?: IsolationRequest | undefined;
  /** The complete environment: nothing is inherited. */
  readonly env: Readonly<Record<string, string>>;
  /**
   * Time from the start (or, for a prewarmed process, from its request) to SIGTERM for its group.
   */
  readonly timeoutMs: number;
  /** Time from SIGTERM to SIGKILL. */
  readonly killGraceMs: number;
  /** Time from the exit until output that a descendant holds open is cut off. */
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
 * How the process ended. `unstarted` never ran: `code` is the errno name. `hostFull` means that the
 * machine lacked processes, descriptors or memory.
 */
export type ProcessExit =
  | { readonly kind: 'exited'; readonly code: number }
  | { readonly kind: 'signalled'; readonly signal: string }
  | { readonly kind: 'unstarted'; readonly code: string; readonly hostFull: boolean };

/** The limit that ended it. `memory` includes the kernel's out-of-memory killer. */
export type LimitReason = 'memory' | 'processes' | 'cpu' | 'file_size';

/** The first reason for stopping it. `fenced`: the heartbeat deadline of the service passed. */
export type StopReason = 'timeout' | 'cancelled' | 'output' | 'fenced' | 'shutdown' | LimitReason;

export interface ProcessEnd {
  readonly exit: ProcessExit;
  readonly stopped: StopReason | undefined;
  readonly pid: number | undefined;
  readonly stdout: Buffer;
  /** True if it printed more than stdoutBytesMax; `stdout` holds the beginning. */
  readonly stdoutOverflowed: boolean;
  readonly stderr: Buffer;
  readonly stderrTruncated: boolean;
  readonly spawnMs: number;
  readonly runMs: number;
  /**
   * User and system time of the process and the children that it waited for; undefined if unknown.
   */
  readonly cpuMs: number | undefined;
  /** The highest memory use seen, at least that of its largest process. */
  readonly memoryPeakBytes: number | undefined;
}

export interface RunOptions {
  /**
   * Aborting stops the process group: SIGTERM, grace, SIGKILL. The reason is `cancelled` or
   * `shutdown`.
   */
  readonly signal?: AbortSignal;
  readonly onStarted?: (pid: number) => void;
}

interface FeedOptions extends RunOptions {
  /** Replaces the timeout of the spec, which was set before the request was known. */
  readonly timeoutMs?: number;
}

/** A process that started ahead of its request and waits for it on stdin. */
export interface HeldProcess {
  /** Sends the request, once, and waits for the end. */
  feed(request: Buffer, options?: FeedOptions): Promise<ProcessEnd>;
  discard(): void;
  /** Resolves when it printed or ended before its request, so that it can be replaced. */
  readonly spoiled: Promise<void>;
}

export interface Host {
  readonly kind: 'native' | 'node';
  /** Resolves when the spawner runs and no spawner of an earlier service is alive. */
  start(): Promise<void>;
  /** Rejects with SPAWNER_FAILED when the spawner died: neither plugin nor job is at fault. */
  run(spec: ProcessSpec, request: Buffer, options?: RunOptions): Promise<ProcessEnd>;
  hold(spec: ProcessSpec): HeldProcess;
  /** Extends the deadline after which the spawner kills all processes. */
  renew(ms: number): void;
  /** Kills running processes and ends the spawner. */
  stop(): Promise<void>;
}
