/**
 * Enforces limits of a process and its descendants for the spawner in Node. Node can neither limit
 * a child nor read its usage, so this reads /proc, as native/usage.h does. Other systems aren't
 * watched.
 */
import { readdirSync, readFileSync } from 'node:fs';
import type { LimitReason, ProcessLimits } from '../process.ts';

const POLL_MS = 50;
/** Reading /proc uses about 1/50 of a CPU at most, and happens at least once a second. */
const POLL_SHARE = 50;
const POLL_MS_MAX = 1000;
const MEMBERS_MAX = 4096;
/** The unit of `ulimit -f`. */
const BLOCK_BYTES = 512;
/** The kernel's unit of CPU time. */
const TICKS_PER_SECOND = 100;

/**
 * Starts the program through a shell that limits its file size, since Node can't. The shell is
 * replaced by the program. If the program can't start, the exit code is the shell's 126 or 127.
 */
export function withFileLimit(
  words: readonly string[],
  fileBytes: number | undefined,
): [program: string, ...args: string[]] {
  const [program = '', ...args] = words;
  if (fileBytes === undefined) return [program, ...args];
  const blocks = Math.max(1, Math.floor(fileBytes / BLOCK_BYTES));
  return ['/bin/sh', '-c', `ulimit -f ${blocks}; exec "$0" "$@"`, program, ...args];
}

interface Usage {
  readonly memoryBytes: number;
  readonly cpuMs: number;
  readonly pids: readonly number[];
}

export class UsageWatch {
  /** The highest value seen; undefined before the first reading. */
  memoryPeakBytes: number | undefined;
  readonly #pid: number;
  readonly #limits: ProcessLimits;
  readonly #onExceeded: (reason: LimitReason) => void;
  #timer: NodeJS.Timeout | undefined;

  constructor(pid: number, limits: ProcessLimits, onExceeded: (reason: LimitReason) => void) {
    this.#pid = pid;
    this.#limits = limits;
    this.#onExceeded = onExceeded;
    const { memoryBytes, processes, cpuMs } = limits;
    const isWatched = [memoryBytes, processes, cpuMs].some((limit) => limit !== undefined);
    if (isWatched && process.platform === 'linux') this.#pollIn(POLL_MS);
  }

  end(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  #pollIn(ms: number): void {
    this.#timer = setTimeout(() => {
      const before = process.cpuUsage();
      const usage = readUsage(this.#pid);
      const reason = this.#findExceeded(usage);
      const { user, system } = process.cpuUsage(before);
      const leastMs = ((user + system) / 1000) * POLL_SHARE;
      this.#pollIn(Math.min(POLL_MS_MAX, Math.max(POLL_MS, leastMs)));
      if (reason !== undefined) this.#onExceeded(reason);
    }, ms);
  }

  #findExceeded({ memoryBytes, cpuMs, pids }: Usage): LimitReason | undefined {
    const {
      memoryBytes: memoryMax = Infinity,
      processes: processesMax = Infinity,
      cpuMs: cpuMax = Infinity,
    } = this.#limits;
    const memory = memoryBytes > memoryMax ? readExactMemory(pids) : memoryBytes;
    if (pids.length > 0) this.memoryPeakBytes = Math.max(memory, this.memoryPeakBytes ?? 0);
    if (memory > memoryMax) return 'memory';
    if (pids.length > processesMax) return 'processes';
    return cpuMs >= cpuMax ? 'cpu' : undefined;
  }
}

/** Reads the usage of all descendants. */
function readUsage(leader: number): Usage {
  const found = [leader];
  const pids: number[] = [];
  let memoryBytes = 0;
  let cpuMs = 0;
  for (const pid of found) {
    const status = readProc(pid, 'status');
    if (status === undefined) continue;
    cpuMs += readCpuMs(pid);
    if (/^State:\t[ZX]/m.test(status)) continue;
    pids.push(pid);
    memoryBytes +=
      numberIn(status, 'RssAnon') + numberIn(status, 'RssShmem') + numberIn(status, 'VmSwap');
    if (found.length < MEMBERS_MAX) found.push(...listChildren(pid));
  }
  return { memoryBytes, cpuMs, pids };
}

/** Divides shared memory among the processes that share it. Skips processes that can't be read. */
function readExactMemory(pids: readonly number[]): number {
  let sum = 0;
  for (const pid of pids) {
    const text = readProc(pid, 'smaps_rollup') ?? '';
    sum += numberIn(text, 'Pss') - numberIn(text, 'Pss_File') + numberIn(text, 'SwapPss');
  }
  return sum;
}

function listChildren(pid: number): number[] {
  let threads: string[];
  try {
    threads = readdirSync(`/proc/${pid}/task`);
  } catch {
    return [];
  }
  return threads.flatMap((thread) => {
    const text = readProc(pid, `task/${thread}/children`) ?? '';
    return text.split(' ').filter(Boolean).map(Number);
  });
}

function readCpuMs(pid: number): number {
  const stat = readProc(pid, 'stat') ?? '';
  // The program's name may contain anything; the times follow it.
  const times = stat
    .slice(stat.lastIndexOf(')') + 2)
    .split(' ')
    .slice(11, 15);
  return (times.reduce((sum, time) => sum + Number(time), 0) * 1000) / TICKS_PER_SECOND;
}

/** Returns bytes; /proc has kilobytes. */
function numberIn(text: string, name: string): number {
  return 1024 * Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(text)?.[1] ?? 0);
}

function readProc(pid: number, name: string): string | undefined {
  try {
    return readFileSync(`/proc/${pid}/${name}`, 'utf8');
  } catch {
    return undefined;
  }
}
